"""A monitoring failure is not a storage failure: the breaker of a storage, each of its transitions at its time."""

import pytest

from leadsman.domain.breaker import CLOSE_AFTER_S, BreakerEvent
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Requirement
from leadsman.domain.states import State
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.ageing_cluster import NODES, AgeingCluster, absent, dead, misnamed, ten_nodes, well
from leadsman.testing.reports import report, status, storage_key

NFS = storage_key("nfs")
REJECT_STALE = StoragePolicy(DriverPolicy(stale=Treatment.REJECT))
REJECT_UNKNOWN = StoragePolicy(DriverPolicy(unknown=Treatment.REJECT))


def test_when_all_plugins_die_the_breaker_opens_at_once_and_nobody_is_rejected() -> None:
    """Up to the limit each dead plugin counts; one more, and it is the monitoring that must be wrong."""
    here = ten_nodes()
    here.hear(*map(dead, NODES[:8]))
    assert here.rejected(NODES, "nfs/a") == dict.fromkeys(NODES[:8], "DriverNotResponding")
    assert here.index.open_breakers == frozenset()

    here.hear(dead("n8"))
    assert here.index.open_breakers == {NFS}
    assert here.index.breaker_open(NFS)
    assert here.rejected(NODES, "nfs/a") == {}
    assert here.index.take_breaker_events() == [BreakerEvent(NFS, opened=True, weak=9, total=10)]
    assert here.index.take_breaker_events() == []

    here.hear(dead("n9"))
    assert here.rejected([*NODES, "never heard of"], "nfs/a") == {}
    assert here.index.breaker_counts(NFS) == (10, 10)


@pytest.mark.parametrize(
    ("policy", "nodes", "dead_nodes", "opens"),
    [
        (BreakerPolicy(0.8, 5), 4, 4, False),
        (BreakerPolicy(0.8, 5), 5, 5, True),
        (BreakerPolicy(0.8, 5), 5, 4, False),
        (BreakerPolicy(0.8, 5), 10, 8, False),
        (BreakerPolicy(0.8, 5), 10, 9, True),
        (BreakerPolicy(0.7, 1), 10, 7, False),
        (BreakerPolicy(0.5, 1), 2, 1, False),
        (BreakerPolicy(0.5, 1), 1, 1, True),
        (BreakerPolicy(1.0, 1), 10, 10, False),
    ],
)
def test_it_opens_above_the_share_of_enough_nodes(
    policy: BreakerPolicy, nodes: int, dead_nodes: int, *, opens: bool
) -> None:
    """Not at the share, not below `minNodes`, and never with a share of 1."""
    here = AgeingCluster(StoragePolicy(breaker=policy))
    here.hear(*map(well, NODES[:nodes]))
    here.hear(*map(dead, NODES[:dead_nodes]))
    here.wait(3)

    assert here.index.breaker_open(NFS) is opens
    assert len(here.rejected(NODES[:nodes], "nfs")) == (0 if opens else dead_nodes)


def test_recovery_closes_it_after_ten_seconds_and_not_before() -> None:
    """Then what is still bad is rejected again."""
    here = ten_nodes()
    here.hear(*map(dead, NODES))
    here.wait(60)
    here.hear(*map(dead, NODES))  # still fresh, so nothing but the share changes in what follows
    here.index.take_breaker_events()

    here.hear(*map(well, NODES[3:]))
    here.wait(5)
    here.hear(well("n2"))
    here.wait(4.9)
    assert here.rejected(NODES, "nfs/a") == {}
    assert here.index.take_breaker_events() == []

    here.wait(0.1)
    assert here.rejected(NODES, "nfs/a") == dict.fromkeys(NODES[:2], "DriverNotResponding")
    assert here.index.take_breaker_events() == [BreakerEvent(NFS, opened=False, weak=2, total=10)]


def test_flapping_around_the_limit_keeps_it_open() -> None:
    """The ten seconds begin anew each time; verdicts do not flap with the share."""
    here = ten_nodes()
    here.hear(*map(dead, NODES))
    for _ in range(5):
        here.hear(well("n0"), well("n1"))
        here.wait(6)
        here.hear(dead("n0"), *map(dead, NODES[2:]))
        here.wait(5)

    assert here.rejected(NODES, "nfs/a") == {}
    assert [event.opened for event in here.index.take_breaker_events()] == [True]


def test_it_may_open_again_right_after_it_closed() -> None:
    """There is no pause after closing: a second mass failure is one, too."""
    here = ten_nodes()
    here.hear(*map(dead, NODES))
    here.hear(*map(well, NODES))
    here.wait(CLOSE_AFTER_S)
    here.hear(*map(dead, NODES))

    assert [event.opened for event in here.index.take_breaker_events()] == [True, False, True]
    assert here.rejected(NODES, "nfs/a") == {}


def test_nodes_that_are_not_meant_for_the_driver_do_not_count() -> None:
    """Neither as nodes of the driver nor as bad ones: three GPU nodes of a hundred are its whole cluster."""
    here = AgeingCluster(StoragePolicy(breaker=BreakerPolicy(min_nodes=3)))
    here.hear(*map(absent, NODES[3:]), *map(dead, NODES[:3]))
    assert here.index.breaker_counts(NFS) == (3, 3)
    assert here.rejected(NODES, "nfs/a") == dict.fromkeys(NODES[3:], "DriverNotRegistered")

    here.hear(absent("n0"))
    assert here.index.breaker_counts(NFS) == (2, 2)


