"""What a pod is kept off as time passes: each transition of a node's knowledge at its time, by an injected clock."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.ageing_cluster import AgeingCluster, absent, hung, starting, well
from leadsman.testing.reports import report, status, storage_key

REJECT_BOTH = StoragePolicy(DriverPolicy(unknown=Treatment.REJECT, stale=Treatment.REJECT))
REJECT_STALE = StoragePolicy(DriverPolicy(stale=Treatment.REJECT))


def why(here: AgeingCluster) -> str | None:
    """Why node n1 does not take a pod that needs nfs/a; None if it does."""
    return here.rejected(["n1"], "nfs/a").get("n1")


def heard(one: NodeReport, policy: StoragePolicy | None = None) -> AgeingCluster:
    here = AgeingCluster(policy)
    here.hear(one)
    return here


@pytest.mark.parametrize(("treatment", "reason"), [("allow", None), ("penalize", None), ("reject", "DriverStarting")])
def test_unknown_is_as_policy_says(treatment: str, reason: str | None) -> None:
    """Neither healthy nor unhealthy; the first report that knows more ends it."""
    here = heard(starting("n1"), StoragePolicy(DriverPolicy(unknown=Treatment(treatment))))
    assert why(here) == reason

    here.hear(well("n1"))
    assert why(here) is None


@pytest.mark.parametrize(("policy", "reason"), [(None, None), (REJECT_STALE, "Stale")])
def test_a_silent_node_turns_stale_at_its_limit(policy: StoragePolicy | None, reason: str | None) -> None:
    """Not before, and its next report ends it."""
    here = heard(well("n1"), policy)
    here.wait(29.9)
    assert (why(here), here.index.silent) == (None, 0)

    here.wait(0.1)
    assert (why(here), here.index.silent) == (reason, 1)

    here.hear(well("n1"))
    assert (why(here), here.index.silent) == (None, 0)


@pytest.mark.parametrize(
    ("one", "reason"), [(hung("n1"), "MountHung"), (absent("n1"), "DriverNotRegistered")], ids=["unhealthy", "absent"]
)
@pytest.mark.parametrize(("policy", "afterwards"), [(None, None), (REJECT_STALE, "Stale")])
def test_what_rejects_holds_on_a_silent_node(
    one: NodeReport, reason: str, policy: StoragePolicy | None, afterwards: str | None
) -> None:
    """For `holdUnhealthy` beyond `staleAfter`, because silence is no recovery; then the node is as any stale one."""
    here = heard(one, policy)
    here.wait(329.9)
    assert why(here) == reason
    assert not here.index.recovering

    here.wait(0.1)
    assert why(here) == afterwards
    assert here.index.recovering is (afterwards is None)


def test_while_the_bus_is_lost_states_stand_and_ages_stand_still() -> None:
    """As far as this replica can know nobody is silent: it is itself that hears nothing."""
    here = AgeingCluster(REJECT_STALE)
    here.hear(well("n1"), age_s=25)
    here.hear(hung("n2"))
    here.lose_bus()
    here.wait(899)
    assert here.rejected(["n1", "n2"], "nfs/a") == {"n2": "MountHung"}

    here.find_bus()
    here.wait(4)
    assert here.rejected(["n1", "n2"], "nfs/a") == {"n2": "MountHung"}
    here.wait(1)
    assert here.rejected(["n1", "n2"], "nfs/a") == {"n1": "Stale", "n2": "MountHung"}


@pytest.mark.parametrize(
    ("policy", "blind"), [(None, {}), (REJECT_STALE, {"n1": "Stale", "n2": "Stale", "n3": "Stale"})]
)
def test_a_bus_lost_for_too_long_makes_all_unknown_and_its_return_undoes_that(
    policy: StoragePolicy | None, blind: dict[str, str]
) -> None:
    """After `busFrozen.maxAge` nothing counts any more, also for nodes that were never heard of."""
    here, nodes = AgeingCluster(policy), ["n1", "n2", "n3"]
    here.hear(well("n1"), hung("n2"))
    here.lose_bus()
    here.wait(900)
    assert here.rejected(nodes, "nfs/a") == blind
    assert here.index.blind
    assert here.index.in_force("n2") == {}

    here.index.take_recovered()
    before = here.index.generation(())
    here.find_bus()
    assert here.rejected(nodes, "nfs/a") == {"n2": "MountHung"}
    assert here.index.generation(()) > before
    assert here.index.recovering is bool(blind)


def test_news_that_came_while_all_was_unknown_count_when_the_bus_is_back() -> None:
    """The snapshot that is read at the return is in before the index looks at its clock again."""
    here = heard(hung("n1"))
    here.lose_bus()
    here.wait(900)
    here.hear(well("n1"), hung("n2"))
    assert here.rejected(["n1", "n2"], "nfs/a") == {}

    here.find_bus()
    assert here.rejected(["n1", "n2"], "nfs/a") == {"n2": "MountHung"}


@pytest.mark.parametrize("policy", [StoragePolicy(), REJECT_STALE])
@pytest.mark.parametrize(("one", "reason"), [(well("n1"), None), (hung("n1"), "MountHung")], ids=["good", "bad"])
def test_a_restarted_collector_that_says_what_it_said_changes_nothing(
    policy: StoragePolicy, one: NodeReport, reason: str | None
) -> None:
    """It reads its last report back; the pause in between is no silence as long as it is short."""
    here = heard(one, policy)
    before = here.index.generation(())
    here.wait(20)
    here.hear(one)
    here.wait(20)

    assert why(here) == reason
    assert here.index.generation(()) == before
    assert not here.index.recovering


def test_after_a_reboot_a_node_is_unknown_until_something_is_observed() -> None:
    """A collector that may not trust its last report says so; that is no good news, and policy decides."""
    here = heard(hung("n1"), REJECT_BOTH)
    here.index.take_recovered()
    here.hear(report("n1", status("nfs", State.UNKNOWN), status("nfs/a", State.UNKNOWN)))
    assert why(here) == "DriverStarting"
    assert not here.index.recovering

    here.hear(well("n1"))
    assert why(here) is None
    assert here.index.take_recovered() == {"nfs", "nfs/a"}


def test_a_restarted_filter_takes_reports_at_their_age() -> None:
    """A stored report that is stale already is so from the start, and a bad one holds for the rest of its time."""
    here = AgeingCluster(REJECT_STALE)
    here.hear(well("n1"), age_s=31)
    here.hear(hung("n2"), age_s=300)
    assert here.rejected(["n1", "n2"], "nfs/a") == {"n1": "Stale", "n2": "MountHung"}

    here.wait(30)
    assert here.rejected(["n1", "n2"], "nfs/a") == {"n1": "Stale", "n2": "Stale"}


def test_degraded_lowers_a_score_and_rejects_nobody() -> None:
    """Nor does it hold: when the node goes silent it is unknown."""
    here = heard(report("n1", status("nfs/a", State.DEGRADED, Reason.HIGH_LATENCY)), REJECT_STALE)
    assert why(here) is None

    here.wait(30)
    assert why(here) == "Stale"


def test_a_node_that_is_forgotten_is_unknown() -> None:
    """After very long silence nothing is left of it."""
    here = heard(hung("n1"), REJECT_BOTH)
    here.forget("n1")

    assert why(here) == "NotObserved"
    assert here.index.nodes == 0


def test_a_blind_replica_with_many_nodes_rejects_nobody_for_its_own_blindness() -> None:
    """Under `stale: reject` all nodes would be rejected on silence alone: the breaker opens as for any mass failure."""
    here = AgeingCluster(REJECT_STALE)
    nodes = [f"n{number}" for number in range(5)]
    here.hear(*map(well, nodes[1:]), hung("n0"))
    here.lose_bus()
    here.wait(900)
    assert here.index.open_breakers == {storage_key("nfs"), storage_key("nfs/a")}
    assert here.index.breaker_counts(storage_key("nfs")) == (5, 5)
    assert here.rejected([*nodes, "n9"], "nfs/a") == {}

    here.find_bus()
    assert here.rejected([*nodes, "n9"], "nfs/a") == {"n0": "MountHung"}
    here.wait(10)
    assert here.index.open_breakers == frozenset()
