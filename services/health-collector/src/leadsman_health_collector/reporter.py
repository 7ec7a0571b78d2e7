"""Turns statuses into the node's report, hands it to the publisher, and keeps it for the next run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus
from leadsman.domain.states import severity
from leadsman.telemetry.logs import get_logger
from leadsman.wire.errors import WireError
from leadsman.wire.report import MAX_STORAGES, encode_report
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.metrics import CollectorMetrics

log = get_logger("collector.reporter")

MAX_MESSAGE = 200


class Publisher(Protocol):
    """What `leadsman.bus.publish.ReportPublisher` offers: it stamps the report and decides when it goes out."""

    def update(self, report: NodeReport, *, urgent: bool) -> None:
        """Take `report` as the node's present state."""
        ...


class Reporter:
    """Says nothing until `ready` is true: a report from a node that has not looked yet would turn good into unknown."""

    def __init__(
        self,
        node: str,
        boot_id: str,
        book: HealthBook,
        publisher: Publisher,
        *,
        ready: Callable[[], bool],
        keep: Callable[[tuple[StorageStatus, ...]], None],
        metrics: CollectorMetrics,
    ) -> None:
        self._node = node
        self._boot_id = boot_id
        self._book = book
        self._publisher = publisher
        self._ready = ready
        self._keep = keep
        self._metrics = metrics
        self.started = False
        """Whether anything has been handed to the publisher yet."""
        self._left_out = 0

    def refresh(self) -> None:
        """Work out the statuses; publish at once if they changed, else leave them to the next heartbeat."""
        before = {status.key: status for status in self._book.statuses}
        changed = self._book.evaluate()
        statuses = self._book.statuses
        if changed:
            _log_changes(before, statuses)
        if not self._ready():
            return
        report = self._fit(NodeReport(self._node, Sequence(0, 0), 0.0, statuses, boot_id=self._boot_id))
        self._publisher.update(report, urgent=changed or not self.started)
        self._keep(report.storages)
        self._metrics.show(report.storages)
        self.started = True

    def _fit(self, report: NodeReport) -> NodeReport:
        """`report` within the limits of the bus: texts go first, then the best storages; the worst always stay."""
        shown = replace(
            report, storages=tuple(each._replace(message=each.message[:MAX_MESSAGE]) for each in report.storages)
        )
        if _fits(shown):
            self._left_out = 0
            return shown
        silent = [each._replace(message="") for each in report.storages]
        worst_first = sorted(silent, key=lambda each: -severity(each.state))[:MAX_STORAGES]
        while not _fits(smaller := replace(report, storages=tuple(worst_first))):
            worst_first = worst_first[: len(worst_first) * 9 // 10]
        self._note_left_out(len(silent) - len(worst_first))
        return smaller

    def _note_left_out(self, number: int) -> None:
        self._metrics.truncated.inc(1 if number else 0)
        if number and not self._left_out:
            log.warning("the report is too large, leaving out the best storages", left_out=number)
        self._left_out = number


def _fits(report: NodeReport) -> bool:
    if len(report.storages) > MAX_STORAGES:
        return False
    try:
        encode_report(_as_stamped(report))
    except WireError:
        return False
    return True


def _as_stamped(report: NodeReport) -> NodeReport:
    """`report` at the length it will have once the publisher has put its numbers in."""
    return replace(report, sequence=Sequence(10**13, 10**9), interval_s=59.9, sent_epoch_s=1e9 / 3)


def _log_changes(before: Mapping[StorageKey, StorageStatus], after: tuple[StorageStatus, ...]) -> None:
    for status in after:
        old = before.get(status.key)
        if old is None or (old.state, old.reason) != (status.state, status.reason):
            log.info(
                "storage state changed",
                driver=status.key.driver,
                backend=status.key.backend,
                state=status.state.value,
                reason=status.reason.value if status.reason else "",
                was=old.state.value if old else "",
                why=status.message,
            )
