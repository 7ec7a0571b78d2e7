"""Scores on the real kube-scheduler: equal nodes share pods, slow storage gets fewer; and the breaker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import mean

import pytest

from leadsman.testing.waiting import wait_for
from leadsman_e2e import objects
from leadsman_e2e.cluster import Cluster, claim_of
from leadsman_e2e.machine import QUIET
from leadsman_e2e.plane import ControlPlane
from leadsman_e2e.policy_volume import example, policy
from leadsman_e2e.setup import DRIVER, Setup
from leadsman_e2e.timings import Timings

pytestmark = pytest.mark.e2e

SIX = tuple(f"node-{number}" for number in range(1, 7))
PODS = 60
QUICK_S, USUAL_S, SLOW_S = 0.0, 0.02, 0.1
NOTHING = policy()
VOLUMES = [objects.claim_volume("nfs-a")]
OPEN = f'leadsman_breaker_open{{backend="",driver="{DRIVER}"}}'


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Six nodes that are alike: equally busy, with storage that answers at once."""
    setup = Setup(SIX, policy=NOTHING, heartbeat="1s")
    with Cluster.start(plane, tmp_path_factory.mktemp("scores"), setup) as cluster:
        yield cluster


@pytest.fixture
def slow_node(cluster: Cluster) -> Iterator[str]:
    """The storage of one node takes five times as long as that of the others, and the scores show it."""
    before = await_equal(cluster)["node-4"]
    restart_storage(cluster, dict.fromkeys(SIX, USUAL_S) | {"node-4": SLOW_S})

    def told_apart(scores: Mapping[str, int]) -> bool:
        usual = set(others(scores, "node-4"))
        return len(usual) == 1 and 0 < scores["node-4"] < usual.pop() < before

    cluster.await_scores(claim_of("nfs-a"), told_apart)
    yield "node-4"
    restart_storage(cluster, dict.fromkeys(SIX, QUICK_S))
    await_equal(cluster)


def restart_storage(cluster: Cluster, delays: Mapping[str, float]) -> None:
    """From now on the storage of each node takes so many seconds to answer."""
    for name, delay in delays.items():
        cluster.pipeline.nodes[name].stop_backend("nfs-a")
        cluster.pipeline.nodes[name].start_backend("nfs-a", delay)


def others(scores: Mapping[str, int], node: str) -> list[int]:
    """The scores of all nodes but one."""
    return [score for name, score in scores.items() if name != node]


def leads(node: str, by: int, scores: Mapping[str, int]) -> bool:
    """Whether a node is better than all others by so many points."""
    return scores[node] >= max(others(scores, node)) + by


def await_equal(cluster: Cluster) -> Mapping[str, int]:
    """The scores, once all nodes have the same."""
    return cluster.await_scores(claim_of("nfs-a"), lambda scores: len(set(scores.values())) == 1)


def tell(timings: Timings, what: str, nodes: Sequence[str], slow: str = "") -> Counter[str]:
    """Pods per node, noted as the fewest and the most on nodes beside `slow`, and those on `slow`."""
    counts = Counter(dict.fromkeys(SIX, 0))
    counts.update(nodes)
    usual = [counts[name] for name in SIX if name != slow]
    timings.note_count(f"{what}: fewest", min(usual))
    timings.note_count(f"{what}: most", max(usual))
    if slow:
        timings.note_count(f"{what}: on that", counts[slow])
    return counts


def test_sixty_pods_spread_evenly_over_six_equal_nodes(cluster: Cluster, timings: Timings) -> None:
    """As evenly as without our scores, which shadow mode keeps back: equal nodes get equal scores."""
    await_equal(cluster)
    with cluster.deployment("scored", PODS, volumes=VOLUMES, cpu="50m") as nodes:
        scored = tell(timings, "60 pods of a Deployment over 6 nodes", nodes)
    with cluster.loose_pods("loose", PODS, volumes=VOLUMES, cpu="50m") as nodes:
        loose = tell(timings, "60 pods of nobody over 6 nodes", nodes)
    cluster.pipeline.set_policy(policy(mode="shadow"))
    try:
        assert cluster.pipeline.scores(claim_of("nfs-a")) == {}
        with cluster.deployment("control", PODS, volumes=VOLUMES, cpu="50m") as nodes:
            control = tell(timings, "60 pods of a Deployment over 6 nodes, no scores", nodes)
    finally:
        cluster.pipeline.set_policy(NOTHING)
    for counts in (scored, loose, control):
        assert all(abs(count - PODS / len(SIX)) <= 3 for count in counts.values()), counts


