"""The operator's rules on the real kube-scheduler: what they keep out, how they change, and what shadow mode does."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import yaml

from leadsman.wire.decision import RejectedNodes
from leadsman_e2e import objects
from leadsman_e2e.api import Object
from leadsman_e2e.cluster import NODES, Cluster, claim_of
from leadsman_e2e.pipeline import HOPS
from leadsman_e2e.plane import ControlPlane
from leadsman_e2e.policy_volume import example, fingerprint, policy
from leadsman_e2e.setup import DRIVER, Setup
from leadsman_e2e.timings import Timings

pytestmark = pytest.mark.e2e

GPU = {"accelerator": "gpu"}
RULE = "gpu-pods-on-gpu-nodes"
NO_GPU = f"node(s) had no match for the policy rule ({RULE})"
LABEL_RULE = example("label-filter")
NOTHING = policy()
ON_NODE_1, ON_NODE_3 = ({"kubernetes.io/hostname": name} for name in ("node-1", "node-3"))


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes whose collectors see the labels of their Nodes, and a policy file without a rule."""
    setup = Setup(policy=NOTHING, labels=True)
    with Cluster.start(plane, tmp_path_factory.mktemp("rules"), setup) as cluster:
        yield cluster


@pytest.fixture
def gpu_rule(cluster: Cluster) -> Iterator[None]:
    """The rule is in force, and no node meets it."""
    cluster.pipeline.set_policy(LABEL_RULE)
    cluster.await_rejected(gpu_pod(), NODES)
    yield
    cluster.pipeline.set_policy(NOTHING)


def gpu_pod() -> Object:
    """A pod body that the rule selects, as kube-scheduler would send it."""
    return claim_of("nfs-a", GPU)


def test_gpu_pod_waits_for_a_gpu_node_and_is_bound_once_there_is_one(
    cluster: Cluster, gpu_rule: None, timings: Timings
) -> None:
    """Pending with the rule's name as the reason; within 2 s of the label it is bound, as are others after it."""
    for _ in range(3):
        with cluster.pod("gpu", labels=GPU) as pod:
            message = cluster.await_unschedulable(pod, f"3 {NO_GPU}")
            assert "3 Preemption is not helpful for scheduling" in message
            labelled = time.monotonic()
            with cluster.labelled("node-2", "node-type", "gpu"):
                assert cluster.await_bound(pod) == "node-2"
                took = time.monotonic() - labelled
                with cluster.pod("gpu-too", labels=GPU) as other:
                    assert cluster.await_bound(other) == "node-2"
            cluster.await_rejected(gpu_pod(), NODES)
        timings.note("Node labelled to waiting gpu pod bound (at most 2 s)", took)
        assert took <= 2.0


def test_rule_touches_no_pod_that_it_does_not_select(cluster: Cluster, gpu_rule: None) -> None:
    """Neither one without labels, nor one with another value."""
    for name, labels in (("plain", None), ("tpu", {"accelerator": "tpu"})):
        with cluster.pod(name, labels=labels, node_selector=ON_NODE_1) as pod:
            assert cluster.await_bound(pod) == "node-1"


@pytest.mark.parametrize("as_editor", [False, True], ids=["by-configmap", "by-editor"])
def test_a_rule_taken_out_of_the_file_lets_a_waiting_pod_in(
    cluster: Cluster, timings: Timings, *, as_editor: bool
) -> None:
    """Without a restart, and without anything else happening in the cluster."""
    took = cluster.pipeline.set_policy(LABEL_RULE, as_editor=as_editor)
    timings.note("policy file written to filter and scorer work by it", took)
    with cluster.pod("gpu", labels=GPU) as pod:
        cluster.await_unschedulable(pod, f"3 {NO_GPU}")
        written = time.monotonic()
        cluster.pipeline.write_policy(NOTHING, as_editor=as_editor)
        cluster.await_bound(pod)
        took = time.monotonic() - written
    timings.note("rule taken out of the file to waiting pod bound (at most 3 s)", took)
    assert took <= 3.0


def test_a_bad_version_of_the_file_changes_nothing_and_is_told(cluster: Cluster, gpu_rule: None) -> None:
    """The last good one stays in force; readiness stays, and says what is wrong, as does a metric."""
    cluster.pipeline.write_policy(LABEL_RULE.replace("require:", "requires:"))
    cluster.pipeline.await_policy("a newer version is refused:")
    for hop in HOPS:
        words = cluster.pipeline.checks(hop)
        assert "rules[0]" in words
        assert "requires" in words
        assert f"{hop} is ready" in words
        assert cluster.pipeline.metric(hop, "leadsman_policy_refused") == 1
        assert (cluster.pipeline.metric(hop, 'leadsman_policy_reloads_total{result="refused"}') or 0) >= 1
    with cluster.pod("gpu", labels=GPU) as pod:
        cluster.await_unschedulable(pod, f"3 {NO_GPU}")
        cluster.pipeline.set_policy(LABEL_RULE)
        assert [cluster.pipeline.metric(hop, "leadsman_policy_refused") for hop in HOPS] == [0, 0]
        cluster.await_unschedulable(pod, f"3 {NO_GPU}")


def test_shadow_mode_rejects_nothing_and_records_what_it_would_have(cluster: Cluster) -> None:
    """Pods are bound to the broken node and against the rule, and the records say why they would not have been."""
    volumes = [objects.claim_volume("nfs-a")]
    with cluster.frozen("node-3"), cluster.pipeline.watch_decisions("filter") as decisions:
        cluster.pipeline.set_policy(example("shadow"))
        try:
            with cluster.pod("on-broken", volumes=volumes, node_selector=ON_NODE_3) as pod:
                assert cluster.await_bound(pod) == "node-3"
                record = decisions.of(pod)
                assert (record.mode, record.policy) == ("shadow", fingerprint(example("shadow")))
                assert record.rejections == []
                assert record.shadow == [RejectedNodes("DriverNotResponding", DRIVER, 1, ["node-3"])]
            with cluster.pod("without-gpu", labels=GPU, node_selector=ON_NODE_1) as pod:
                assert cluster.await_bound(pod) == "node-1"
                assert decisions.of(pod).shadow == [RejectedNodes("RuleNotMet", RULE, 1, ["node-1"])]
        finally:
            cluster.pipeline.set_policy(NOTHING)
        with cluster.pod("decided", volumes=volumes, node_selector=ON_NODE_3) as pod:
            cluster.await_unschedulable(pod, f"1 node(s) had an unresponsive CSI driver ({DRIVER})")
            assert decisions.of(pod).rejections == [RejectedNodes("DriverNotResponding", DRIVER, 1, ["node-3"])]


def test_a_single_rule_in_shadow_rejects_nothing(cluster: Cluster) -> None:
    """`enforce: false` is for one rule what shadow mode is for all."""
    with cluster.pipeline.watch_decisions("filter") as decisions:
        cluster.pipeline.set_policy(policy(yaml.safe_load(LABEL_RULE)["rules"][0] | {"enforce": False}))
        try:
            with cluster.pod("gpu", labels=GPU, node_selector=ON_NODE_1) as pod:
                assert cluster.await_bound(pod) == "node-1"
                assert decisions.of(pod).shadow == [RejectedNodes("RuleNotMet", RULE, 1, ["node-1"])]
        finally:
            cluster.pipeline.set_policy(NOTHING)
