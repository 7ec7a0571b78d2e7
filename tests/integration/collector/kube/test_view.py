"""The view of this node follows the API server, and stands while it is away or says no."""

import time
from dataclasses import replace
from functools import partial

import pytest

from leadsman.kube.watched import WatchSettings
from leadsman.testing.clock import FakeClock
from leadsman.testing.kube_api import Failure
from leadsman_health_collector.cluster_view import NOTHING_KNOWN, AttachSlots, KubeletVerdict
from leadsman_health_collector.kube.cluster_watch import ClusterWatch
from leadsman_health_collector.kube.metrics import ViewMetrics

from .conftest import NODE, csi_node, node

pytestmark = pytest.mark.integration

NFS, RBD = "nfs.csi.k8s.io", "rbd.csi.ceph.com"
QUICK = WatchSettings(watch_s=60.0, relist_s=60.0, idle_s=130.0, backoff_s=0.02, backoff_limit_s=0.1)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def watch(api, clock, registry):
    return ClusterWatch(api, NODE, clock=clock, metrics=ViewMetrics(registry), own=QUICK, drivers=QUICK)


async def test_view_is_filled_from_three_objects(server, watch, running, soon):
    """Labels and UID, registered drivers, drivers of the cluster; other nodes' objects are none of ours."""
    await server.put("nodes", node("u-1", zone="a"))
    await server.put("nodes", {"metadata": {"name": "worker-2", "uid": "u-2", "labels": {"zone": "b"}}})
    await server.put("csinodes", csi_node(NFS))
    await server.put("csinodes", {"metadata": {"name": "worker-2"}, "spec": {"drivers": [{"name": RBD}]}})
    for driver in (NFS, RBD):
        await server.put("csidrivers", {"metadata": {"name": driver}, "spec": {"attachRequired": False}})
    assert watch.view is NOTHING_KNOWN
    async with running(watch):
        await soon("all is read", lambda: watch.describe()[0])

        assert (watch.view.node_uid, watch.view.labels) == ("u-1", {"zone": "a"})
        assert watch.view.registered == frozenset({NFS})
        assert watch.view.cluster_drivers == {NFS, RBD}
        assert watch.view.storage_health == ()
        assert watch.describe() == (True, "1 labels, 1 registered drivers")
        selector = f"fieldSelector=metadata.name%3D{NODE}"
        await soon("one list and one watch of both", lambda: server.count(selector) == 4)


async def test_changes_arrive_at_once_and_are_announced(server, watch, running, soon):
    """A label, a registration and the kubelet's finding; a status update of the Node is no change."""
    calls = []
    watch.on_change(lambda: calls.append(watch.view))
    await server.put("csinodes", csi_node())
    async with running(watch):
        await soon("all is read", lambda: watch.describe()[0])
        calls.clear()
        started = time.monotonic()
        await server.put("nodes", node("u-1", zone="b"))
        await soon("the label is seen", lambda: watch.view.labels == {"zone": "b"})
        assert time.monotonic() - started < 1.0
        await server.put("nodes", {**node("u-1", zone="b"), "status": {"conditions": [{"type": "Ready"}]}})
        await server.put("csinodes", csi_node(NFS))
        await soon("the driver is seen", lambda: watch.view.registered == {NFS})
        await server.put(
            "csinodes",
            csi_node(NFS, storageHealth=[{"name": NFS, "healthConditions": [{"status": "StorageUnreachable"}]}]),
        )
        await soon("the finding is seen", lambda: watch.view.storage_health)
        assert watch.view.storage_health == (KubeletVerdict(NFS, "StorageUnreachable"),)
        await server.put("csinodes", csi_node(RBD))
        await soon("the driver is gone", lambda: watch.view.registered == {RBD})
    assert [call.registered for call in calls] == [set(), {NFS}, {NFS}, {RBD}]


