"""A monitoring failure is not a storage failure: whom an open breaker lets pass, and whom it does not."""

import pytest

from leadsman.domain.breaker import CLOSE_AFTER_S
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Requirement
from leadsman.domain.states import State
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.ageing_cluster import (
    NODES,
    AgeingCluster,
    absent,
    dead,
    hung,
    misnamed,
    starting,
    ten_nodes,
    well,
)
from leadsman.testing.reports import report, status, storage_key, volume

NFS = storage_key("nfs")
REJECT_STALE = StoragePolicy(DriverPolicy(stale=Treatment.REJECT))
REJECT_UNKNOWN = StoragePolicy(DriverPolicy(unknown=Treatment.REJECT))


def test_broken_data_paths_and_missing_drivers_reject_while_the_breaker_is_open() -> None:
    """Whoever mounts would meet the same, whatever monitoring says of the plugins."""
    here = ten_nodes(StoragePolicy(breaker=BreakerPolicy(0.5)))
    here.hear(*map(dead, NODES[:7]), hung("n7"), absent("n8"))

    assert here.index.breaker_open(NFS)
    assert here.rejected(NODES, "nfs/a") == {"n7": "MountHung", "n8": "DriverNotRegistered"}


def test_of_a_node_with_both_only_the_data_path_counts_while_the_breaker_is_open() -> None:
    """It is counted as weak all the same: pods of other backends are kept off it by its plugin alone."""
    here = ten_nodes()
    plugin = status("nfs", State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    here.hear(*(report(node, plugin, status("nfs/a", State.UNHEALTHY)) for node in NODES))

    assert here.index.breaker_counts(NFS) == (10, 10)
    assert set(here.rejected(NODES, "nfs/a").values()) == {"MountHung"}
    assert here.rejected(NODES, "nfs/b") == {}


def test_a_mass_failure_of_the_data_path_opens_nothing() -> None:
    """A dead server is a storage failure: if every node is bad, every node is rejected."""
    here = ten_nodes()
    here.hear(*map(hung, NODES))

    assert not here.index.breaker_open(NFS)
    assert here.rejected(NODES, "nfs/a") == dict.fromkeys(NODES, "MountHung")


def test_one_wrong_name_disarms_its_own_backend_alone() -> None:
    """A PersistentVolume with a mistake looks bad on every node for as long as it exists; all else rejects as ever."""
    wrong = status("nfs/typo", State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)
    well_otherwise = [status("nfs", State.HEALTHY), status("nfs/a", State.HEALTHY), wrong]
    here = AgeingCluster()
    here.hear(*(report(node, *well_otherwise) for node in NODES))
    assert here.index.open_breakers == {storage_key("nfs/typo")}
    assert here.rejected(NODES, "nfs/typo") == {}

    frozen = status("nfs", State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    unresolved = status("nfs/a", State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)
    here.hear(report("n0", frozen, *well_otherwise[1:]))
    here.hear(report("n1", well_otherwise[0], unresolved, wrong))
    here.hear(report("n2", *well_otherwise[:2], status("nfs/typo", State.UNHEALTHY, Reason.MOUNT_HUNG)))
    assert [here.index.breaker_open(storage_key(key)) for key in ("nfs", "nfs/a", "nfs/typo")] == [False, False, True]
    assert here.rejected(NODES, "nfs") == {"n0": "DriverNotResponding"}
    assert here.rejected(NODES, "nfs/a") == {"n0": "DriverNotResponding", "n1": "NameResolutionFailed"}
    assert here.rejected(NODES, "nfs/typo") == {"n0": "DriverNotResponding", "n2": "MountHung"}


def test_a_lost_name_server_opens_the_breaker_of_each_backend_by_itself() -> None:
    """Nobody is rejected for names; plugins, which need none, are judged as ever."""
    here = ten_nodes()
    here.hear(*(misnamed(node, "nfs/a", "nfs/b", "smb/a") for node in NODES[:9]))
    assert here.index.open_breakers == {storage_key(key) for key in ("nfs/a", "nfs/b", "smb/a")}
    assert here.rejected(NODES, "nfs/a", "nfs/b", "smb/a") == {}

    here.hear(dead("n9"))
    assert here.rejected(NODES, "nfs/b") == {"n9": "DriverNotResponding"}


def test_plugins_dead_everywhere_cover_every_backend() -> None:
    """The driver's breaker lets weak evidence about few nodes of a backend pass, too; data paths reject."""
    here = ten_nodes()
    plugin = status("nfs", State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    here.hear(*(report(node, plugin, status("nfs/a", State.HEALTHY)) for node in NODES))
    here.hear(report("n0", plugin, status("nfs/a", State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)))
    here.hear(report("n1", plugin, status("nfs/a", State.UNHEALTHY, Reason.MOUNT_HUNG)))

    assert here.index.open_breakers == {NFS}
    assert here.index.breaker_open(storage_key("nfs/a"))
    assert not here.index.breaker_open(storage_key("smb/a"))
    assert here.index.breaker_counts(storage_key("nfs/a")) == (1, 10)
    assert here.rejected(NODES, "nfs/a") == {"n1": "MountHung"}

    here.index.take_recovered()
    here.hear(report("n0", plugin, status("nfs/a", State.HEALTHY)))
    assert not here.index.recovering  # it was not rejected


def test_where_unknown_is_rejected_a_backends_breaker_speaks_for_nodes_that_list_nothing() -> None:
    """Of that backend alone: a pod with another need, or the driver itself, is kept off them."""
    here = AgeingCluster(REJECT_UNKNOWN)
    here.hear(*(report(node, status("nfs", State.HEALTHY), status("nfs/a", State.UNKNOWN)) for node in NODES))

    assert here.index.open_breakers == {storage_key("nfs/a")}
    assert here.rejected([*NODES, "never heard of"], "nfs/a") == {}
    assert here.rejected([*NODES, "never heard of"], "nfs/b") == {"never heard of": "NotObserved"}
    assert here.rejected([*NODES, "never heard of"], "nfs") == {"never heard of": "NotObserved"}


def test_one_driver_does_not_affect_another() -> None:
    """Neither its verdicts nor its generation, so that kept answers stay valid."""
    here = ten_nodes()
    here.hear(*(report(f"s{number}", status("smb", State.HEALTHY)) for number in range(5)))
    here.hear(report("s0", status("smb", State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)))
    before = here.index.generation((storage_key("smb"),))
    here.hear(*map(dead, NODES))

    assert here.index.open_breakers == {NFS}
    assert here.rejected(["s0", "s1"], "smb") == {"s0": "DriverNotResponding"}
    assert here.rejected(NODES, "nfs", "smb").keys() == set()
    assert here.index.generation((storage_key("smb"),)) == before


def test_the_silence_of_all_nodes_is_a_failure_of_monitoring() -> None:
    """Under `stale: reject` nodes go one by one, and when nearly all are silent all may be used again."""
    here = ten_nodes(REJECT_STALE)
    for number, node in enumerate(NODES):
        here.hear(well(node))
        here.wait(1 if number < 9 else 0)
    here.wait(28)
    assert set(here.rejected(NODES, "nfs").values()) == {"Stale"}
    assert len(here.rejected(NODES, "nfs")) == 8

    here.wait(1)
    assert here.index.open_breakers == {NFS, storage_key("nfs/a")}
    assert here.rejected(NODES, "nfs") == {}

    here.hear(*map(well, NODES[5:]))
    here.wait(CLOSE_AFTER_S)
    assert here.rejected(NODES, "nfs") == dict.fromkeys(NODES[:5], "Stale")


def test_where_unknown_is_rejected_an_open_breaker_lets_unlisted_nodes_pass() -> None:
    """All collectors of a driver that start at once, and nodes that are not heard of, must not stop every pod."""
    here = ten_nodes(REJECT_UNKNOWN)
    assert here.rejected(["never heard of"], "nfs") == {"never heard of": "NotObserved"}
    here.hear(*map(starting, NODES[1:]), hung("n0"))

    assert here.index.breaker_open(NFS)
    assert here.rejected([*NODES, "never heard of"], "nfs/a") == {"n0": "MountHung"}
    assert here.rejected(["never heard of"], "nfs/a", "smb") == {"never heard of": "NotObserved"}

    here.hear(*map(well, NODES))
    here.wait(CLOSE_AFTER_S)
    assert here.rejected([*NODES, "never heard of"], "nfs/a") == {"never heard of": "NotObserved"}


def test_where_unknown_is_allowed_unknown_nodes_are_not_weak() -> None:
    """Only what would reject counts."""
    here = ten_nodes()
    here.hear(*map(starting, NODES))

    assert here.index.breaker_counts(NFS) == (0, 10)
    assert not here.index.breaker_open(NFS)


def test_a_bad_volume_rejects_while_the_breaker_is_open_if_the_data_path_says_so() -> None:
    """What a newer collector calls by a word that is not known here is weak, and so is an unknown volume."""
    here = ten_nodes(REJECT_UNKNOWN)
    words = [
        volume("nfs/pv-1"),
        volume("nfs/pv-2", reason=Reason.UNRECOGNISED),
        volume("nfs/pv-3", State.UNKNOWN, Reason.ACCESS_REVOKED),
    ]
    needs = [[Requirement("nfs", "a", one.volume)] for one in words]
    plugin = status("nfs", State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    here.hear(report("n0", status("nfs", State.HEALTHY), volumes=words))
    assert [here.rejected(["n0"], "nfs", volumes=need).keys() for need in needs] == [{"n0"}] * 3

    here.hear(*(report(node, plugin, volumes=words) for node in NODES))
    assert here.index.breaker_open(NFS)
    assert [here.rejected(["n0"], "nfs", volumes=need) for need in needs] == [{"n0": "StaleFileHandle"}, {}, {}]


@pytest.mark.parametrize("at_once", [1, 2, 5, 8, 9, 10])
def test_a_rolling_upgrade_of_the_node_plugins_never_stops_all_placement(at_once: int) -> None:
    """However many restart together, at every moment some node takes pods, and at the end all do."""
    here = ten_nodes()
    for first in range(0, len(NODES), at_once):
        for node in NODES[first : first + at_once]:
            here.hear(dead(node))
            assert len(here.rejected(NODES, "nfs/a")) < len(NODES)
        here.wait(3)
        assert len(here.rejected(NODES, "nfs/a")) < len(NODES)
        here.hear(*map(well, NODES[first : first + at_once]))
    assert here.rejected(NODES, "nfs/a") == {}

    here.wait(CLOSE_AFTER_S)
    assert here.index.open_breakers == frozenset()
