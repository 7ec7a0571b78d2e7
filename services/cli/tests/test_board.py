"""What the live picture and the lines are made of."""

from types import SimpleNamespace
from typing import Any

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman.wire.decision import DecisionRecord, encode_decision
from leadsman_cli.board import Board, Change
from leadsman_cli.messages import DecisionView
from leadsman_cli.tables import decision_words

DRIVER = StorageKey("nfs.csi.k8s.io")
BACKEND = StorageKey("nfs.csi.k8s.io", "10.0.0.9")


def _report(*storages: StorageStatus, seq: int = 1) -> NodeReport:
    return NodeReport("node-1", Sequence(1, seq), 10.0, storages)


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
    assert [(change.before, change.status.state) for change in changes] == [
        (None, State.HEALTHY),
        (State.HEALTHY, State.UNHEALTHY),
    ]


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
        1.0, "filter", "default", "web", "u", "decided", 3, rejected_total=1, rejected={"node-3": "MountHung"}
    )
    await board.on_decision_message(_message(record))
    rubbish: Any = SimpleNamespace(data=b"{")
    await board.on_decision_message(rubbish)
    assert told == list(board.decisions)
    assert decision_words(told[0]) == "2 of 3 nodes pass; not node-3 MountHung"


def test_scores_that_nobody_gave_are_no_opinion() -> None:
    """A fast-path prioritize has nothing to say about nodes."""
    decision = DecisionView(1.0, "prioritize", "default/web", "fast-path", 3, 0, {}, {})
    assert decision_words(decision) == "no opinion (fast-path)"