async def test_attach_slots_follow_csi_node_and_node(server, watch, running, soon):
    """A limit is the driver's, what is attached is the Node's; without the Node it is not known."""
    volumes = [{"name": f"kubernetes.io/csi/{NFS}^vol-{number}", "devicePath": ""} for number in range(3)]
    limited = csi_node(NFS, RBD)
    limited["spec"]["drivers"][0]["allocatable"] = {"count": 8}
    await server.put("csinodes", limited)
    async with running(watch):
        await soon("nothing is attached", lambda: watch.view.attach_slots == {NFS: AttachSlots(8, 0)})
        await server.put("nodes", {**node(), "status": {"volumesAttached": volumes}})
        await soon("three are attached", lambda: watch.view.attach_slots == {NFS: AttachSlots(8, 3)})
        await server.delete("nodes", NODE)
        await soon("it is not known", lambda: watch.view.attach_slots == {NFS: AttachSlots(8)})
        await server.put("csinodes", csi_node(NFS, RBD))
        await soon("there is no limit", lambda: watch.view.attach_slots == {})


async def test_no_csi_node_means_no_registered_driver(server, watch, running, soon):
    """The kubelet makes it with the first driver; its node exists."""
    async with running(watch):
        await soon("all is read", lambda: watch.describe()[0])
        assert watch.view.registered == frozenset()


async def test_no_node_at_all_says_nothing_about_drivers(server, watch, running, soon):
    """A wrong --node-name must not look like a node that has lost all its drivers, and is told."""
    await server.delete("nodes", NODE)
    async with running(watch):
        await soon("all is read", lambda: "check --node-name" in watch.describe()[1])
        assert not watch.describe()[0]
        assert watch.view.registered is None
        await server.put("nodes", node())
        await soon("the node has come", lambda: watch.describe()[0])
        assert watch.view.registered == frozenset()


async def test_last_view_stands_while_the_api_server_is_away(server, watch, clock, running, soon, metric):
    """And is brought up to date when it is back."""
    await server.put("nodes", node("u-1", zone="a"))
    await server.put("csinodes", csi_node(NFS))
    async with running(watch):
        await soon("all is read", lambda: watch.describe()[0])
        await server.stop()
        await soon("the loss is seen", lambda: metric("watch_up", kind="CSINode") == 0)
        before = watch.view
        assert watch.describe()[0], "a short loss is no degradation"
        clock.advance(31)
        assert "CSINode not watched for 31s, using what is known" in watch.describe()[1]
        assert watch.view is before
        await server.start()
        await server.put("csinodes", csi_node(NFS, RBD))
        await soon("it has caught up", lambda: watch.view.registered == {NFS, RBD})
        await soon("all is well", lambda: watch.describe()[0])


@pytest.mark.parametrize("resource", ["/nodes", "/csinodes", "/csidrivers"])
async def test_missing_right_stops_no_other_watch(server, watch, running, soon, resource):
    """What may not be read stays unknown; the rest is there, and the words say what to apply."""
    await server.put("nodes", node("u-1", zone="a"))
    await server.put("csinodes", csi_node(NFS))
    await server.put("csidrivers", {"metadata": {"name": NFS}})
    server.failures.append(Failure(403, resource))
    async with running(watch):
        labels = {} if resource == "/nodes" else {"zone": "a"}
        registered = None if resource == "/csinodes" else {NFS}
        drivers = set() if resource == "/csidrivers" else {NFS}
        await soon("the labels", lambda: watch.view.labels == labels)
        await soon("the registered drivers", lambda: watch.view.registered == registered)
        await soon("the cluster's drivers", lambda: watch.view.cluster_drivers == drivers)
        await soon("it is told", lambda: "apply deploy/health-collector/rbac.yaml" in watch.describe()[1])
        assert f"{resource[1:]}: 403" in watch.describe()[1]
        server.failures.clear()
        await soon("with the right all is read", lambda: watch.describe()[0])


