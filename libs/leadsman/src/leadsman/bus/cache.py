"""The reports themselves: the newest of each node by (epoch, seq), and when it was current in link time."""

from collections.abc import Mapping
from types import MappingProxyType

from leadsman.domain.report import NodeReport, Sequence

SILENT_INTERVALS = 3.0
"""Missed heartbeats after which a node's known life counts as over."""


class ReportCache:
    """Pure state of a replica. A merge only adds or raises; only `forget` and `expire` remove.

    `step_back` is the one exception to "never lower". `current_at` values are link time (see `leadsman.bus.link`), in
    seconds.
    """

    def __init__(self, max_nodes: int) -> None:
        self._max_nodes = max_nodes
        self._reports: dict[str, NodeReport] = {}
        self._current_at: dict[str, float] = {}
        self._lower: dict[str, Sequence] = {}
        self.reports: Mapping[str, NodeReport] = MappingProxyType(self._reports)

    def full_for(self, node: str) -> bool:
        """Whether `node` is new and there is no room for a new one."""
        return node not in self._reports and len(self._reports) >= self._max_nodes

    def merge(self, report: NodeReport, current_at: float) -> bool:
        """Take `report` if its (epoch, seq) is higher than what is known of its node.

        A newer report is never older in age than the one it replaces: what the server's time stamp says beyond that
        is time in which the bus was frozen for us.
        """
        known = self._reports.get(report.node)
        if known is not None and report.sequence <= known.sequence:
            return False
        self._take(report, current_at)
        return True

    def step_back(self, report: NodeReport, link_now: float) -> bool:
        """Take a live `report` of a lower epoch if the life of its node that we know must be over.

        An epoch is a time of the node's clock, and a clock can go back. Two things tell that from a late message:

        * the node has another boot id: a machine runs one boot at a time, so what speaks now is the present one;
        * or the known life has missed `SILENT_INTERVALS` heartbeats while two reports in order came of one lower epoch.

        Only for live messages: the server lets nobody but the node publish them and drops none behind later ones of
        the same connection, whereas a stored row may have been overtaken. What still crosses (a row read just before
        the step, a last message of the old boot on a slow route) is put right by the node's next heartbeat.
        """
        known = self._reports.get(report.node)
        if known is None or report.sequence.epoch >= known.sequence.epoch:
            return False
        rebooted = bool(report.boot_id and known.boot_id) and report.boot_id != known.boot_id
        if not rebooted and not self._replaces(known, report.sequence, link_now):
            return False
        self._take(report, link_now)
        return True

    def current_at(self, node: str) -> float | None:
        """Link time at which the report of `node` was current; None for an unknown node."""
        return self._current_at.get(node)

    def ages(self, link_now: float) -> dict[str, float]:
        """Seconds of link time since each node's report."""
        return {node: max(0.0, link_now - at) for node, at in self._current_at.items()}

    def forget(self, node: str) -> bool:
        """Remove `node`; whether it was known."""
        self._current_at.pop(node, None)
        self._lower.pop(node, None)
        return self._reports.pop(node, None) is not None

    def expire(self, link_now: float, after_s: float) -> list[str]:
        """Remove and return the nodes that have been silent for `after_s` seconds of link time."""
        silent = [node for node, at in self._current_at.items() if link_now - at >= after_s]
        for node in silent:
            self.forget(node)
        return silent

    def _take(self, report: NodeReport, current_at: float) -> None:
        self._reports[report.node] = report
        self._current_at[report.node] = max(current_at, self._current_at.get(report.node, current_at))
        if self._lower:
            self._lower.pop(report.node, None)

    def _replaces(self, known: NodeReport, lower: Sequence, link_now: float) -> bool:
        before = self._lower.get(known.node)
        self._lower[known.node] = lower
        in_order = before is not None and before.epoch == lower.epoch and before.seq < lower.seq
        return in_order and link_now - self._current_at[known.node] > SILENT_INTERVALS * known.interval_s
