"""The reports themselves: the newest of each node by (epoch, seq), and when it was current in link time."""

from collections.abc import Mapping
from types import MappingProxyType

from leadsman.domain.report import NodeReport


class ReportCache:
    """Pure state of a replica. A merge only adds or raises; only `forget` and `expire` remove.

    `current_at` values are link time (see `leadsman.bus.link`), in seconds.
    """

    def __init__(self, max_nodes: int) -> None:
        self._max_nodes = max_nodes
        self._reports: dict[str, NodeReport] = {}
        self._current_at: dict[str, float] = {}
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
        self._reports[report.node] = report
        self._current_at[report.node] = max(current_at, self._current_at.get(report.node, current_at))
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
        return self._reports.pop(node, None) is not None

    def expire(self, link_now: float, after_s: float) -> list[str]:
        """Remove and return the nodes that have been silent for `after_s` seconds of link time."""
        silent = [node for node, at in self._current_at.items() if link_now - at >= after_s]
        for node in silent:
            self.forget(node)
        return silent
