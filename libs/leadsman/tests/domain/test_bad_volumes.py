"""A volume that is bad on a node keeps the pods that need it off that node, and no other pod."""

import pytest

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.reasons import Reason
from leadsman.domain.rejections import storage_answer, volume_rejections
from leadsman.domain.report import NodeReport, VolumeStatus
from leadsman.domain.requirements import Question, Requirement
from leadsman.domain.score_board import ScoreBoard
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import FilterAnswer, Rejection
from leadsman.testing.reports import report, status, storage_key, volume

NFS_A = storage_key("nfs/a")
PV_1 = Requirement("nfs", "a", "pv-1")
PV_2 = Requirement("nfs", "a", "pv-2")
STALE_HANDLE = Rejection(Reason.STALE_FILE_HANDLE, "nfs")
REJECT_UNKNOWN = StoragePolicy(DriverPolicy(unknown=Treatment.REJECT))


def telling(*volumes: VolumeStatus, node: str = "n1", scope: str = "", seq: int = 1) -> NodeReport:
    return report(node, status("nfs/a", State.DEGRADED), volumes=volumes, scope=scope, seq=seq)


def heard(*reports: NodeReport, policy: StoragePolicy | None = None) -> HealthIndex:
    index = HealthIndex(policy or StoragePolicy(), ChangeCounter())
    for one in reports:
        index.apply(one, 0, 0)
    return index


def answer_for(index: HealthIndex, *volumes: Requirement) -> FilterAnswer:
    return storage_answer(index, (NFS_A,))._replace(volumes=volume_rejections(index, volumes))


def verdict(index: HealthIndex, *volumes: Requirement, node: str = "n1") -> Rejection | None:
    return answer_for(index, *volumes).verdict(node)


def test_only_pods_that_need_the_volume_are_kept_off_and_only_there() -> None:
    """One bad volume is not a bad backend: other volumes of it, other drivers' and other nodes are not touched."""
    index = heard(telling(volume("nfs/pv-1")), telling(node="n2"))

    assert verdict(index, PV_1) == STALE_HANDLE
    assert verdict(index, PV_2, PV_1) == STALE_HANDLE
    assert verdict(index, PV_2) is None
    assert verdict(index, PV_1, node="n2") is None
    assert verdict(index, Requirement("smb", "a", "pv-1")) is None
    assert answer_for(index).verdict("n1") is None


@pytest.mark.parametrize(
    ("state", "rejected", "where_unknown_is_rejected"),
    [
        (State.UNHEALTHY, True, True),
        (State.DEGRADED, False, False),
        (State.HEALTHY, False, False),
        (State.UNKNOWN, False, True),
        (State.NOT_APPLICABLE, False, True),
    ],
)
def test_each_state_of_a_volume_has_its_verdict(
    state: State, *, rejected: bool, where_unknown_is_rejected: bool
) -> None:
    """Degraded informs; a word that we do not know is unknown, and policy decides about that as for storages."""
    told = telling(volume("nfs/pv-1", state))

    assert (verdict(heard(told), PV_1) is not None) is rejected
    assert (verdict(heard(told, policy=REJECT_UNKNOWN), PV_1) is not None) is where_unknown_is_rejected
    assert verdict(heard(told, policy=REJECT_UNKNOWN), PV_2) is None


def test_a_volume_that_recovers_wakes_pods() -> None:
    """Whether it is well, only degraded or no longer listed; once for each, by its own name."""
    for after in ((), (volume("nfs/pv-1", State.DEGRADED),), (volume("nfs/pv-2"),)):
        index = heard(telling(volume("nfs/pv-1")))
        before = index.changes
        assert not index.recovering
        index.apply(telling(*after, seq=2), 0, 1)

        assert verdict(index, PV_1) is None
        assert index.take_recovered() == {"nfs volume pv-1"}
        assert not index.recovering
        assert index.changes > before


def test_a_backend_and_a_volume_of_one_name_are_told_apart() -> None:
    """Both recover in one turn."""
    index = heard(report("n1", status("nfs/a", State.UNHEALTHY), volumes=[volume("nfs/a")]))
    index.apply(report("n1", status("nfs/a", State.HEALTHY), seq=2), 0, 1)

    assert index.take_recovered() == {"nfs volume a", "nfs/a"}


def test_a_heartbeat_with_the_same_bad_volumes_changes_nothing() -> None:
    """Nor do messages and times; another reason is news."""
    index = heard(telling(volume("nfs/pv-1")))
    before = index.changes
    index.apply(telling(volume("nfs/pv-1")._replace(message="for 20 s", since_epoch_s=5), seq=2), 0, 1)
    assert index.changes == before

    index.apply(telling(volume("nfs/pv-1", reason=Reason.MOUNT_IO_ERROR), seq=3), 0, 2)
    assert index.changes > before
    assert verdict(index, PV_1) == Rejection(Reason.MOUNT_IO_ERROR, "nfs")
    assert not index.recovering


def test_a_volume_does_not_change_the_generation_of_its_storage() -> None:
    """Thousands of volumes share the answers of a few storages, which stay valid."""
    index = heard(telling())
    before = index.generation((NFS_A,))
    index.apply(telling(volume("nfs/pv-1"), seq=2), 0, 1)

    assert index.generation((NFS_A,)) == before


