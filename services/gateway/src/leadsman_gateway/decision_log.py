"""Log lines about decisions: for people who look at one gateway. The whole trail is on the bus.

A line costs as much as a small decision, so of those that matter a few per second are written. The rest are counted,
and the next line says how many there were.
"""

import logging

from prometheus_client import CollectorRegistry, Counter

from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman.wire.decision import DecisionRecord

LINES_PER_S = 10
"""Decisions at info level; all are written at debug level."""

log = get_logger("gateway.decision")
_level = logging.getLogger("leadsman.gateway.decision")


class DecisionLog:
    """Writes decisions that kept nodes from a pod or could not be made at info level, the others at debug level."""

    def __init__(self, clock: Clock, registry: CollectorRegistry) -> None:
        self._clock = clock
        self._second = 0
        self._lines = 0
        self._omitted = 0
        self._all_omitted = Counter(
            "leadsman_gateway_decision_log_lines_omitted_total",
            "Rejecting or failed decisions without a log line, because there were too many in one second.",
            registry=registry,
        )

    def write(self, record: DecisionRecord, reasons: dict[str, int]) -> None:
        """Say what was decided; `reasons` is reason code to number of nodes."""
        if not (record.rejected_total or record.outcome.startswith("failed")):
            self._debug(record, reasons)
        elif self._allows():
            log.info("decision", **_facts(record, reasons), omitted_before=self._omitted)
            self._omitted = 0
        else:
            self._debug(record, reasons)
            self._omitted += 1
            self._all_omitted.inc()

    @staticmethod
    def _debug(record: DecisionRecord, reasons: dict[str, int]) -> None:
        if _level.isEnabledFor(logging.DEBUG):  # even to list the facts would be work on every decision
            log.debug("decision", **_facts(record, reasons))

    def _allows(self) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        return self._lines <= LINES_PER_S


def _facts(record: DecisionRecord, reasons: dict[str, int]) -> dict[str, object]:
    return {
        "verb": record.verb,
        "namespace": record.namespace,
        "pod": record.pod,
        "outcome": record.outcome,
        "candidates": record.candidates,
        "rejected": record.rejected_total,
        "reasons": reasons,
        "storages": record.storages,
        "unresolved": record.unresolved,
        "ms": record.duration_ms,
    }
