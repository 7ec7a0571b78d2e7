"""Waking rejected pods: kube-scheduler tries them again only after an API event, and one write is such an event.

At most one write per second, whatever the number of notices, and the last notice is always written. All replicas of
the filter announce the same recovery within milliseconds, so the first notice waits a moment for the others: one wave
is one write. The value written comes from the notice, so several gateways write the same value and the API server sees
one change.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter

from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle
from leadsman.wire.errors import WireError
from leadsman.wire.notices import decode_wake

log = get_logger("gateway.wake")

INTERVAL_S = 1.0
"""Least time between two writes."""

SETTLE_S = 0.05
"""How long the first notice of a wave waits for those of the other replicas."""

_BACKOFF_S = (0.5, 30.0)


class WakeWriter(Protocol):
    """Writes the value where kube-scheduler sees the change; see `leadsman_gateway.volumes`."""

    async def write(self, value: str) -> None:
        """Make `value` the annotation's value; writing the same one again changes nothing."""
        ...


class Coalescer:
    """When to write what: pure, driven by `now` on a monotonic clock."""

    def __init__(self, interval_s: float = INTERVAL_S, settle_s: float = SETTLE_S) -> None:
        self._interval_s = interval_s
        self._settle_s = settle_s
        self._wanted: str | None = None
        self._written: str | None = None
        self._not_before = 0.0
        self._pause = 0.0

    def want(self, value: str, now: float) -> None:
        """A newer value replaces one that still waits; one that has just been written is not written again."""
        if value == self._written:
            return
        if self._wanted is None:
            self._not_before = max(self._not_before, now + self._settle_s)
        self._wanted = value

    def due_in(self, now: float) -> float | None:
        """Seconds until there is something to write; None while there is nothing."""
        return None if self._wanted is None else max(0.0, self._not_before - now)

    def take(self, now: float) -> str | None:
        """The value to write now, if it is time."""
        if self._wanted is None or now < self._not_before:
            return None
        value, self._wanted = self._wanted, None
        self._not_before = now + self._interval_s
        return value

    def succeeded(self, value: str) -> None:
        """`value` is written."""
        self._written = value
        self._pause = 0.0

    def failed(self, value: str, now: float) -> float:
        """`value` could not be written: it waits again, unless a newer one does; the pause, in seconds."""
        low, high = _BACKOFF_S
        self._pause = min(max(low, self._pause * 2), high)
        self._not_before = max(self._not_before, now + self._pause)
        if self._wanted is None:
            self._wanted = value
        return self._pause


class Waker:
    """Turns notices into writes. Without a writer (no cluster) it is off, and says so."""

    def __init__(self, writer: WakeWriter | None, *, clock: Clock, registry: CollectorRegistry) -> None:
        self._writer = writer
        self._clock = clock
        self._coalescer = Coalescer()
        self._news = asyncio.Event()
        self._throttle = Throttle()
        self._error = ""
        self._notices = Counter("leadsman_gateway_wake_notices_total", "Reasons to wake pods.", registry=registry)
        self._bad = Counter("leadsman_gateway_wake_notices_bad_total", "Unreadable wake notices.", registry=registry)
        self._writes = Counter("leadsman_gateway_wake_writes_total", "Writes that wake pods.", registry=registry)
        self._errors = Counter(
            "leadsman_gateway_wake_write_errors_total",
            "Such writes that failed; they are tried again.",
            registry=registry,
        )

    def on_notice(self, body: bytes) -> None:
        """A filter says that its rejected set has shrunk."""
        try:
            notice = decode_wake(body)
        except WireError as error:
            self._bad.inc()
            if self._throttle.allows("bad_notice", self._clock.monotonic()):
                log.warning("wake notice ignored", error=str(error))
            return
        self.wake(f"{notice.instance}.{notice.generation}")

    def wake(self, value: str) -> None:
        """Have `value` written as soon as the pace allows."""
        if self._writer is None:
            return
        self._notices.inc()
        self._coalescer.want(value, self._clock.monotonic())
        self._news.set()

    def describe(self) -> tuple[bool, str]:
        """(Fine, words for people), for /readyz?verbose."""
        if self._writer is None:
            return True, "off: rejected pods are not woken (no cluster, or --no-wake)"
        return not self._error, self._error or "on"

    async def run(self) -> None:
        """Eternal: write what is due."""
        while True:
            self._news.clear()
            wait = self._coalescer.due_in(self._clock.monotonic())
            if wait is None or wait > 0:
                await _first(self._news, wait)
                continue
            await self._write()

    async def _write(self) -> None:
        value = self._coalescer.take(self._clock.monotonic())
        if value is None or self._writer is None:
            return
        try:
            await self._writer.write(value)
        except Exception as error:  # guard: whatever went wrong, pods must be woken by the next try
            self._errors.inc()
            self._error = f"last write failed: {error}"
            pause = self._coalescer.failed(value, self._clock.monotonic())
            log.warning("pods not woken, will try again", error=str(error), retry_in_s=pause)
        else:
            self._error = ""
            self._writes.inc()
            self._coalescer.succeeded(value)
            log.info("pods woken", value=value)


class Reconnection:
    """Wakes pods when what kept them out may be over although no notice can have told so."""

    def __init__(self, waker: Waker, closed_answers: Callable[[], int], clock: Clock) -> None:
        self._waker = waker
        self._closed_answers = closed_answers
        self._clock = clock
        self._seen = 0

    def filter_heard(self, instance: str) -> None:
        """A filter answers: pods rejected for want of a verdict since the last time must be tried anew.

        To the millisecond, because a second such wave may come within the same second, and its value must be new.
        """
        closed = self._closed_answers()
        if closed > self._seen:
            self._seen = closed
            self._waker.wake(f"{instance}.answers-{self._clock.epoch():.3f}")

    async def bus_connected(self) -> None:
        """Notices published while the bus was out of our reach are lost."""
        self._waker.wake(f"bus.connected-{self._clock.epoch():.0f}")


async def _first(news: asyncio.Event, wait: float | None) -> None:
    try:
        async with asyncio.timeout(wait):
            await news.wait()
    except TimeoutError:
        return