def test_on_a_silent_node_a_bad_volume_holds_and_then_its_storages_decide() -> None:
    """As a state that rejects does; where stale nodes are rejected, the stale storage keeps all pods off."""
    for stale in (Treatment.ALLOW, Treatment.REJECT):
        index = heard(telling(volume("nfs/pv-1")), policy=StoragePolicy(DriverPolicy(stale=stale)))
        index.tick(31.0, {"n1": 31.0}.get)
        assert verdict(index, PV_1) is not None
        assert index.volumes()

        index.tick(331.0, {"n1": 331.0}.get)
        assert not index.volumes()
        assert (verdict(index, PV_1) is not None) is (stale is Treatment.REJECT)
        assert "nfs volume pv-1" in index.take_recovered()


def test_a_report_brings_a_silent_nodes_volume_back() -> None:
    """The same list counts again, although nothing in it has changed."""
    index = heard(telling(volume("nfs/pv-1")))
    index.tick(331.0, {"n1": 331.0}.get)
    index.apply(telling(volume("nfs/pv-1"), seq=2), 0, 332)

    assert verdict(index, PV_1) == STALE_HANDLE


def test_a_forgotten_node_leaves_no_volume_behind() -> None:
    """Nothing of it stays, and pods that waited for it are woken."""
    index = heard(telling(volume("nfs/pv-1")), telling(volume("nfs/pv-1"), node="n2"))
    index.forget("n1")
    assert (verdict(index, PV_1), verdict(index, PV_1, node="n2")) == (None, STALE_HANDLE)

    index.tick(30.0, lambda _: None)
    assert not index.volumes()


def test_a_blind_index_rejects_for_no_volume() -> None:
    """After a bus outage beyond the limit nothing counts; after the return it counts again."""
    index = heard(telling(volume("nfs/pv-1")))
    index.tick(900.0, {"n1": 0.0}.get, frozen_for_s=900.0)
    assert verdict(index, PV_1) is None
    assert "nfs volume pv-1" in index.take_recovered()

    index.tick(901.0, {"n1": 1.0}.get)
    assert verdict(index, PV_1) == STALE_HANDLE


def test_bad_volumes_of_an_agent_and_a_sidecar_add_up() -> None:
    """Of one volume the worse word counts, and that one of them lists nothing is no good news."""
    index = heard(
        telling(volume("nfs/pv-1", reason=Reason.ACCESS_REVOKED)),
        telling(volume("nfs/pv-1", State.UNKNOWN), volume("nfs/pv-2"), scope="nfs"),
        policy=REJECT_UNKNOWN,
    )
    assert verdict(index, PV_1) == Rejection(Reason.ACCESS_REVOKED, "nfs")
    assert verdict(index, PV_2) == STALE_HANDLE

    index.forget("n1/nfs")
    assert verdict(index, PV_1) == Rejection(Reason.ACCESS_REVOKED, "nfs")
    assert verdict(index, PV_2) is None


def test_the_storage_gives_the_reason_where_it_rejects_too() -> None:
    """And a dead server's volumes, bad on every node, do not make the answer longer."""
    index = heard(
        report("n1", status("nfs/a", State.UNHEALTHY), volumes=[volume("nfs/pv-1")]),
        report("n2", status("nfs", State.UNHEALTHY), volumes=[volume("nfs/pv-1")]),
        report("n3", status("nfs/b", State.UNHEALTHY), volumes=[volume("nfs/pv-1")]),
    )

    assert verdict(index, PV_1) == Rejection(Reason.MOUNT_HUNG, "nfs")
    assert volume_rejections(index, [PV_1]) == {"n3": STALE_HANDLE}


def test_of_two_bad_volumes_one_reason_is_chosen_by_rule() -> None:
    """Unhealthy before unknown, then the first driver and volume in name order; the order of the request is nothing."""
    other = Requirement("cifs", "x", "pv-9")
    index = heard(
        telling(
            volume("nfs/pv-1"),
            volume("nfs/pv-2", reason=Reason.MOUNT_HUNG),
            volume("cifs/pv-9", State.UNKNOWN, Reason.ACCESS_REVOKED),
        ),
        policy=REJECT_UNKNOWN,
    )
    for needs in ([PV_1, PV_2, other], [other, PV_2, PV_1]):
        assert volume_rejections(index, needs) == {"n1": STALE_HANDLE}
    assert volume_rejections(index, [other]) == {"n1": Rejection(Reason.ACCESS_REVOKED, "cifs")}


def test_where_only_named_nodes_pass_a_bad_volume_still_rejects() -> None:
    """The other form of the answer, for drivers whose unknown nodes are kept off."""
    index = heard(
        telling(volume("nfs/pv-1")), report("n2", status("nfs/a", State.HEALTHY), seq=1), policy=REJECT_UNKNOWN
    )
    answer = answer_for(index, PV_1)

    assert answer.allowed == {"n1", "n2"}
    assert answer.verdict("n1") == STALE_HANDLE
    assert answer.verdict("n2") is None
    assert answer.verdict("never heard of") == Rejection(Reason.NOT_OBSERVED, "nfs")


def test_a_bad_volume_changes_no_score() -> None:
    """A degraded one informs people; nodes with an unhealthy one are the filter's to reject."""
    for state in State:
        changes = ChangeCounter()
        index = HealthIndex(StoragePolicy(), changes)
        board = ScoreBoard(SchedulingPolicy(), index, FactIndex(StoragePolicy()), changes)
        index.apply(telling(volume("nfs/pv-1", state)), 0, 0)
        assert board.answer(Question((NFS_A,))).scores == bytes([3])
