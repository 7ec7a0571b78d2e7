"""What is known about nodes and decisions right now, for the live view, the lines and `leadsman status`."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nats.aio.msg import Msg

from leadsman.domain.clock import Clock
from leadsman.domain.report import NodeReport, StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.wire.decision import DecisionRecord, decode_decision
from leadsman.wire.errors import WireError
from leadsman_cli.messages import DecisionView, NodeView, StorageView

_DECISIONS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Change:
    """A storage of a node is not what it was; `before` is None for the first word about it."""

    node: str
    before: State | None
    status: StorageStatus


class Board:
    """Follows reports (as a `ReplicaListener`) and decision records, and tells observers what is new."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._storages: dict[str, dict[StorageKey, StorageStatus]] = {}
        self.decisions: deque[DecisionView] = deque(maxlen=_DECISIONS_KEPT)
        self.on_change: Callable[[Change], None] = lambda _: None
        self.on_decision: Callable[[DecisionView], None] = lambda _: None

    def on_report(self, report: NodeReport, age_s: float) -> None:  # noqa: ARG002 - the listener's signature
        """Take a newer report of a node and announce what differs from the one before."""
        known = self._storages.get(report.node, {})
        fresh = {status.key: status for status in report.storages}
        self._storages[report.node] = fresh
        for key, status in sorted(fresh.items()):
            before = known.get(key)
            if before is None or (before.state, before.reason) != (status.state, status.reason):
                self.on_change(Change(report.node, before.state if before else None, status))

    async def on_decision_message(self, message: Msg) -> None:
        """Take a decision record from the bus; one of a newer version that cannot be read is left out."""
        try:
            decision = _decision_view(decode_decision(message.data))
        except WireError:
            return
        self.decisions.append(decision)
        self.on_decision(decision)

    def unhealthy(self, node: str, expected: tuple[StorageKey, ...]) -> list[str]:
        """What keeps `node` from being wholly healthy, in words; empty if nothing does."""
        storages = self._storages.get(node, {})
        missing = [f"{key} has no report" for key in expected if key not in storages]
        return missing + [
            f"{key} is {status.state} {status.reason or ''}".rstrip()
            for key, status in sorted(storages.items())
            if status.state is not State.HEALTHY
        ]

    def node_view(self, node: str, age_s: float | None, broken_by: list[str]) -> NodeView:
        """The picture of one node."""
        storages = [self._storage_view(status) for _, status in sorted(self._storages.get(node, {}).items())]
        return NodeView(node, age_s, storages, broken_by)

    def _storage_view(self, status: StorageStatus) -> StorageView:
        return StorageView(
            driver=status.key.driver,
            backend=status.key.backend,
            state=status.state.value,
            reason=status.reason.value if status.reason else "",
            message=status.message,
            for_s=round(max(0.0, self._clock.epoch() - status.since_epoch_s), 1),
        )


def _decision_view(record: DecisionRecord) -> DecisionView:
    pod = f"{record.namespace}/{record.pod}" if record.namespace else record.pod
    return DecisionView(
        at=record.at,
        verb=record.verb,
        pod=pod,
        outcome=record.outcome,
        candidates=record.candidates,
        rejected_total=record.rejected_total,
        rejected=record.rejected,
        scores=record.scores,
    )
