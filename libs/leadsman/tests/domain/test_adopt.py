"""Another policy is in force at once, for states that are known already, and as if it had always been."""

import pytest

from leadsman.domain.report import NodeReport
from leadsman.domain.requirements import Requirement
from leadsman.domain.states import State
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.ageing_cluster import NODES, AgeingCluster, dead, hung, starting, ten_nodes, well
from leadsman.testing.reports import report, status, storage_key, volume

NFS = storage_key("nfs")
LENIENT = StoragePolicy()
STRICT = StoragePolicy(DriverPolicy(unknown=Treatment.REJECT, stale=Treatment.REJECT))


def of_one(*reports: NodeReport, policy: StoragePolicy = LENIENT) -> AgeingCluster:
    here = AgeingCluster(policy)
    here.hear(*reports)
    here.index.take_recovered()
    return here


def test_unknown_nodes_are_treated_by_the_new_policy() -> None:
    """Although no state has changed, answers have: listed and unlisted nodes alike, there and back."""
    here = of_one(starting("n1"), well("n2"))
    before = here.index.generation((NFS,))
    here.adopt(STRICT)
    assert here.rejected(["n1", "n2", "n3"], "nfs") == {"n1": "DriverStarting", "n3": "NotObserved"}
    assert here.index.generation((NFS,)) > before
    assert not here.index.recovering

    before = here.index.generation((NFS,))
    here.adopt(LENIENT)
    assert here.rejected(["n1", "n2", "n3"], "nfs") == {}
    assert here.index.generation((NFS,)) > before
    assert here.index.take_recovered() == {"nfs", "other drivers"}


@pytest.mark.parametrize(
    ("age_s", "before", "after"), [(25, None, "Stale"), (5, None, None), (40, "Stale", "Stale")], ids=str
)
def test_ages_are_measured_by_the_new_limits(age_s: float, before: str | None, after: str | None) -> None:
    """A report that is too old for a shorter `staleAfter` is stale at once."""
    here = AgeingCluster(STRICT)
    here.hear(well("n1"), age_s=age_s)
    assert here.rejected(["n1"], "nfs/a").get("n1") == before

    here.adopt(StoragePolicy(DriverPolicy(Treatment.REJECT, Treatment.REJECT, stale_after_s=20)))
    assert here.rejected(["n1"], "nfs/a").get("n1") == after
    assert here.index.silent == (after is not None)


def test_a_longer_limit_brings_stale_nodes_back() -> None:
    """And they turn stale when they reach it."""
    here = of_one(well("n1"), policy=STRICT)
    here.wait(31)
    here.adopt(StoragePolicy(DriverPolicy(Treatment.REJECT, Treatment.REJECT, stale_after_s=60)))
    assert here.rejected(["n1"], "nfs/a") == {}
    assert here.index.take_recovered() == {"nfs", "nfs/a"}
    assert here.index.silent == 0

    here.wait(28)
    assert here.rejected(["n1"], "nfs/a") == {}
    here.wait(1)
    assert here.rejected(["n1"], "nfs/a") == {"n1": "Stale"}


def test_a_shorter_hold_is_over_at_once() -> None:
    """What rejected only because it held is told as recovered; what is fresh still rejects and is not."""
    here = of_one(report("n1", status("smb", State.UNHEALTHY)), hung("n2"))
    here.wait(40)
    here.hear(hung("n2"))
    here.adopt(StoragePolicy(DriverPolicy(hold_unhealthy_s=5)))

    assert here.rejected(["n1", "n2"], "nfs/a", "smb") == {"n2": "MountHung"}
    assert here.index.take_recovered() == {"smb"}


def test_a_driver_of_its_own_does_not_change_the_others() -> None:
    """`drivers` in the document is for one of them."""
    here = of_one(starting("n1"), report("n2", status("smb", State.UNKNOWN)))
    here.adopt(StoragePolicy(drivers={"smb": DriverPolicy(unknown=Treatment.REJECT)}))

    assert here.rejected(["n1"], "nfs") == {}
    assert here.rejected(["n2"], "smb") == {"n2": "DriverStarting"}


def test_a_driver_that_is_rejected_no_more_where_nobody_lists_it_has_recovered() -> None:
    """Pods may wait for a driver that no report knows."""
    here = of_one(policy=StoragePolicy(drivers={"smb": DriverPolicy(unknown=Treatment.REJECT)}))
    here.adopt(LENIENT)

    assert here.index.take_recovered() == {"smb"}


def test_bad_volumes_follow_the_new_policy() -> None:
    """A volume of which nothing is known keeps pods off where unknown is rejected."""
    need = Requirement("nfs", "a", "pv-1")
    here = of_one(report("n1", status("nfs/a", State.DEGRADED), volumes=[volume("nfs/pv-1", State.UNKNOWN)]))
    before = here.index.generation_of_volumes([need])
    here.adopt(STRICT)
    assert here.rejected(["n1"], "nfs/a", volumes=[need]) == {"n1": "StaleFileHandle"}
    assert here.index.generation_of_volumes([need]) > before

    here.adopt(LENIENT)
    assert here.rejected(["n1"], "nfs/a", volumes=[need]) == {}
    assert "nfs volume pv-1" in here.index.take_recovered()


def test_the_breaker_follows_the_new_policy() -> None:
    """It opens at once if the share is too large for it, and closes after its ten seconds if it is not any more."""
    here = ten_nodes()
    here.hear(*map(dead, NODES[:8]))
    here.adopt(StoragePolicy(breaker=BreakerPolicy(0.5)))
    assert here.rejected(NODES, "nfs") == {}
    assert "nfs" in here.index.take_recovered()

    here.adopt(LENIENT)
    assert here.rejected(NODES, "nfs") == {}
    here.wait(10)
    assert here.rejected(NODES, "nfs").keys() == set(NODES[:8])


def test_a_policy_that_would_reject_nearly_everybody_on_no_evidence_rejects_nobody() -> None:
    """`unknown: reject` in a cluster whose collectors know nothing yet."""
    here = ten_nodes()
    here.hear(*map(starting, NODES))
    here.adopt(STRICT)

    assert here.index.breaker_open(NFS)
    assert here.rejected(NODES, "nfs") == {}


def test_the_same_policy_again_changes_nothing() -> None:
    """The document was touched, or something else in it was changed."""
    here = of_one(starting("n1"))
    before = here.index.changes
    here.adopt(StoragePolicy())

    assert here.index.changes == before


def test_a_reporter_that_is_gone_by_then_is_forgotten() -> None:
    """Its age is not known any more."""
    here = of_one(hung("n1"))
    here.index.adopt(STRICT, here.clock.monotonic(), lambda _: None)

    assert (here.index.nodes, here.index.silent) == (0, 0)
    assert here.rejected(["n1"], "nfs") == {"n1": "NotObserved"}


def test_while_all_is_unknown_another_policy_decides_what_that_is_worth() -> None:
    """And at the return of the bus, states are judged by it."""
    here = of_one(hung("n1"), starting("n2"))
    here.lose_bus()
    here.wait(900)
    here.index.take_recovered()
    here.adopt(STRICT)
    assert here.rejected(["n1", "n2"], "nfs/a") == {"n1": "Stale", "n2": "Stale"}

    here.find_bus()
    assert here.rejected(["n1", "n2"], "nfs/a") == {"n1": "MountHung", "n2": "DriverStarting"}
