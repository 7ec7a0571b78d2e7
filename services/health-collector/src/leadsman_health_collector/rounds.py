"""Drives one probe: once per period it looks at every source, none of which waits for another."""

import asyncio
import hashlib
from collections.abc import Callable

from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.metrics import ProbeMetrics
from leadsman_health_collector.observation import Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Probe

log = get_logger("collector.rounds")

OnNews = Callable[[], None]
"""Called when a look has changed the state of a source, and at the end of every round."""


def spread(node: str, period_s: float) -> float:
    """The node's own moment within every period, so that a thousand nodes do not look at a server together."""
    digest = hashlib.blake2b(node.encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64 * period_s


def first_wait(now_epoch: float, phase_s: float, period_s: float) -> float:
    """Seconds from the first round, held at once, to the second, held at the node's moment.

    Between half a period and one and a half, so that both are neither hurried nor late.
    """
    to_phase = (phase_s - now_epoch) % period_s
    return to_phase if to_phase >= period_s / 2 else to_phase + period_s


class Rounds:
    """Rounds of `probe` for the sources it discovers; results go to `book`."""

    def __init__(
        self,
        probe: Probe,
        book: HealthBook,
        *,
        period_s: float,
        phase_s: float,
        clock: Clock,
        metrics: ProbeMetrics,
        on_news: OnNews,
    ) -> None:
        self._probe = probe
        self._book = book
        self._period = period_s
        self._phase = phase_s % period_s
        self._clock = clock
        self._metrics = metrics
        self._on_news = on_news
        self.kind = probe.kind
        self.trouble = ""
        """Why the latest discovery failed, in words for people; empty if it did not."""
        self._looking: set[str] = set()
        self._complained: set[str] = set()

    async def run(self) -> None:
        """Hold rounds for ever; the first one at once. Rounds missed while the process was stopped are not made up."""
        async with asyncio.TaskGroup() as group:
            due = self._clock.monotonic() + first_wait(self._clock.epoch(), self._phase, self._period)
            while True:
                group.create_task(self._round(group))
                await asyncio.sleep(max(0.0, due - self._clock.monotonic()))
                now = self._clock.monotonic()
                due += self._period * (1 + max(0, int((now - due) / self._period)))

    async def _round(self, group: asyncio.TaskGroup) -> None:
        kind = self._probe.kind
        found = self._discover()
        self._book.watch(kind, self._probe.keys())
        names = [name for name in self._probe.choose(self._book.suspects(kind)) if name not in self._looking]
        if found:
            async with asyncio.TaskGroup() as looks:
                for name in names:
                    looks.create_task(self._look(name, group))
        self._book.end_round(kind, discovered=found)
        self._metrics.rounds.labels(kind).inc()
        self._on_news()

    def _discover(self) -> bool:
        kind = self._probe.kind
        try:
            names = self._probe.discover()
        except OSError as error:
            self._metrics.discovery_errors.labels(kind).inc()
            self.trouble = f"cannot tell what to look at: {error}"
            self._complain("discovery", self.trouble)
            return False
        except Exception as error:  # a bug in one probe must not end the others
            self._metrics.internal_errors.labels(kind).inc()
            self.trouble = f"discovery failed by a bug: {error!r}"
            log.exception("discovery failed by a bug; please report it", probe=kind.value)
            return False
        self.trouble = ""
        self._complained &= {*names}
        self._metrics.sources.labels(kind).set(len(names))
        return True

    async def _look(self, name: str, group: asyncio.TaskGroup) -> None:
        begin = self._clock.monotonic()
        await self._look_once(name)
        if self._book.wants_second_look(self._probe.kind, name):
            group.create_task(self._look_again(name, begin + self._period / 2))

    async def _look_again(self, name: str, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._clock.monotonic()))
        if self._book.wants_second_look(self._probe.kind, name):
            await self._look_once(name)

    async def _look_once(self, name: str) -> None:
        if name in self._looking:
            return
        self._looking.add(name)
        begin = self._clock.monotonic()
        try:
            self._record(name, await self._guarded(name), self._clock.monotonic() - begin)
        finally:
            self._looking.discard(name)

    async def _guarded(self, name: str) -> Observation:
        try:
            return await self._probe.look(name)
        except Exception as error:  # a bug in one look must not end the others
            self._metrics.internal_errors.labels(self._probe.kind).inc()
            log.exception("a look failed by a bug; please report it", probe=self._probe.kind.value, source=name)
            return not_run(f"the look failed by a bug: {error!r}")

    def _record(self, name: str, seen: Observation, took: float) -> None:
        kind = self._probe.kind
        self._metrics.duration.labels(kind).observe(took)
        self._metrics.results.labels(kind, seen.outcome).inc()
        if seen.outcome is Outcome.NOT_RUN:
            self._complain(name, seen.message)
        else:
            self._complained.discard(name)
            self._metrics.last_success.labels(kind).set(self._clock.epoch())
        self._book.watch(kind, self._probe.keys())  # a look may have told whose source it is
        if self._book.record(kind, name, seen):
            self._on_news()

    def _complain(self, name: str, words: str) -> None:
        """Warn once per source until it can be looked at again; counters beside it go on."""
        if name not in self._complained:
            self._complained.add(name)
            log.warning("cannot look", probe=self._probe.kind.value, source=name, why=words)
