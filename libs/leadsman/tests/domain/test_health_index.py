"""The index always says what is in force now, and its generation tells when that may have changed."""

import pytest

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health import NOT_OBSERVED, STALE, Health, effective, health
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import Evidence, State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.reports import report, status, storage_key

NFS = storage_key("nfs")
NFS_A = storage_key("nfs/a")
HUNG = health(State.UNHEALTHY, Reason.MOUNT_HUNG, Evidence.DATA_PATH)
FINE = health(State.HEALTHY, None, Evidence.CONTROL_PLANE)


def in_force(index: HealthIndex, key: StorageKey) -> dict[str, Health]:
    return {node: one for state in State for node, one in index.in_state(key, state).items()}


@pytest.mark.parametrize(
    ("state", "age_s", "expected"),
    [
        (State.HEALTHY, 29.9, State.HEALTHY),
        (State.HEALTHY, 30.0, State.UNKNOWN),
        (State.DEGRADED, 29.9, State.DEGRADED),
        (State.DEGRADED, 30.0, State.UNKNOWN),
        (State.UNKNOWN, 30.0, State.UNKNOWN),
        (State.UNHEALTHY, 30.0, State.UNHEALTHY),
        (State.UNHEALTHY, 329.9, State.UNHEALTHY),
        (State.UNHEALTHY, 330.0, State.UNKNOWN),
        (State.NOT_APPLICABLE, 329.9, State.NOT_APPLICABLE),
        (State.NOT_APPLICABLE, 330.0, State.UNKNOWN),
    ],
)
def test_silence_makes_a_state_unknown_and_a_rejecting_one_later(state: State, age_s: float, expected: State) -> None:
    """Stale after 30 s; unhealthy and not applicable hold 5 min longer; the reason becomes Stale."""
    now = effective(health(state, Reason.FLAPPING, Evidence.CONTROL_PLANE), DriverPolicy(), age_s)

    assert expected is now.state
    if age_s >= 30 and expected is State.UNKNOWN:
        assert STALE is now


def test_a_report_is_in_force_at_once_and_replaces_the_one_before() -> None:
    """States move, appear and vanish with each report of the node."""
    index = HealthIndex(StoragePolicy(), ChangeCounter())
    index.apply(report("n1", status("nfs", State.HEALTHY), status("nfs/a", State.HEALTHY)), 0, 0)
    index.apply(report("n1", status("nfs/a", State.UNHEALTHY), status("smb", State.HEALTHY)), 0, 1)

    assert in_force(index, NFS) == {}
    assert in_force(index, NFS_A) == {"n1": HUNG}
    assert {NFS_A, storage_key("smb")} == set(index.storages())
    assert NOT_OBSERVED is index.unlisted


def test_of_two_entries_for_one_storage_the_worse_counts() -> None:
    """A report that contradicts itself is read as the bad news."""
    index = HealthIndex(StoragePolicy(), ChangeCounter())
    index.apply(report("n1", status("nfs", State.UNHEALTHY), status("nfs", State.HEALTHY)), 0, 0)

    assert in_force(index, NFS) == {"n1": HUNG}


def test_silent_nodes_are_counted_until_they_report_or_are_forgotten() -> None:
    """Whatever their states are worth: also those that hold an unhealthy state."""
    index, ages = HealthIndex(StoragePolicy(), ChangeCounter()), {"n1": 0.0, "n2": 0.0, "n3": 40.0}
    for node, age_s in ages.items():
        index.apply(report(node, status("nfs", State.UNHEALTHY)), age_s, 0)
    assert (index.silent, index.nodes) == (1, 3)

    ages |= {"n1": 31.0, "n2": 31.0, "n3": 71.0}
    index.tick(31.0, ages.get)
    assert index.silent == 3

    index.apply(report("n1", status("nfs", State.UNHEALTHY), seq=2), 0, 32)
    index.forget("n2")
    assert (index.silent, index.nodes) == (1, 2)


def test_a_silent_node_turns_stale_by_the_tick_and_back_by_a_report() -> None:
    """Ages come from the cache; the tick only looks when a limit may be reached."""
    index, ages = HealthIndex(StoragePolicy(), ChangeCounter()), {"n1": 0.0}
    index.apply(report("n1", status("nfs", State.HEALTHY)), 0, 0)
    ages["n1"] = 31.0
    index.tick(31.0, ages.get)
    assert in_force(index, NFS) == {"n1": STALE}

    index.apply(report("n1", status("nfs", State.HEALTHY), seq=2), 0, 32)
    assert in_force(index, NFS) == {"n1": FINE}


