"""What the collector's tests need in the cluster: its rights, and nodes for it to speak of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from leadsman_e2e import objects
from leadsman_e2e.api import Api, Object, Objects, condition
from leadsman_e2e.rights import COLLECTOR, NAMESPACE, apply_rights
from leadsman_health_collector.kube.condition import CONDITION

NODES = ("collector-1", "collector-2")
NFS, RBD = "nfs.collector.test", "rbd.collector.test"


@contextlib.contextmanager
def collector_nodes(api: Api) -> Iterator[None]:
    """The rights as shipped; and nodes with one registered driver each, of two that the cluster has."""
    apply_rights(api)
    for driver in (NFS, RBD):
        api.create(objects.csi_driver(driver))
    for name in NODES:
        objects.ready_node(api, name, labels={"zone": "a"}, drivers=[NFS])
    try:
        yield
    finally:
        for name in NODES:
            api.delete("Pod", f"{COLLECTOR}-{name}", NAMESPACE)
            api.delete("Node", name)
            api.delete("CSINode", name)
        for driver in (NFS, RBD):
            api.delete("CSIDriver", driver)


def register(api: Api, node: str, *drivers: str) -> None:
    """Let the CSINode of `node` list exactly `drivers`, as its kubelet would."""
    api.patch("CSINode", node, {"spec": {"drivers": [{"name": driver, "nodeID": node} for driver in drivers]}})


def described_events(api: Api, node: str) -> Objects:
    """Ours among the events that `kubectl describe node` finds: by name, and by UID or by name in place of it."""
    uid = api.get("Node", node)["metadata"]["uid"]
    about = f"involvedObject.name={node},involvedObject.namespace=,involvedObject.kind=Node"
    return [
        event
        for one in (uid, node)
        for event in api.list("Event", fields=f"{about},involvedObject.uid={one}")
        if event["source"]["component"] == COLLECTOR
    ]


def counts(api: Api, node: str, driver: str) -> dict[str, int]:
    """Reason to count of those of these events that speak of `driver`."""
    return {event["reason"]: event["count"] for event in described_events(api, node) if driver in event["message"]}


def storage_ready(api: Api, node: str) -> Object:
    """Our condition of `node`; empty when there is none."""
    return condition(api.get("Node", node), CONDITION) or {}
