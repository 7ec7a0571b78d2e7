"""Facts of nodes and what they are worth: good news ages, bad news is held, and listeners hear of every change."""

from collections.abc import Mapping

import pytest

from leadsman.domain.fact_index import FactIndex
from leadsman.domain.node_facts import Freshness, StorageFacts
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy

POLICY = StoragePolicy(DriverPolicy(stale_after_s=30, hold_unhealthy_s=300), bus_frozen_max_age_s=900)
NFS = StorageKey("nfs", "a")


class Heard:
    """Nodes that were told of, in order."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def refresh(self, node: str) -> None:
        self.nodes.append(node)

    def take(self) -> list[str]:
        taken, self.nodes = self.nodes, []
        return taken


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def index(heard: Heard) -> FactIndex:
    index = FactIndex(POLICY)
    index.listen(heard)
    return index


def say(
    node: str = "n1", *, scope: str = "", labels: Mapping[str, str] | None = None, latency: float = 0.01, seq: int = 1
) -> NodeReport:
    storage = StorageStatus(NFS, State.HEALTHY, latency_s=latency)
    return NodeReport(node, Sequence(1, seq), 10, (storage,), labels=labels or {}, facts={"cpu.idle": 0.5}, scope=scope)


def test_a_report_that_says_the_same_is_no_news(index: FactIndex, heard: Heard) -> None:
    """Heartbeats cost their listeners nothing."""
    index.apply(say(), 0, 0)
    assert heard.take() == ["n1"]
    index.apply(say(seq=2), 0, 10)
    assert heard.take() == []
    index.apply(say(seq=3, labels={"a": "b"}), 0, 20)
    assert heard.take() == ["n1"]
    facts = index.get("n1")
    assert facts is not None
    assert (facts.labels, facts.number("cpu.idle"), facts.number("gpu.model")) == ({"a": "b"}, 0.5, None)


def test_freshness_follows_the_age_and_is_told(index: FactIndex, heard: Heard) -> None:
    """Current, held from staleAfter on, expired after the hold; a new report makes all of it current again."""
    index.apply(say(), 0, 0)
    heard.take()
    told = []
    for now in (29, 30, 329, 330):
        index.tick(now, lambda _, now=now: now)  # type: ignore[misc]
        told.append((index.freshness("n1"), heard.take()))
    assert told == [
        (Freshness.CURRENT, []),
        (Freshness.HELD, ["n1"]),
        (Freshness.HELD, []),
        (Freshness.EXPIRED, ["n1"]),
    ]
    index.apply(say(seq=2), 0, 340)
    assert (index.freshness("n1"), heard.take()) == (Freshness.CURRENT, ["n1"])


def test_a_frozen_bus_ages_nothing_until_its_limit(index: FactIndex, heard: Heard) -> None:
    """Ages stand still, and beyond busFrozen.maxAge nothing is worth anything; back again, all is as it was."""
    index.apply(say(), 0, 0)
    heard.take()
    index.tick(800, lambda _: 1.0, frozen_for_s=800)
    assert (index.freshness("n1"), heard.take()) == (Freshness.CURRENT, [])
    index.tick(900, lambda _: 1.0, frozen_for_s=900)
    assert (index.freshness("n1"), heard.take()) == (Freshness.EXPIRED, ["n1"])
    index.tick(901, lambda _: 1.0, None)
    assert (index.freshness("n1"), heard.take()) == (Freshness.CURRENT, ["n1"])


def test_a_sidecar_speaks_of_storage_only(index: FactIndex) -> None:
    """Labels and facts are the agent's, also when the sidecar came first; what the agent knows of a storage stands."""
    index.apply(say(scope="nfs", labels={"from": "sidecar"}, latency=0.5), 0, 0)
    before = index.get("n1")
    assert before is not None
    assert (before.reported, before.labels, dict(before.facts)) == (False, {}, {})
    assert before.storages == {NFS: StorageFacts(State.HEALTHY, 0.5)}
    assert index.freshness("n1") is Freshness.EXPIRED

    index.apply(say(labels={"from": "agent"}, latency=0.01), 0, 0)
    after = index.get("n1")
    assert after is not None
    assert (after.reported, after.labels) == (True, {"from": "agent"})
    assert after.storages[NFS].latency_s == 0.01


def test_what_is_forgotten_is_told_and_gone(index: FactIndex, heard: Heard) -> None:
    """First the agent, then the sidecar, then nothing is known of the node."""
    index.apply(say(), 0, 0)
    index.apply(say(scope="nfs"), 0, 0)
    heard.take()
    index.forget("n1")
    assert (heard.take(), index.freshness("n1"), len(index)) == (["n1"], Freshness.EXPIRED, 1)
    index.forget("n1/nfs")
    assert (heard.take(), index.get("n1"), len(index)) == (["n1"], None, 0)
    index.forget("n1")
    index.tick(1000, lambda _: 1000.0)
    assert heard.take() == []


def test_another_policy_ages_by_its_own_limits_at_once(index: FactIndex, heard: Heard) -> None:
    """What is already older than the new limit is held in the same turn; the same policy changes nothing."""
    index.apply(say(), 0, 0)
    heard.take()
    index.adopt(POLICY, 10, lambda _: 10.0)
    assert heard.take() == []
    index.adopt(StoragePolicy(DriverPolicy(stale_after_s=5, hold_unhealthy_s=10)), 10, lambda _: 10.0)
    assert (index.freshness("n1"), heard.take()) == (Freshness.HELD, ["n1"])
    index.tick(15, lambda _: 15.0)
    assert index.freshness("n1") is Freshness.EXPIRED


def test_whoever_stops_listening_hears_nothing(index: FactIndex, heard: Heard) -> None:
    """As the view of an old policy does."""
    index.unlisten(heard)
    index.apply(say(), 0, 0)
    assert heard.take() == []


def test_without_listeners_facts_are_made_when_they_are_asked_for() -> None:
    """A service without rules pays nothing for them, and one that gets rules knows all nodes."""
    index = FactIndex(POLICY)
    index.apply(say(), 0, 0)
    index.apply(say(seq=2, labels={"a": "b"}), 0, 1)
    assert not index._facts
    assert list(index) == ["n1"]
    facts = index.get("n1")
    assert facts is not None
    assert facts.labels == {"a": "b"}
    index.apply(say(seq=3, labels={"a": "c"}), 0, 2)
    facts = index.get("n1")
    assert facts is not None
    assert facts.labels == {"a": "c"}
