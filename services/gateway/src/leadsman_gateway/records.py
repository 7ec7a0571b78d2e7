"""The trail of decisions: a record of each on the bus, and log lines for those that kept a pod from nodes.

Both are made long after the answer has left. One write to a socket costs more than a whole fast-path decision, so
records are collected for a moment and go out a few at a time: enough to share a write, too few to hold up a request.
"""

import asyncio
import contextlib
from collections import deque
from functools import cache
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter

from leadsman.bus.subjects import decision_subject
from leadsman.domain.clock import Clock
from leadsman.wire.decision import encode_decision
from leadsman_gateway.decision_log import DecisionLog
from leadsman_gateway.decision_record import to_record
from leadsman_gateway.extender import Decision
from leadsman_gateway.metrics import GatewayMetrics

COLLECT_S = 0.05
"""How long the first of some decisions waits for others."""

SLICE = 4
"""Records made in one turn of the event loop; some 0.1 ms that a request may have to wait.

A sixteenth of what waits, if that is more: as many requests as there are connections may be answered in one turn.
"""

_PAUSE_S = 0.001
"""Between turns. A loop that never rests keeps the hop's thread from the interpreter: 1 ms more at p99 (measured)."""

_CROWD = 64
"""So many waiting decisions are not kept waiting for more."""

_BATCH = (32, 64 * 1024)
"""Records and bytes that are published in one turn, and so in one write; far below what a bus lets wait."""

_FLUSH_S = 1.0

_subject = cache(decision_subject)


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
        self._capacity = capacity
        self._waiting: deque[tuple[float, Decision]] = deque()
        self._some, self._hurry, self._done = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._done.set()
        self._log = DecisionLog(clock, registry)
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
        """Keep `decision` for the next publication; never waits."""
        waiting = self._waiting
        if len(waiting) >= self._capacity:
            self._dropped.labels("queue_full").inc()
            return
        waiting.append((self._clock.epoch(), decision))
        if len(waiting) == 1:
            self._done.clear()
            self._some.set()
        elif len(waiting) == _CROWD:
            self._hurry.set()

    async def run(self) -> None:
        """Eternal: publish decisions soon after they come."""
        while True:
            await self._some.wait()
            await self._collect()
            batch: list[tuple[str, bytes]] = []
            while self._waiting:
                batch += [self._make(*noted) for noted in self._take()]
                if not self._waiting or _is_full(batch):
                    await self._publish(batch)
                    batch = []
                await asyncio.sleep(_PAUSE_S)
            self._some.clear()
            self._done.set()

    async def flush(self) -> None:
        """Wait, for a second at most, until what is queued has been published; `run` must still be running."""
        if self._done.is_set():
            return
        self._hurry.set()
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._done.wait()
        except TimeoutError:
            self._dropped.labels("shutdown").inc(len(self._waiting))

    async def _collect(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COLLECT_S):
                await self._hurry.wait()
        self._hurry.clear()

    def _take(self) -> list[tuple[float, Decision]]:
        count = min(len(self._waiting), max(SLICE, len(self._waiting) // 16))
        return [self._waiting.popleft() for _ in range(count)]

    def _make(self, at: float, decision: Decision) -> tuple[str, bytes]:
        """Subject and body of a record; counted and logged on the way."""
        record = to_record(decision, at)
        self._metrics.count_rejections(record)
        self._log.write(record)
        return _subject(record.verb), encode_decision(record)

    async def _publish(self, batch: list[tuple[str, bytes]]) -> None:
        sent = 0
        for subject, body in batch:
            sent += await self._publisher.publish(subject, body)
        self._published.inc(sent)
        if sent < len(batch):
            self._dropped.labels("bus").inc(len(batch) - sent)


def _is_full(batch: list[tuple[str, bytes]]) -> bool:
    records, size = _BATCH
    return len(batch) >= records or sum(len(body) for _, body in batch) >= size
