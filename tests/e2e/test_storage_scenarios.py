"""A node's broken storage keeps pods away from it, and only those that need that storage; its recovery lets them in."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from leadsman.testing.waiting import wait_for
from leadsman_e2e import objects
from leadsman_e2e.cluster import NODES, SPACE, WFFC_CLASS, Cluster, claim_of
from leadsman_e2e.setup import DRIVER
from leadsman_e2e.timings import Timings

pytestmark = pytest.mark.e2e

ON_NODE_3 = {"kubernetes.io/hostname": "node-3"}
FROZEN = f"node(s) had an unresponsive CSI driver ({DRIVER})"
REFUSED = f"node(s) had a storage backend that refuses connections ({DRIVER})"


@pytest.fixture
def node_3_frozen(cluster: Cluster) -> Iterator[None]:
    """The CSI driver of node-3 answers nothing any more."""
    with cluster.frozen("node-3"):
        yield


def test_a_deployment_with_a_claim_avoids_the_node_whose_driver_is_frozen(
    cluster: Cluster, node_3_frozen: None
) -> None:
    """All three replicas of a Deployment with a bound claim run, none of them on node-3."""
    with cluster.deployment("db", 3, volumes=[objects.claim_volume("nfs-a")], cpu="100m") as pods:
        assert "node-3" not in pods


def test_a_pod_without_volumes_may_land_on_the_broken_node(cluster: Cluster, node_3_frozen: None) -> None:
    """Broken storage is no reason against a pod that needs none."""
    with cluster.pod("no-volumes", node_selector=ON_NODE_3) as pod:
        assert cluster.await_bound(pod) == "node-3"


def test_with_every_node_broken_the_pod_is_pending_and_the_scheduler_rests(cluster: Cluster, timings: Timings) -> None:
    """The pod says why it waits, and equal reasons on every attempt keep kube-scheduler from spinning."""
    with (
        cluster.frozen(*NODES),
        cluster.pod("pending", volumes=[objects.claim_volume("nfs-a")]) as pod,
    ):
        message = cluster.await_unschedulable(pod, f"3 {FROZEN}")
        assert "3 Preemption is not helpful for scheduling" in message
        before = cluster.pipeline.calls("filter")
        assert before > 0
        time.sleep(8)  # the length of the observation, not a condition
        calls = cluster.pipeline.calls("filter") - before
        timings.note_count("filter calls in the 8 s after a rejection (at most 4)", calls)
        assert calls <= 4


def test_the_recovery_of_one_node_binds_a_waiting_pod_to_it(cluster: Cluster, timings: Timings) -> None:
    """The wake-up alone brings the pod to the healed node within 2 s of its publication."""
    with (
        cluster.frozen(*NODES),
        cluster.pod("waiting", volumes=[objects.claim_volume("nfs-a")]) as pod,
        cluster.pipeline.watch_reports("node-2") as reports,
    ):
        cluster.await_unschedulable(pod, f"3 {FROZEN}")
        healed = time.monotonic()
        cluster.pipeline.nodes["node-2"].thaw_driver()
        assert cluster.await_bound(pod, within_s=20) == "node-2"
        bound = time.monotonic()
        published = reports.when_healthy()
        timings.note("recovery published to pod bound (at most 2 s)", bound - published)
        timings.note("driver thawed to pod bound", bound - healed)
        assert bound - published <= 2.0


def test_nobody_is_evicted_from_a_node_whose_storage_is_broken(cluster: Cluster, node_3_frozen: None) -> None:
    """A pod that could not run there anyway takes nobody's place."""
    cluster.api.apply(objects.priority_class("high", 1000))
    with (
        cluster.pod("filler-1", cpu="3500m", priority_class="high", node_selector={"kubernetes.io/hostname": "node-1"}),
        cluster.pod("filler-2", cpu="3500m", priority_class="high", node_selector={"kubernetes.io/hostname": "node-2"}),
        cluster.pod("low", cpu="3500m", node_selector=ON_NODE_3) as low,
    ):
        for name in ("filler-1", "filler-2", low):
            cluster.await_bound(name)
        before = cluster.pipeline.calls("preempt")
        volumes = [objects.claim_volume("nfs-a")]
        with cluster.pod("urgent", cpu="3", priority_class="high", volumes=volumes) as urgent:
            cluster.await_unschedulable(urgent, "preemption:")
            wait_for("kube-scheduler asked about victims", lambda: cluster.pipeline.calls("preempt") > before)
            # Eviction is asynchronous; the nomination that goes before it is not.
            assert "nominatedNodeName" not in cluster.api.get("Pod", urgent, SPACE)["status"]
            assert "deletionTimestamp" not in cluster.api.get("Pod", low, SPACE)["metadata"]
        # The control: on healthy storage such a pod does evict, so the scenario can fail. A new pod, because
        # kube-scheduler wakes one that failed for want of CPU only when CPU may have become free.
        cluster.pipeline.nodes["node-3"].thaw_driver()
        cluster.await_rejected(claim_of("nfs-a"), ())
        with cluster.pod("urgent-again", cpu="3", priority_class="high", volumes=volumes):
            wait_for(
                "the low-priority pod is evicted once its node's storage is healthy",
                lambda: cluster.api.find("Pod", low, SPACE),
                lambda pod: pod is None or "deletionTimestamp" in pod["metadata"],
                within_s=30,
            )


