"""The collector's Kubernetes side against a real API server, with the rights that we ship and no others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.kube.access import Access, service_account
from leadsman.kube.api import STRATEGIC_MERGE_PATCH, connect
from leadsman.kube.kube_api import KubeApi
from leadsman.testing.waiting import eventually, wait_for
from leadsman_e2e.api import Api, ApiError, Object, condition
from leadsman_e2e.collector import NFS, NODES, RBD, counts, described_events, register, storage_ready
from leadsman_e2e.plane import ControlPlane
from leadsman_e2e.rights import COLLECTOR, NAMESPACE
from leadsman_e2e.timings import Timings
from leadsman_e2e.tokens import pod_kubeconfig, pod_token
from leadsman_health_collector.cluster_view import AttachSlots
from leadsman_health_collector.kube.cluster_link import ClusterLink
from leadsman_health_collector.kube.condition import CONDITION
from leadsman_health_collector.reporter import Transition

pytestmark = pytest.mark.e2e

POLICY = "leadsman-health-collector-node-condition"
NODE, OTHER = NODES
KEY = StorageKey(NFS, "10.0.0.9")
HEALTHY = StorageStatus(KEY, State.HEALTHY)
HUNG = StorageStatus(KEY, State.UNHEALTHY, Reason.MOUNT_HUNG, message="statvfs has not returned for 15 s")


@pytest.fixture
def kubeconfig(plane: ControlPlane, nodes: None, tmp_path: Path) -> Path:
    """The access of a collector's pod on the node."""
    return pod_kubeconfig(plane, tmp_path / "kubeconfig", NAMESPACE, COLLECTOR, NODE)


@pytest.fixture
async def link(kubeconfig: Path) -> AsyncIterator[ClusterLink]:
    """All parts, at work."""
    api = await connect(kubeconfig, user_agent="leadsman-e2e")
    link = ClusterLink(api, NODE, events=True, node_condition=True, clock=SystemClock(), registry=CollectorRegistry())
    running = asyncio.gather(*link.tasks().values())
    await until("the node is read", lambda: link.view.node_uid and link.view.registered is not None)
    yield link
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await link.close()


@pytest.fixture
def as_collector(plane: ControlPlane, nodes: None) -> Api:
    """A client with the token of the collector's pod on the node."""
    return Api(plane.server, pod_token(plane.api, NAMESPACE, COLLECTOR, NODE), plane.ca)


async def until(what: str, observe: Callable[[], object], within_s: float = 15.0) -> None:
    await eventually(what, observe, within_s=within_s, every_s=0.02)


def write(api: Api, node: str, body: Object, subresource: str = "/status") -> Object:
    """Patch a Node as the collector does."""
    path = f"/api/v1/nodes/{node}{subresource}"
    answer: Object = json.loads(api.request("PATCH", path, body, content_type=STRATEGIC_MERGE_PATCH))
    return answer


def conditions(*types: str, status: str = "False") -> Object:
    listed = [{"type": one, "status": status, "reason": "Test", "message": "test"} for one in types]
    return {"status": {"conditions": listed}}


async def test_node_and_drivers_are_read_and_followed(api: Api, link: ClusterLink, timings: Timings) -> None:
    """Labels, registered drivers and the cluster's drivers; a changed label is seen well within two seconds."""
    await until("the drivers are read", lambda: link.view.cluster_drivers >= {NFS, RBD})
    assert link.view.labels["zone"] == "a"
    assert link.view.labels["kubernetes.io/hostname"] == NODE
    assert link.view.node_uid == api.get("Node", NODE)["metadata"]["uid"]
    assert link.view.registered == frozenset({NFS})
    assert all(check.probe()[0] for check in link.checks()), [check.probe() for check in link.checks()]

    started = time.monotonic()
    api.patch("Node", NODE, {"metadata": {"labels": {"zone": "b"}}})
    await until("the label is seen", lambda: link.view.labels["zone"] == "b", within_s=2)
    timings.note("a changed Node label reaches the collector", time.monotonic() - started)

    register(api, NODE)
    await until("the driver is gone", lambda: link.view.registered == frozenset(), within_s=2)
    register(api, NODE, NFS)
    await until("the driver is back", lambda: link.view.registered == frozenset({NFS}), within_s=2)


