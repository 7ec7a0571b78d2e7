"""What the live picture and the lines are made of."""

from types import SimpleNamespace
from typing import Any

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman.wire.decision import DecisionRecord, RejectedNodes, encode_decision
from leadsman_cli.board import Board, Change
from leadsman_cli.messages import DecisionView, Status
from leadsman_cli.tables import decision_words, print_table, status_table

DRIVER = StorageKey("nfs.csi.k8s.io")
BACKEND = StorageKey("nfs.csi.k8s.io", "10.0.0.9")


OTHER = StorageKey("smb.csi.k8s.io")
BAD = VolumeStatus("nfs.csi.k8s.io", "pv-1", State.UNHEALTHY, Reason.STALE_FILE_HANDLE, "ESTALE")


def _report(
    *storages: StorageStatus, volumes: tuple[VolumeStatus, ...] = (), scope: str = "", seq: int = 1
) -> NodeReport:
    return NodeReport("node-1", Sequence(1, seq), 10.0, storages, bad_volumes=volumes, scope=scope)


def _message(record: DecisionRecord) -> Any:
    return SimpleNamespace(data=encode_decision(record))


def test_only_what_differs_from_the_last_report_is_announced() -> None:
    """A heartbeat is silent, a new state comes with the one before it."""
    board = Board(FakeClock())
    changes: list[Change] = []
    board.on_change = changes.append
    healthy = StorageStatus(DRIVER, State.HEALTHY)
    broken = StorageStatus(DRIVER, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    board.on_report(_report(healthy), 0.0)
    board.on_report(_report(healthy, seq=2), 0.0)
    board.on_report(_report(broken, seq=3), 0.0)
    assert changes == [
        Change("node-1", "nfs.csi.k8s.io", None, State.HEALTHY),
        Change("node-1", "nfs.csi.k8s.io", State.HEALTHY, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING),
    ]


def test_a_bad_volume_is_announced_when_it_turns_bad_and_when_it_is_well_again() -> None:
    """It is no longer listed then; until then it keeps its node from being wholly healthy."""
    board = Board(FakeClock())
    changes: list[Change] = []
    board.on_change = changes.append
    healthy = StorageStatus(DRIVER, State.HEALTHY)
    name = "nfs.csi.k8s.io volume pv-1"
    board.on_report(_report(healthy, volumes=(BAD,)), 0.0)
    assert board.unhealthy("node-1", (DRIVER,)) == [f"{name} is UNHEALTHY StaleFileHandle"]
    board.on_report(_report(healthy, volumes=(BAD,), seq=2), 0.0)
    board.on_report(_report(healthy, seq=3), 0.0)
    assert changes[1:] == [
        Change("node-1", name, None, State.UNHEALTHY, Reason.STALE_FILE_HANDLE, "ESTALE"),
        Change("node-1", name, State.UNHEALTHY, None),
    ]
    assert board.unhealthy("node-1", ()) == []


def test_a_volume_and_a_backend_of_one_name_are_two_things() -> None:
    """Both are shown, and neither stands for the other."""
    board = Board(FakeClock())
    same_name = BAD._replace(volume=BACKEND.backend)
    board.on_report(_report(StorageStatus(BACKEND, State.HEALTHY), volumes=(same_name,)), 0.0)
    view = board.node_view("node-1", 0.1, [])
    assert (view.storages[0].state, view.bad_volumes[0].state) == ("HEALTHY", "UNHEALTHY")


def test_the_words_of_a_sidecar_and_of_the_agent_make_one_row() -> None:
    """Neither hides the other's storages; of one storage the worse known state is shown, as the filter takes it."""
    board = Board(FakeClock())
    board.on_report(_report(StorageStatus(DRIVER, State.HEALTHY), StorageStatus(OTHER, State.HEALTHY)), 0.0)
    plugin = StorageStatus(DRIVER, State.UNKNOWN, Reason.DRIVER_STARTING)
    hung = StorageStatus(BACKEND, State.UNHEALTHY, Reason.MOUNT_HUNG)
    board.on_report(_report(plugin, hung, volumes=(BAD,), scope="nfs.csi.k8s.io"), 0.0)
    view = board.node_view("node-1", 0.1, [])
    assert [(one.driver, one.backend, one.state) for one in view.storages] == [
        ("nfs.csi.k8s.io", "", "HEALTHY"),
        ("nfs.csi.k8s.io", "10.0.0.9", "UNHEALTHY"),
        ("smb.csi.k8s.io", "", "HEALTHY"),
    ]
    assert [(one.volume, one.state, one.reason) for one in view.bad_volumes] == [
        ("pv-1", "UNHEALTHY", "StaleFileHandle")
    ]

    board.on_forget("node-1/nfs.csi.k8s.io")
    view = board.node_view("node-1", 0.1, [])
    assert (len(view.storages), view.bad_volumes) == (2, [])


def test_bad_volumes_stand_below_their_node(capsys: pytest.CaptureFixture[str]) -> None:
    """In their driver's column, also where no node reports on the driver itself; other nodes stay one row."""
    board = Board(FakeClock())
    board.on_report(_report(StorageStatus(BACKEND, State.HEALTHY), volumes=(BAD,)), 0.0)
    nodes = [board.node_view(name, age, []) for name, age in (("node-1", 0.5), ("node-2", None))]
    print_table(status_table(Status("gateway", "nats", ready=True, nodes=nodes, decisions=[])))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["NODE", "nfs.csi.k8s.io", "nfs.csi.k8s.io/10.0.0.9", "REPORT", "BROKEN", "BY"]
    assert lines[1][:3] == ["node-1", "-", "HEALTHY"]
    assert lines[2][:4] == ["volume", "pv-1", "UNHEALTHY", "StaleFileHandle"]
    assert lines[3] == ["node-2", "-", "-", "none", "yet", "-"]


def test_a_node_is_healthy_only_when_all_that_is_expected_is_reported_healthy() -> None:
    """Missing storages and bad states are both named."""
    board = Board(FakeClock())
    board.on_report(_report(StorageStatus(DRIVER, State.UNKNOWN, Reason.DRIVER_STARTING)), 0.0)
    assert board.unhealthy("node-1", (DRIVER, BACKEND)) == [
        "nfs.csi.k8s.io/10.0.0.9 has no report",
        "nfs.csi.k8s.io is UNKNOWN DriverStarting",
    ]
    board.on_report(_report(StorageStatus(DRIVER, State.HEALTHY), StorageStatus(BACKEND, State.HEALTHY)), 0.0)
    assert board.unhealthy("node-1", (DRIVER, BACKEND)) == []


def test_the_age_of_a_state_is_never_negative() -> None:
    """A node's clock may be ahead of ours."""
    clock = FakeClock()
    board = Board(clock)
    board.on_report(_report(StorageStatus(DRIVER, State.HEALTHY, since_epoch_s=clock.epoch() + 5)), 0.0)
    assert board.node_view("node-1", 0.1, []).storages[0].for_s == 0.0


async def test_decisions_are_kept_and_told_and_rubbish_is_left_out() -> None:
    """A body that is no record of this version does no harm."""
    board = Board(FakeClock())
    told: list[DecisionView] = []
    board.on_decision = told.append
    record = DecisionRecord(
        *(1.0, "filter", "default", "web", "u", "decided", 3),
        rejected_total=1,
        rejections=[RejectedNodes("MountHung", "nfs.csi.k8s.io", 1, ["node-3"])],
        shadow_total=1,
        shadow=[RejectedNodes("RuleNotMet", "gpu-nodes", 1, ["node-2"])],
    )
    await board.on_decision_message(_message(record))
    rubbish: Any = SimpleNamespace(data=b"{")
    await board.on_decision_message(rubbish)
    assert told == list(board.decisions)
    assert decision_words(told[0]) == "2 of 3 nodes pass; not node-3 MountHung; in shadow not node-2 RuleNotMet"


def test_scores_that_nobody_gave_are_no_opinion() -> None:
    """A fast-path prioritize has nothing to say about nodes."""
    decision = DecisionView(1.0, "prioritize", "default/web", "fast-path", 3, 0, {}, {})
    assert decision_words(decision) == "no opinion (fast-path)"
