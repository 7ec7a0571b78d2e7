"""The collector's end of the bus: at once on change, else a heartbeat with jitter.

Core publish without acknowledgement: a status is repeated anyway, so a lost one heals with the next.
"""

import asyncio
import contextlib
import dataclasses
import math
import random
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus
from leadsman.bus.metrics import PublisherMetrics
from leadsman.bus.subjects import status_subject
from leadsman.domain.clock import Clock
from leadsman.domain.report import NodeReport, Sequence
from leadsman.telemetry.logs import get_logger
from leadsman.wire.errors import WireError
from leadsman.wire.report import encode_report

log = get_logger("bus.publish")

MIN_GAP_S = 1.0
"""A node publishes at most once in this time, however often its state changes."""

JITTER = 0.2
RECONNECT_SPREAD_S = 5.0
"""After a reconnect the fleet's reports are spread over this time."""

Uniform = Callable[[float, float], float]


class PublishSchedule:
    """When the next report is due, in monotonic seconds. Pure: time and chance come from outside."""

    def __init__(self, heartbeat_s: float, uniform: Uniform = random.uniform) -> None:
        self.due_at = math.inf
        self._heartbeat = heartbeat_s
        self._uniform = uniform
        self._sent_at = -math.inf
        self._was_connected = False

    def changed(self, now: float) -> None:
        """There is something new to say: at once, but never within MIN_GAP_S of the last report.

        Before the first connection nothing is due; that connection then publishes at once.
        """
        if self._was_connected:
            self.due_at = min(self.due_at, self._soonest(now))

    def connected(self, now: float) -> None:
        """A connection is up. The first report goes out at once; after a loss the fleet spreads out."""
        wait = self._uniform(0.0, RECONNECT_SPREAD_S) if self._was_connected else 0.0
        self._was_connected = True
        self.due_at = max(now + wait, self._soonest(now))

    def sent(self, now: float) -> None:
        """A report went out."""
        self._sent_at = now
        self.due_at = now + self._next_heartbeat()

    def failed(self, now: float, *, connected: bool) -> None:
        """A report did not go out: soon again if only the buffer is full, else with the next heartbeat."""
        self.due_at = now + (MIN_GAP_S if connected else self._next_heartbeat())

    def _soonest(self, now: float) -> float:
        return max(now, self._sent_at + MIN_GAP_S)

    def _next_heartbeat(self) -> float:
        return self._heartbeat * self._uniform(1 - JITTER, 1 + JITTER)


class ReportPublisher:
    """Publishes one reporter's reports for as long as `run` runs.

    `scope` is the driver of a sidecar, empty for the node's agent. A sidecar's reports may list that driver's storages
    and volumes only, or every replica refuses them.

    It stamps them: with the scope; `epoch` is given by the caller and must be higher than in every earlier life of this
    collector (milliseconds since 1970 at start, or the last one used plus one if the clock went back); `seq` counts
    publishes; `interval_s` is the heartbeat and `sent_epoch_s` the node's clock.

    Raises:
        SubjectError: `node` is not a node name, or `scope` not a CSI driver name.
    """

    def __init__(
        self,
        bus: Bus,
        node: str,
        *,
        scope: str = "",
        epoch: int,
        clock: Clock,
        registry: CollectorRegistry,
        heartbeat_s: float = 10.0,
        uniform: Uniform = random.uniform,
    ) -> None:
        self._bus = bus
        self._subject = status_subject(node, scope)
        self._scope = scope
        self._epoch = epoch
        self._clock = clock
        self._metrics = PublisherMetrics(registry)
        self._heartbeat = heartbeat_s
        self._schedule = PublishSchedule(heartbeat_s, uniform)
        self._seq = 0
        self._report: NodeReport | None = None
        self._poked = asyncio.Event()
        self._failing = False

    def update(self, report: NodeReport, *, urgent: bool) -> None:
        """Take `report` as the node's present state; `urgent` publishes at once instead of at the next heartbeat."""
        first = self._report is None
        self._report = report
        if urgent or first:
            self._schedule.changed(self._clock.monotonic())
            self._poked.set()

    async def run(self) -> None:
        """Publish when due, for ever."""
        self._bus.on_connect(self._on_connect)
        if self._bus.connected:
            await self._on_connect()
        while True:
            report = await self._due_report()
            await self._publish(report)

    async def publish_now(self) -> bool:
        """Publish the present state regardless of the schedule, for a collector that is about to stop."""
        return self._report is not None and await self._publish(self._report)

    async def _on_connect(self) -> None:
        self._schedule.connected(self._clock.monotonic())
        self._poked.set()

    async def _due_report(self) -> NodeReport:
        while True:
            wait = self._schedule.due_at - self._clock.monotonic()
            if self._report is not None and wait <= 0:
                return self._report
            self._poked.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait if self._report is not None and wait < math.inf else None):
                    await self._poked.wait()

    async def _publish(self, report: NodeReport) -> bool:
        now = self._clock.monotonic()
        body = self._encode(report)
        if body is None:
            self._schedule.sent(now)
            self._metrics.reports.labels("too_large").inc()
            return False
        sent = await self._bus.publish(self._subject, body)
        self._note(sent=sent, now=now)
        return sent

    def _note(self, *, sent: bool, now: float) -> None:
        if sent:
            self._schedule.sent(now)
        else:
            self._schedule.failed(now, connected=self._bus.connected)
        self._metrics.reports.labels("sent" if sent else "failed").inc()
        if not sent and not self._failing:
            log.warning("the node's report could not be published; trying again", subject=self._subject)
        self._failing = not sent

    def _encode(self, report: NodeReport) -> bytes | None:
        self._seq += 1
        stamped = dataclasses.replace(
            report,
            scope=self._scope,
            sequence=Sequence(self._epoch, self._seq),
            interval_s=self._heartbeat,
            sent_epoch_s=self._clock.epoch(),
        )
        try:
            return encode_report(stamped)
        except WireError:
            pass
        try:  # texts for people must not silence a node on which everything is broken
            return encode_report(_without_messages(stamped))
        except WireError as error:
            log.error("the node's report is too large to publish", error=str(error))  # noqa: TRY400 - no traceback
            return None


def _without_messages(report: NodeReport) -> NodeReport:
    return dataclasses.replace(
        report,
        storages=tuple(status._replace(message="") for status in report.storages),
        bad_volumes=tuple(status._replace(message="") for status in report.bad_volumes),
    )