async def test_refusal_is_not_hammered(server, api, registry, running, soon, metric):
    """Missing rights cost a few requests, not a stream of them."""
    server.failures.append(Failure(403))
    slow = replace(QUICK, backoff_s=0.2, backoff_limit_s=10.0)
    watch = ClusterWatch(api, NODE, clock=FakeClock(), metrics=ViewMetrics(registry), own=slow, drivers=slow)
    async with running(watch):
        refused = partial(metric, "watch_failures_total", kind="CSINode", cause="forbidden")
        await soon("three attempts were refused", lambda: refused() >= 3)
        assert server.count("GET") <= 15


async def test_own_objects_are_listed_again_after_a_minute(server, watch, clock, running, soon, metric):
    """Whatever a watch may have missed is mended."""
    async with running(watch):
        await soon("all is watched", lambda: server.count("watch=true") == 3)
        clock.advance(61)
        await server.cut()
        await soon("it was listed again", lambda: metric("relists_total", kind="CSINode") == 2)
        await soon("all is well", lambda: watch.describe()[0])


async def test_cut_labels_are_counted_once_per_change(server, watch, running, soon, metric):
    """A node with more labels than a report can hold keeps the short ones."""
    many = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE-{number}": "true" for number in range(300)}
    await server.put("nodes", node("u-1", zone="a", **many))
    async with running(watch):
        await soon("all is read", lambda: watch.describe()[0])
        assert watch.view.labels["zone"] == "a"
        cut = metric("labels_cut_total")
        assert cut == len(many) + 1 - len(watch.view.labels) > 0
        await server.put("csinodes", csi_node(NFS))
        await soon("another change", lambda: watch.view.registered == {NFS})
        assert metric("labels_cut_total") == cut


async def test_unreadable_findings_are_counted(server, watch, running, soon, metric):
    """They hide neither the drivers nor the others."""
    await server.put(
        "csinodes", csi_node(NFS, storageHealth=[7, {"name": NFS, "healthConditions": [{"status": "StorageDegraded"}]}])
    )
    async with running(watch):
        await soon("all is read", lambda: watch.describe()[0])
        assert watch.view.registered == {NFS}
        assert len(watch.view.storage_health) == 1
    assert metric("unread_storage_health_total") == 1


async def test_own_object_that_cannot_be_read_is_not_one_that_is_not_there(server, watch, clock, running, soon, metric):
    """Neither by list nor by watch: what was known of it stands, until it can be read again."""
    odd = {"metadata": {"name": NODE}, "spec": "odd"}
    await server.put("csinodes", csi_node(NFS))
    async with running(watch):
        await soon("all is read", lambda: watch.view.registered == {NFS})
        await soon("all is watched", lambda: server.count("watch=true") == 3)
        await server.put("csinodes", odd)
        await soon("the event was skipped", lambda: metric("bad_objects_total", kind="CSINode") >= 1)
        assert watch.view.registered == {NFS}
        clock.advance(61)
        await server.cut()
        await soon("it was listed again", lambda: metric("relists_total", kind="CSINode") == 2)
        assert watch.view.registered == {NFS}
        await server.put("csinodes", csi_node(RBD))
        await soon("it can be read again", lambda: watch.view.registered == {RBD})
        await server.delete("csinodes", NODE)
        clock.advance(61)
        await server.cut()
        await soon("it has gone", lambda: watch.view.registered == frozenset())


async def test_own_object_that_could_never_be_read_tells_nothing(server, watch, running, soon, metric):
    """Nobody knows which drivers it names."""
    await server.put("csinodes", {"metadata": {"name": NODE}, "spec": "odd"})
    async with running(watch):
        await soon("it was listed", lambda: metric("relists_total", kind="CSINode") == 1)
        await soon("the node is read", lambda: watch.view.node_uid)
        assert watch.view.registered is None


async def test_entries_that_name_no_driver_are_counted(server, watch, running, soon, metric):
    """And hide none that does."""
    await server.put("csinodes", {"metadata": {"name": NODE}, "spec": {"drivers": [7, {"name": NFS}]}})
    async with running(watch):
        await soon("the driver is there", lambda: watch.view.registered == {NFS})
    assert metric("bad_objects_total", kind="CSINode") == 1
