"""Log lines about decisions: for people who look at one gateway. The whole trail is on the bus.

A line costs as much as a small decision, so of those that matter a few per second are written. The rest are counted,
and the next line says how many there were.
"""

import logging
from collections import Counter

import prometheus_client
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman.wire.decision import DecisionRecord, RejectedNodes

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
        self._all_omitted = prometheus_client.Counter(
            "leadsman_gateway_decision_log_lines_omitted_total",
            "Rejecting or failed decisions without a log line, because there were too many in one second.",
            registry=registry,
        )

    def write(self, record: DecisionRecord) -> None:
        """Say what was decided."""
        if not (record.rejected_total or record.shadow_total or record.outcome.startswith("failed")):
            self._debug(record)
        elif self._allows():
            log.info("decision", **_facts(record), omitted_before=self._omitted)
            self._omitted = 0
        else:
            self._debug(record)
            self._omitted += 1
            self._all_omitted.inc()

    @staticmethod
    def _debug(record: DecisionRecord) -> None:
        if _level.isEnabledFor(logging.DEBUG):  # even to list the facts would be work on every decision
            log.debug("decision", **_facts(record))

    def _allows(self) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        return self._lines <= LINES_PER_S


def _facts(record: DecisionRecord) -> dict[str, object]:
    return {
        "verb": record.verb,
        "namespace": record.namespace,
        "pod": record.pod,
        "outcome": record.outcome,
        "candidates": record.candidates,
        "rejected": record.rejected_total,
        "reasons": _by_reason(record.rejections),
        **({"would_reject": record.shadow_total, "would_reasons": _by_reason(record.shadow)} if record.shadow else {}),
        "storages": record.storages,
        "unresolved": record.unresolved,
        "policy": record.policy,
        "ms": record.duration_ms,
    }


def _by_reason(groups: list[RejectedNodes]) -> dict[str, int]:
    """Reason code to number of nodes."""
    found: Counter[str] = Counter()
    for group in groups:
        found[group.reason] += group.total
    return dict(found)