def test_a_report_that_is_old_on_arrival_counts_with_its_age() -> None:
    """A snapshot row older than the limit is stale from the start, and one just below turns stale on time."""
    index = HealthIndex(StoragePolicy(), ChangeCounter())
    index.apply(report("old", status("nfs", State.HEALTHY)), 40, 0)
    index.apply(report("young", status("nfs", State.HEALTHY)), 25, 0)
    assert in_force(index, NFS) == {"old": STALE, "young": FINE}

    index.tick(5.0, {"old": 45.0, "young": 30.0}.get)
    assert in_force(index, NFS) == {"old": STALE, "young": STALE}


def test_a_frozen_bus_stops_ageing_until_the_limit_makes_everything_unknown() -> None:
    """Last known states stand for busFrozen.maxAge; then none counts; after the return they count again."""
    index = HealthIndex(StoragePolicy(), ChangeCounter())
    index.apply(report("n1", status("nfs", State.UNHEALTHY)), 0, 0)
    index.tick(800.0, {"n1": 0.0}.get, frozen_for_s=800.0)
    assert in_force(index, NFS) == {"n1": HUNG}

    before = index.generation((NFS,))
    index.tick(900.0, {"n1": 0.0}.get, frozen_for_s=900.0)
    assert index.blind
    assert in_force(index, NFS) == {}
    assert STALE is index.unlisted
    assert before < index.generation((NFS,))
    assert {"nfs"} == index.take_recovered()

    index.tick(901.0, {"n1": 1.0}.get)
    assert in_force(index, NFS) == {"n1": HUNG}


def test_a_forgotten_node_leaves_nothing_behind() -> None:
    """Whether the index is told so, or finds out when it asks for the age."""
    index = HealthIndex(StoragePolicy(), ChangeCounter())
    for node in ("told", "found out"):
        index.apply(report(node, status("nfs", State.UNHEALTHY)), 0, 0)
    index.forget("told")
    assert in_force(index, NFS) == {"found out": HUNG}

    index.tick(30, lambda _: None)
    assert index.nodes == 0
    assert set() == set(index.storages())


def test_only_a_shrunken_rejected_set_counts_as_recovery() -> None:
    """Told once per key, after a bad state ends; not when a state gets worse or a good node reports."""
    index = HealthIndex(StoragePolicy(), ChangeCounter())
    index.apply(report("n1", status("nfs", State.HEALTHY), status("nfs/a", State.UNHEALTHY)), 0, 0)
    index.apply(report("n1", status("nfs", State.DEGRADED), status("nfs/a", State.UNHEALTHY), seq=2), 0, 1)
    assert index.take_recovered() == set()

    index.apply(report("n1", status("nfs", State.DEGRADED), status("nfs/a", State.DEGRADED), seq=3), 0, 2)
    assert {"nfs/a"} == index.take_recovered()
    assert set() == index.take_recovered()


def test_the_end_of_the_hold_is_a_recovery_too() -> None:
    """A node that stops being rejected by ageing lets pods in like one that heals."""
    index = HealthIndex(StoragePolicy(), ChangeCounter())
    index.apply(report("n1", status("nfs", State.UNHEALTHY)), 0, 0)
    index.tick(331.0, {"n1": 331.0}.get)

    assert {"nfs"} == index.take_recovered()


def test_where_unknown_is_rejected_a_first_good_report_is_a_recovery() -> None:
    """Under `unknown: reject` a node starts rejected, so hearing of it shrinks the rejected set."""
    index = HealthIndex(StoragePolicy(DriverPolicy(unknown=Treatment.REJECT)), ChangeCounter())
    index.apply(report("n1", status("nfs", State.HEALTHY)), 0, 0)

    assert {"nfs"} == index.take_recovered()


def test_a_heartbeat_without_news_changes_no_generation() -> None:
    """Messages, latencies and times of a status are no reason to send answers again."""
    index = HealthIndex(StoragePolicy(), ChangeCounter(7))
    assert index.generation(()) == 7
    index.apply(report("n1", status("nfs", State.HEALTHY)), 0, 0)
    before = index.changes
    index.apply(report("n1", status("nfs", State.HEALTHY), seq=2), 0, 10)

    assert before == index.changes


def test_the_generation_never_goes_back_when_a_storage_vanishes() -> None:
    """An old generation must not come to stand for new content."""
    index = HealthIndex(StoragePolicy(), ChangeCounter())
    seen = [index.generation((NFS_A,))]
    for statuses in ([status("nfs/a", State.UNHEALTHY)], [], [status("nfs/a", State.HEALTHY)], []):
        index.apply(report("n1", *statuses), 0, 0)
        seen.append(index.generation((NFS_A,)))

    assert seen == sorted(set(seen))