def test_each_storage_is_counted_by_itself() -> None:
    """Nodes with other bad backends of the driver, or with a bad plugin, say nothing of the share of this one."""
    here = ten_nodes()
    bad = [status(f"nfs/{name}", State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED) for name in "abcdefghij"]
    here.hear(report("n0", *bad), report("n1", *bad), dead("n2"))

    counts = {key: here.index.breaker_counts(storage_key(key)) for key in ("nfs", "nfs/a", "nfs/j", "nfs/k")}
    assert counts == {"nfs": (1, 8), "nfs/a": (2, 10), "nfs/j": (2, 2), "nfs/k": (0, 0)}
    assert here.index.open_breakers == frozenset()


def test_each_breaker_has_its_own_time_to_close() -> None:
    """One backend is mended at once, the other later."""
    here = ten_nodes()
    here.hear(*(misnamed(node, "nfs/a", "nfs/b") for node in NODES))
    here.hear(*(misnamed(node, "nfs/b") for node in NODES))
    here.wait(5)
    here.hear(*map(well, NODES))
    here.wait(5)
    assert here.index.open_breakers == {storage_key("nfs/b")}

    here.wait(5)
    assert here.index.open_breakers == frozenset()
    events = [(str(event.storage), event.opened) for event in here.index.take_breaker_events()]
    assert events == [("nfs/b", True), ("nfs/a", True), ("nfs/a", False), ("nfs/b", False)]


def test_opening_and_closing_change_the_generation_and_opening_wakes_pods() -> None:
    """What was answered before must be asked again; closing lets nobody in."""
    here = ten_nodes()
    here.hear(*map(dead, NODES[:8]))
    here.index.take_recovered()
    generations = [here.index.generation((NFS,)), here.index.generation_of_volumes([Requirement("nfs", "a", "pv")])]
    here.hear(dead("n8"))
    now = [here.index.generation((NFS,)), here.index.generation_of_volumes([Requirement("nfs", "a", "pv")])]
    assert [after > before for before, after in zip(generations, now, strict=True)] == [True, True]
    assert here.index.take_recovered() == {"nfs"}

    here.hear(*map(well, NODES[1:]))
    assert not here.index.recovering  # nobody was rejected for it
    before = here.index.generation((NFS,))
    here.wait(CLOSE_AFTER_S)
    assert here.index.generation((NFS,)) > before
    assert not here.index.recovering


def test_a_backend_that_opens_changes_and_wakes_what_needs_it_alone() -> None:
    """Answers about other backends of the driver stay as they are, and so do their pods."""
    here, few = ten_nodes(), NODES[:5]
    a, b = (storage_key("nfs/a"),), (storage_key("nfs/b"),)
    here.hear(*(misnamed(node, "nfs/b") for node in few[:4]))
    here.index.take_recovered()
    here.hear(misnamed("n4", "nfs/b"))
    assert here.index.open_breakers == {*b}
    assert here.index.take_recovered() == {"nfs/b"}

    before = here.index.generation(a)
    here.hear(*(report(node, status("nfs", State.HEALTHY), status("nfs/b", State.HEALTHY)) for node in few))
    healed = here.index.generation(b)
    here.wait(CLOSE_AFTER_S)
    assert here.index.open_breakers == frozenset()
    assert here.index.generation(a) == before
    assert here.index.generation(b) > healed


def test_while_most_nodes_have_not_been_heard_shares_mean_nothing() -> None:
    """A filter that starts hears the bad nodes first by chance: that must not turn bad nodes good."""
    here = AgeingCluster()
    here.index.complete = False
    here.hear(*map(dead, NODES[:5]))
    here.tick()
    assert not here.index.breaker_open(NFS)
    here.hear(*map(well, NODES[5:]))
    here.index.complete = True
    here.tick()
    assert here.rejected(NODES, "nfs") == dict.fromkeys(NODES[:5], "DriverNotResponding")

    restarted = AgeingCluster()
    restarted.index.complete = False
    restarted.hear(*map(dead, NODES))
    restarted.index.complete = True
    restarted.tick()
    assert restarted.rejected(NODES, "nfs") == {}


def test_nodes_that_are_forgotten_count_no_more() -> None:
    """When a driver is gone from the cluster its breaker closes like any other, and no generation goes back."""
    here = ten_nodes()
    here.hear(*map(dead, NODES))
    here.forget(*NODES)
    assert here.index.breaker_counts(NFS) == (0, 0)
    assert here.index.breaker_open(NFS)

    here.wait(CLOSE_AFTER_S)
    assert not here.index.breaker_open(NFS)
    closed = here.index.generation((NFS,))
    here.tick()
    assert not here.index._breakers._storages
    assert here.index.generation((NFS,)) == closed
    here.hear(well("n0"))
    here.hear(well("n0"))
    assert here.index._breakers.changed(NFS) == closed
