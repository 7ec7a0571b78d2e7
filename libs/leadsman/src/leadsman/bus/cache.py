"""The reports themselves: the newest of each reporter by (epoch, seq), and when it was current in link time.

A node's agent and its sidecars are reporters of their own: none of them overwrites, ages or expires another.
"""

from collections.abc import Mapping
from types import MappingProxyType

from leadsman.domain.report import NodeReport, Sequence

SILENT_INTERVALS = 3.0
"""Missed heartbeats after which a reporter's known life counts as over."""

MAX_SIDECARS = 32
"""Sidecars of one node that are heard: more than any node runs CSI drivers, and no node can fill our memory."""


class ReportCache:
    """Pure state of a replica, by reporter name (`NodeReport.reporter`). A merge only adds or raises.

    Only `forget` and `expire` remove. `step_back` is the one exception to "never lower". `current_at` values are link
    time (see `leadsman.bus.link`), in seconds.
    """

    def __init__(self, max_nodes: int) -> None:
        self._max_nodes = max_nodes
        self._reports: dict[str, NodeReport] = {}
        self._current_at: dict[str, float] = {}
        self._lower: dict[str, Sequence] = {}
        self._reporters: dict[str, tuple[str, ...]] = {}  # of each node
        self.reports: Mapping[str, NodeReport] = MappingProxyType(self._reports)

    @property
    def nodes(self) -> int:
        """How many nodes have some reporter."""
        return len(self._reporters)

    @property
    def sidecars(self) -> int:
        """How many reporters speak for a single driver."""
        return sum(1 for report in self._reports.values() if report.scope)

    def reporters(self, node: str) -> tuple[str, ...]:
        """The names of all that report for `node`."""
        return self._reporters.get(node, ())

    def full_for(self, node: str) -> bool:
        """Whether `node` is new and there is no room for a new one."""
        return node not in self._reporters and len(self._reporters) >= self._max_nodes

    def crowded_for(self, report: NodeReport) -> bool:
        """Whether a new sidecar reports for a node that has as many as may be heard."""
        if not report.scope or report.reporter in self._reports:
            return False
        return sum(1 for name in self.reporters(report.node) if name != report.node) >= MAX_SIDECARS

    def merge(self, report: NodeReport, current_at: float) -> bool:
        """Take `report` if its (epoch, seq) is higher than what is known of its reporter.

        A newer report is never older in age than the one it replaces: what the server's time stamp says beyond that
        is time in which the bus was frozen for us.
        """
        reporter = report.reporter
        known = self._reports.get(reporter)
        if known is None:
            self._reporters[report.node] = (*self.reporters(report.node), reporter)
        elif report.sequence <= known.sequence:
            return False
        self._take(reporter, report, current_at)
        return True

    def step_back(self, report: NodeReport, link_now: float) -> bool:
        """Take a live `report` of a lower epoch if the life of its reporter that we know must be over.

        An epoch is a time of the node's clock, and a clock can go back. Two things tell that from a late message:

        * the node has another boot id: a machine runs one boot at a time, so what speaks now is the present one;
        * or the known life has missed `SILENT_INTERVALS` heartbeats while two reports in order came of one lower epoch.

        Only for live messages: the server lets nobody but the reporter publish them and drops none behind later ones of
        the same connection, whereas a stored row may have been overtaken. What still crosses (a row read just before
        the step, a last message of the old boot on a slow route) is put right by the next heartbeat.
        """
        reporter = report.reporter
        known = self._reports.get(reporter)
        if known is None or report.sequence.epoch >= known.sequence.epoch:
            return False
        rebooted = bool(report.boot_id and known.boot_id) and report.boot_id != known.boot_id
        if not rebooted and not self._replaces(known, report.sequence, link_now):
            return False
        self._take(reporter, report, link_now)
        return True

    def current_at(self, reporter: str) -> float | None:
        """Link time at which the report of `reporter` was current; None for an unknown one."""
        return self._current_at.get(reporter)

    def ages(self, link_now: float) -> dict[str, float]:
        """Seconds of link time since each reporter's report."""
        return {reporter: max(0.0, link_now - at) for reporter, at in self._current_at.items()}

    def forget(self, reporter: str) -> bool:
        """Remove `reporter`; whether it was known."""
        report = self._reports.pop(reporter, None)
        if report is None:
            return False
        self._current_at.pop(reporter, None)
        self._lower.pop(reporter, None)
        others = tuple(name for name in self._reporters[report.node] if name != reporter)
        if others:
            self._reporters[report.node] = others
        else:
            del self._reporters[report.node]
        return True

    def expire(self, link_now: float, after_s: float) -> list[str]:
        """Remove and return the reporters that have been silent for `after_s` seconds of link time."""
        silent = [reporter for reporter, at in self._current_at.items() if link_now - at >= after_s]
        for reporter in silent:
            self.forget(reporter)
        return silent

    def _take(self, reporter: str, report: NodeReport, current_at: float) -> None:
        self._reports[reporter] = report
        self._current_at[reporter] = max(current_at, self._current_at.get(reporter, current_at))
        if self._lower:
            self._lower.pop(reporter, None)

    def _replaces(self, known: NodeReport, lower: Sequence, link_now: float) -> bool:
        before = self._lower.get(known.reporter)
        self._lower[known.reporter] = lower
        in_order = before is not None and before.epoch == lower.epoch and before.seq < lower.seq
        return in_order and link_now - self._current_at[known.reporter] > SILENT_INTERVALS * known.interval_s
