"""The trail of decisions: a record on the bus and one log line each, written when the answer is already on its way."""

import asyncio
from collections import Counter as TextCounter
from itertools import islice
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter

from leadsman.bus.subjects import decision_subject
from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman.wire.decision import MAX_NODES, DecisionRecord, encode_decision
from leadsman_gateway.extender import Decision
from leadsman_gateway.metrics import GatewayMetrics

log = get_logger("gateway.decision")

_FLUSH_S = 1.0


class Publisher(Protocol):
    """The part of `leadsman.bus.connect.Bus` that records need."""

    async def publish(self, subject: str, body: bytes) -> bool:
        """Send without waiting for anyone; False when that is impossible now."""
        ...


class DecisionRecorder:
    """Keeps at most `capacity` decisions that wait to be published; later ones are dropped and counted."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        clock: Clock,
        metrics: GatewayMetrics,
        registry: CollectorRegistry,
        capacity: int = 1000,
    ) -> None:
        self._publisher = publisher
        self._clock = clock
        self._metrics = metrics
        self._waiting: asyncio.Queue[tuple[float, Decision]] = asyncio.Queue(capacity)
        self._dropped = Counter(
            "leadsman_gateway_decision_records_dropped_total",
            "Decision records that nobody will see: queue full, or bus out of reach.",
            ["cause"],
            registry=registry,
        )
        self._published = Counter(
            "leadsman_gateway_decision_records_published_total", "Decision records published.", registry=registry
        )

    def record(self, decision: Decision) -> None:
        """Queue `decision`; never waits."""
        try:
            self._waiting.put_nowait((self._clock.epoch(), decision))
        except asyncio.QueueFull:
            self._dropped.labels("queue_full").inc()

    async def run(self) -> None:
        """Eternal: log and publish decisions as they come."""
        while True:
            at, decision = await self._waiting.get()
            record = to_record(decision, at)
            reasons = reasons_of(decision)
            for reason, nodes in reasons.items():
                self._metrics.rejected_nodes.labels(record.verb, reason).inc(nodes)
            _log_line(record, reasons)
            if await self._publisher.publish(decision_subject(decision.verb), encode_decision(record)):
                self._published.inc()
            else:
                self._dropped.labels("bus").inc()
            self._waiting.task_done()

    async def flush(self) -> None:
        """Wait, for a second at most, until what is queued has been published; `run` must still be running."""
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._waiting.join()
        except TimeoutError:
            self._dropped.labels("shutdown").inc(self._waiting.qsize())


def to_record(decision: Decision, at: float) -> DecisionRecord:
    """The wire form of `decision` made at `at` (seconds since 1970); at most MAX_NODES nodes by name."""
    meta, ruling = decision.pod.metadata, decision.ruling
    table = decision.verdicts.answer if decision.verdicts else None
    scores = decision.scores.answer if decision.scores else None
    shown = islice(decision.failed, MAX_NODES)
    return DecisionRecord(
        at=round(at, 3),
        verb=decision.verb,
        namespace=meta.namespace,
        pod=meta.name,
        uid=meta.uid,
        outcome=ruling.outcome,
        candidates=len(decision.names),
        rejected_total=len(decision.failed),
        rejected={node: table.reason(node).value for node in shown} if table is not None else {},
        scores={node: scores.score(node) for node in decision.names[:MAX_NODES]} if scores is not None else {},
        storages=sorted({str(need.key) for need in ruling.resolution.requirements}),
        unresolved=list(ruling.resolution.unresolved),
        duration_ms=round(decision.seconds * 1000, 3),
        generation=ruling.generation,
        instance=ruling.instance,
    )


def reasons_of(decision: Decision) -> dict[str, int]:
    """Reason code to number of rejected nodes, over all of them."""
    table = decision.verdicts.answer if decision.verdicts else None
    if table is None or not decision.failed:
        return {}
    example = {text: node for node, text in decision.failed.items()}
    reasons: TextCounter[str] = TextCounter()
    for text, nodes in TextCounter(decision.failed.values()).items():
        reasons[table.reason(example[text]).value] += nodes
    return dict(reasons)


def _log_line(record: DecisionRecord, reasons: dict[str, int]) -> None:
    """One line per decision: at info if it kept nodes from a pod or could not be made, else at debug."""
    notable = record.rejected_total or record.outcome.startswith("failed")
    write = log.info if notable else log.debug
    write(
        "decision",
        verb=record.verb,
        namespace=record.namespace,
        pod=record.pod,
        outcome=record.outcome,
        candidates=record.candidates,
        rejected=record.rejected_total,
        reasons=reasons,
        storages=record.storages,
        unresolved=record.unresolved,
        ms=record.duration_ms,
    )