def test_a_node_with_five_times_the_latency_gets_clearly_fewer(
    cluster: Cluster, slow_node: str, timings: Timings
) -> None:
    """Pods of nobody avoid it; those of a Deployment are spread by kube-scheduler against it, unless latency is all."""
    with cluster.loose_pods("loose-slow", PODS, volumes=VOLUMES, cpu="50m") as nodes:
        loose = tell(timings, "60 pods of nobody, one of 6 nodes slow", nodes, slow_node)
    with cluster.deployment("slow", PODS, volumes=VOLUMES, cpu="50m") as nodes:
        owned = tell(timings, "60 pods of a Deployment, one of 6 nodes slow", nodes, slow_node)
    cluster.pipeline.set_policy(example("storage-latency"))
    try:
        cluster.await_scores(claim_of("nfs-a"), lambda scores: scores[slow_node] <= min(others(scores, slow_node)) - 2)
        with cluster.deployment("latency", PODS, volumes=VOLUMES, cpu="50m") as nodes:
            first = tell(timings, "60 pods of a Deployment, storage latency first", nodes, slow_node)
    finally:
        cluster.pipeline.set_policy(NOTHING)
    for counts, share in ((loose, 0.5), (owned, 0.75), (first, 0.5)):
        assert counts[slow_node] <= share * mean(counts[name] for name in SIX if name != slow_node), counts


def test_idle_cpus_first_moves_with_the_load(cluster: Cluster, timings: Timings) -> None:
    """A rule that prefers by a fact: pods go where the CPUs are idle, and elsewhere once others are."""
    machines = {name: node.machine for name, node in cluster.pipeline.nodes.items()}
    cluster.pipeline.set_policy(example("least-loaded"))
    try:
        for favourite in ("node-2", "node-5"):
            changed = time.monotonic()
            for name, machine in machines.items():
                machine.busy = QUIET if name == favourite else 0.9
            cluster.await_scores(claim_of("nfs-a"), partial(leads, favourite, 4))
            timings.note("load moved to scores moved (average of 3 s or so)", time.monotonic() - changed)
            with cluster.loose_pods(f"on-{favourite}", 3, volumes=VOLUMES, cpu="50m") as nodes:
                assert nodes == [favourite] * 3
    finally:
        for machine in machines.values():
            machine.busy = QUIET
        cluster.pipeline.set_policy(NOTHING)


def test_all_drivers_frozen_at_once_open_the_breaker_and_pods_are_still_bound(
    cluster: Cluster, timings: Timings
) -> None:
    """Nearly all nodes at once are a failure of monitoring. Broken data paths keep pods away as ever."""
    places = cluster.pipeline.nodes
    began = time.monotonic()
    for place in places.values():
        place.freeze_driver()
    try:
        await_breaker(cluster, 1)
        timings.note("all CSI drivers frozen to the breaker open", time.monotonic() - began)
        cluster.await_rejected(claim_of("nfs-a"), ())
        cluster.await_scores(claim_of("nfs-a"), lambda scores: set(scores.values()) == {1})
        with cluster.pod("bound-anyway", volumes=VOLUMES) as pod:
            cluster.await_bound(pod)
        places["node-6"].stop_backend("nfs-a")
        cluster.await_rejected(claim_of("nfs-a"), ("node-6",))
        on_6 = {"kubernetes.io/hostname": "node-6"}
        with cluster.pod("kept-away", volumes=VOLUMES, node_selector=on_6) as pod:
            cluster.await_unschedulable(pod, f"1 node(s) had a storage backend that refuses connections ({DRIVER})")
            places["node-6"].start_backend("nfs-a")
            assert cluster.await_bound(pod, within_s=20) == "node-6"
    finally:
        for place in places.values():
            place.thaw_driver()
    healed = time.monotonic()
    await_breaker(cluster, 0)
    timings.note("all drivers thawed to the breaker closed (10 s of peace)", time.monotonic() - healed)
    await_equal(cluster)


def await_breaker(cluster: Cluster, value: float) -> None:
    """Wait until filter and scorer have the breaker open (1) or closed (0)."""
    wait_for(
        f"the breaker is {'open' if value else 'closed'}",
        lambda: [cluster.pipeline.metric(hop, OPEN) for hop in ("filter", "scorer")],
        lambda values: values == [value, value],
        within_s=40,
    )
