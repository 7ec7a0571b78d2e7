"""What is known about nodes and decisions right now, for the live view, the lines and `leadsman status`."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nats.aio.msg import Msg

from leadsman.domain.clock import Clock
from leadsman.domain.health import Health, health, prevailing
from leadsman.domain.reasons import Reason, evidence_of
from leadsman.domain.report import NodeReport, StorageKey, StorageStatus, VolumeKey, VolumeStatus
from leadsman.domain.states import State
from leadsman.wire.decision import DecisionRecord, decode_decision, reasons_by_node
from leadsman.wire.errors import WireError
from leadsman_cli.messages import DecisionView, NodeView, StorageView, VolumeView

_DECISIONS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Change:
    """A storage or volume of a node is not what it was.

    `name` is `driver`, `driver/backend` or `driver volume NAME`. `before` is None for the first word about it, `state`
    for a volume that no longer is among the bad ones.
    """

    node: str
    name: str
    before: State | None
    state: State | None
    reason: Reason | None = None
    message: str = ""


Said = StorageStatus | VolumeStatus


class Board:
    """Follows reports (as a `ReplicaListener`) and decision records, and tells observers what is new.

    A node is shown with what its agent and its sidecars say together.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reports: dict[str, NodeReport] = {}
        self.decisions: deque[DecisionView] = deque(maxlen=_DECISIONS_KEPT)
        self.on_change: Callable[[Change], None] = lambda _: None
        self.on_decision: Callable[[DecisionView], None] = lambda _: None

    def on_report(self, report: NodeReport, age_s: float) -> None:  # noqa: ARG002 - the listener's signature
        """Take a newer report of a reporter and announce what differs on its node from before."""
        known = self._said_of(report.node)
        self._reports[report.reporter] = report
        fresh = self._said_of(report.node)
        for name, now in fresh.items():
            before = known.get(name)
            if before is None or (before.state, before.reason) != (now.state, now.reason):
                was = before.state if before else None
                self.on_change(Change(report.node, name, was, now.state, now.reason, now.message))
        for name, before in known.items():
            if isinstance(before, VolumeStatus) and name not in fresh:
                self.on_change(Change(report.node, name, before.state, None))

    def on_forget(self, reporter: str) -> None:
        """Drop what a reporter said that has been silent for very long."""
        self._reports.pop(reporter, None)

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
        said = self._said_of(node)
        missing = [f"{key} has no report" for key in expected if str(key) not in said]
        return missing + [
            f"{name} is {status.state} {status.reason or ''}".rstrip()
            for name, status in said.items()
            if status.state is not State.HEALTHY
        ]

    def node_view(self, node: str, age_s: float | None, broken_by: list[str]) -> NodeView:
        """The picture of one node."""
        said = self._said_of(node)
        storages = [self._storage_view(one) for one in said.values() if isinstance(one, StorageStatus)]
        volumes = [self._volume_view(one) for one in said.values() if isinstance(one, VolumeStatus)]
        return NodeView(node, age_s, storages, broken_by, volumes)

    def _said_of(self, node: str) -> dict[str, Said]:
        """Storages, then bad volumes, each by name and in its order, as all reporters of `node` tell them together."""
        storages: dict[StorageKey, StorageStatus] = {}
        volumes: dict[VolumeKey, VolumeStatus] = {}
        for report in self._reports.values():
            if report.node == node:
                for status in report.storages:
                    storages[status.key] = _worse(status, storages.get(status.key, status))
                for bad in report.bad_volumes:
                    key = VolumeKey(bad.driver, bad.volume)
                    volumes[key] = _worse(bad, volumes.get(key, bad))
        named: dict[str, Said] = {str(key): storages[key] for key in sorted(storages)}
        return named | {str(key): volumes[key] for key in sorted(volumes)}

    def _storage_view(self, status: StorageStatus) -> StorageView:
        return StorageView(
            driver=status.key.driver,
            backend=status.key.backend,
            state=status.state.value,
            reason=status.reason.value if status.reason else "",
            message=status.message,
            for_s=self._for_s(status),
        )

    def _volume_view(self, status: VolumeStatus) -> VolumeView:
        return VolumeView(
            driver=status.driver,
            volume=status.volume,
            state=status.state.value,
            reason=status.reason.value,
            message=status.message,
            for_s=self._for_s(status),
        )

    def _for_s(self, status: Said) -> float:
        return round(max(0.0, self._clock.epoch() - status.since_epoch_s), 1)


S = TypeVar("S", StorageStatus, VolumeStatus)


def _worse(one: S, other: S) -> S:
    """What counts where two reporters speak of one thing, by the filter's own rule."""
    return one if prevailing(_health(one), _health(other)) is _health(one) else other


def _health(status: Said) -> Health:
    evidence = status.evidence if isinstance(status, StorageStatus) else evidence_of(status.reason)
    return health(status.state, status.reason, evidence)


def _decision_view(record: DecisionRecord) -> DecisionView:
    pod = f"{record.namespace}/{record.pod}" if record.namespace else record.pod
    return DecisionView(
        at=record.at,
        verb=record.verb,
        pod=pod,
        outcome=record.outcome,
        candidates=record.candidates,
        rejected_total=record.rejected_total,
        rejected=reasons_by_node(record.rejections),
        scores=record.scores,
        shadow=reasons_by_node(record.shadow),
    )