def test_without_a_gateway_pods_still_schedule_and_it_decides_again_when_back(
    cluster: Cluster, node_3_frozen: None
) -> None:
    """With `ignorable: true` a dead gateway stops nothing, and a new one rejects at once."""
    volumes = [objects.claim_volume("nfs-a")]
    cluster.pipeline.kill_gateway()
    try:
        with cluster.pod("undecided", volumes=volumes, node_selector=ON_NODE_3) as pod:
            assert cluster.await_bound(pod) == "node-3"
    finally:
        cluster.pipeline.start_gateway()
    with cluster.pod("decided", volumes=volumes, node_selector=ON_NODE_3) as pod:
        cluster.await_unschedulable(pod, f"1 {FROZEN}")


def test_a_dead_backend_keeps_away_only_the_pods_that_use_it(cluster: Cluster, timings: Timings) -> None:
    """The unit of health is the backend: pods of the other one still go to the node."""
    start = time.monotonic()
    with cluster.backend_down("node-3", "nfs-b"):
        timings.note("backend refuses to first rejection", time.monotonic() - start)
        with cluster.pod("on-b", volumes=[objects.claim_volume("nfs-b")], node_selector=ON_NODE_3) as pod:
            cluster.await_unschedulable(pod, f"1 {REFUSED}")
        with cluster.pod("on-a", volumes=[objects.claim_volume("nfs-a")], node_selector=ON_NODE_3) as pod:
            assert cluster.await_bound(pod) == "node-3"


VOLUMES = {
    "ephemeral": objects.ephemeral_volume(WFFC_CLASS),
    "inline": objects.inline_csi_volume(DRIVER, {"server": "nfs-a"}),
    "unbound-claim": objects.claim_volume("later"),
}


@pytest.mark.parametrize("shape", VOLUMES)
def test_volumes_without_a_bound_claim_avoid_the_broken_node_too(
    cluster: Cluster, node_3_frozen: None, shape: str
) -> None:
    """Unbound, generic ephemeral and inline volumes name their storage as well as a bound claim does."""
    cluster.api.apply(objects.pvc(SPACE, "later", storage_class=WFFC_CLASS))
    volumes = [VOLUMES[shape]]
    with cluster.pod(f"{shape}-pinned", volumes=volumes, node_selector=ON_NODE_3) as pod:
        cluster.await_unschedulable(pod, f"1 {FROZEN}")
    with cluster.pod(f"{shape}-free", volumes=volumes) as pod:
        assert chosen_node(cluster, pod, shape) in {"node-1", "node-2"}
    cluster.api.delete("PersistentVolumeClaim", "later", SPACE)


def chosen_node(cluster: Cluster, pod: str, shape: str) -> str:
    """Where the pod goes. No provisioner runs here, so a pod with an unbound claim ends with its node selected."""
    if shape == "inline":
        return cluster.await_bound(pod)
    claim = "later" if shape == "unbound-claim" else f"{pod}-scratch"
    selected = "volume.kubernetes.io/selected-node"
    found = wait_for(
        f"a node is selected for claim {claim}",
        lambda: cluster.api.find("PersistentVolumeClaim", claim, SPACE) or {},
        lambda got: selected in got.get("metadata", {}).get("annotations", {}),
        within_s=15,
    )
    return str(found["metadata"]["annotations"][selected])


def test_a_fault_is_noticed_in_seconds(cluster: Cluster, timings: Timings) -> None:
    """From a frozen driver to the first rejection, three times."""
    for _ in range(3):
        start = time.monotonic()
        with cluster.frozen("node-1"):
            timings.note("driver frozen to first rejection (probes every 0.5 s)", time.monotonic() - start)
        assert not cluster.pipeline.rejected(claim_of("nfs-a"))