async def test_attach_slots_are_read_and_followed(api: Api, link: ClusterLink) -> None:
    """The limit that a driver has told the kubelet, and what the attach-detach controller has attached."""
    limited = {"name": NFS, "nodeID": NODE, "allocatable": {"count": 8}}
    volume = {"name": f"kubernetes.io/csi/{NFS}^vol-1", "devicePath": ""}
    register(api, NODE)
    api.patch("CSINode", NODE, {"spec": {"drivers": [limited]}})
    await until("the limit is seen", lambda: link.view.attach_slots == {NFS: AttachSlots(8, 0)}, within_s=2)
    api.patch_status("Node", NODE, {"volumesAttached": [volume]})
    await until("the volume is seen", lambda: link.view.attach_slots == {NFS: AttachSlots(8, 1)}, within_s=2)
    api.patch_status("Node", NODE, {"volumesAttached": None})
    register(api, NODE)
    register(api, NODE, NFS)
    await until("there is no limit", lambda: not link.view.attach_slots, within_s=2)


async def test_pod_credentials_are_read_without_the_client_library(
    plane: ControlPlane, nodes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files and variables that a kubelet gives a pod are enough, over TLS with the cluster's own authority."""
    address = plane.server.removeprefix("https://").split(":")
    for name, value in zip(("HOST", "PORT"), address, strict=True):
        monkeypatch.setenv(f"KUBERNETES_SERVICE_{name}", value)
    (tmp_path / "ca.crt").write_bytes(plane.ca.read_bytes())
    (tmp_path / "token").write_text(pod_token(plane.api, NAMESPACE, COLLECTOR, NODE))

    async def load() -> Access:
        return service_account(tmp_path)

    api = KubeApi(load, await load(), "leadsman-e2e")
    link = ClusterLink(api, NODE, events=False, node_condition=False, clock=SystemClock(), registry=CollectorRegistry())
    running = asyncio.gather(*link.tasks().values())
    await until("the node is read", lambda: link.view.node_uid)
    running.cancel()
    await asyncio.wait({running})
    await link.close()


async def test_event_appears_on_the_node_and_is_counted(api: Api, link: ClusterLink) -> None:
    """`kubectl describe node` shows one line for what has happened twice, and one for the recovery."""
    expected = {"MountHung": 1}, {"MountHung": 1, "StorageHealthy": 1}, {"MountHung": 2, "StorageHealthy": 1}
    for change, wanted in zip(((HEALTHY, HUNG), (HUNG, HEALTHY), (HEALTHY, HUNG)), expected, strict=True):
        link.on_transition(Transition(storages=(change,)))
        await eventually(f"the events are {wanted}", lambda: counts(api, NODE, NFS), wanted.__eq__, within_s=15)
    hung = next(event for event in described_events(api, NODE) if event["reason"] == "MountHung")
    assert hung["type"] == "Warning"
    assert hung["message"] == f"{NFS}/10.0.0.9 is UNHEALTHY: statvfs has not returned for 15 s"
    assert hung["metadata"]["namespace"] == "default"
    assert hung["firstTimestamp"] <= hung["lastTimestamp"]


async def test_condition_is_set_and_cleared_and_the_rest_of_the_node_stays(api: Api, link: ClusterLink) -> None:
    """The policy lets the collector's own writes pass."""
    before = api.get("Node", NODE)
    link.show([HUNG])
    await until("the condition is False", lambda: storage_ready(api, NODE).get("status") == "False")
    assert storage_ready(api, NODE)["reason"] == "MountHung"
    link.show([HEALTHY])
    await until("the condition is True", lambda: storage_ready(api, NODE)["status"] == "True")
    assert storage_ready(api, NODE)["lastTransitionTime"] > before["metadata"]["creationTimestamp"]
    after = api.get("Node", NODE)
    assert condition(after, "Ready") == condition(before, "Ready")
    for part in ("capacity", "allocatable", "nodeInfo", "addresses"):
        assert after["status"].get(part) == before["status"].get(part)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


def test_policy_is_understood_by_the_api_server(api: Api, nodes: None) -> None:
    """Every expression is typed without a complaint."""
    status = wait_for(
        "the policy is checked",
        lambda: api.get("ValidatingAdmissionPolicy", POLICY).get("status", {}),
        lambda status: "observedGeneration" in status,
    )
    assert status.get("typeChecking", {}) == {}


@pytest.mark.parametrize(
    ("node", "body", "words"),
    [
        (OTHER, conditions(CONDITION), "of its own Node only"),
        (NODE, conditions("Ready"), "the condition leadsman.dev/StorageReady only"),
        (NODE, conditions("Other"), "the condition leadsman.dev/StorageReady only"),
        (NODE, conditions(CONDITION, "Ready"), "the condition leadsman.dev/StorageReady only"),
        (NODE, {"status": {"capacity": {"cpu": "400"}}}, "the conditions of a Node's status and nothing else"),
        (NODE, {"status": {"addresses": [{"type": "InternalIP", "address": "10.6.6.6"}]}}, "and nothing else"),
        (NODE, {"status": {"capacity": None}}, "and nothing else"),
        (NODE, {"status": {"features": {"supplementalGroupsPolicy": True}}}, "and nothing else"),
        (NODE, {"metadata": {"labels": {"zone": None}}}, "may not write the labels"),
        (NODE, {"metadata": {"labels": {"zone": "mine"}}}, "may not write the labels"),
        (NODE, {"metadata": {"annotations": {"a": "b"}}}, "may not write the labels, annotations"),
    ],
)
def test_policy_refuses_all_but_the_own_condition(as_collector: Api, node: str, body: Object, words: str) -> None:
    """A stolen token cannot move pods about, nor speak for another node."""
    refused = wait_for("the policy is enforced", lambda: refusal(as_collector, node, body), within_s=15)
    assert POLICY in refused
    assert words in refused


def refusal(api: Api, node: str, body: Object) -> str:
    """What the API server says to the write; empty if it takes it."""
    try:
        write(api, node, body)
    except ApiError as error:
        return str(error)
    return ""


def test_policy_refuses_a_token_that_is_bound_to_no_pod(plane: ControlPlane, nodes: None) -> None:
    """Such a token does not tell its node."""
    api = Api(plane.server, pod_token(plane.api, NAMESPACE, COLLECTOR, None), plane.ca)
    assert "with a token of a pod on that Node" in refusal(api, NODE, conditions(CONDITION))


def test_own_condition_may_be_written_by_hand(as_collector: Api, api: Api) -> None:
    """What the policy refuses is refused for its content, and not altogether; others are not concerned by it."""
    write(as_collector, NODE, conditions(CONDITION, status="Unknown"))
    assert storage_ready(api, NODE)["status"] == "Unknown"
    write(api, OTHER, conditions("Other"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/pods"),
        ("GET", "/api/v1/persistentvolumes"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps"),
        ("GET", "/api/v1/namespaces/default/events"),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/events"),
        ("PATCH", f"/api/v1/nodes/{NODE}"),
        ("DELETE", f"/api/v1/nodes/{NODE}"),
        ("PATCH", f"/apis/storage.k8s.io/v1/csinodes/{NODE}"),
        ("PATCH", f"/apis/storage.k8s.io/v1/csidrivers/{NFS}"),
    ],
)
def test_collector_has_no_other_right(as_collector: Api, method: str, path: str) -> None:
    """Each of these is forbidden by RBAC."""
    with pytest.raises(ApiError) as caught:
        as_collector.request(method, path, None if method == "GET" else {}, content_type=STRATEGIC_MERGE_PATCH)
    assert caught.value.status == 403
