"""Drives one probe: once per period it looks at every source, none of which waits for another."""

import asyncio
import hashlib
from collections.abc import Callable

from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman_health_collector.book import Change, HealthBook
from leadsman_health_collector.metrics import ProbeMetrics
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Probe, Source

log = get_logger("collector.rounds")

OnNews = Callable[[], None]
"""Called when a look has changed the state of a source, and at the end of every round."""

OnChange = Callable[[Change, float], None]
"""Called with what a look has changed and when it began (seconds since 1970), before `OnNews`."""

Allows = Callable[[Kind, str], bool]
"""Whether a probe may look at sources of a driver."""


def allow_all(kind: Kind, driver: str) -> bool:
    """Nothing is switched off."""
    del kind, driver
    return True


def ignore_change(change: Change, began_epoch_s: float) -> None:
    """Nobody wants to know."""
    del change, began_epoch_s


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
    """Rounds of `probe` for the sources it discovers; results go to `book`. `period_s` is the collector's own."""

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
        on_change: OnChange = ignore_change,
        allows: Allows = allow_all,
    ) -> None:
        self._probe = probe
        self._book = book
        self._base_period = period_s
        self._period = period_s * probe.schedule.period
        self._phase = phase_s % self._period
        self._clock = clock
        self._series = metrics.of(probe.kind)
        self._on_news = on_news
        self._on_change = on_change
        self._allows = allows
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
        off = self._watch()
        chosen = self._probe.choose(self._book.suspects(kind))
        names = [name for name in chosen if name not in self._looking and name not in off]
        if found:
            async with asyncio.TaskGroup() as looks:
                for name in names:
                    looks.create_task(self._look(name, group))
        self._book.end_round(kind, discovered=found)
        self._series.rounds.inc()
        self._on_news()

    def _watch(self) -> set[str]:
        """Tell the book what there is; the names of sources that are switched off for their driver."""
        kind = self._probe.kind
        every = self._probe.sources()
        wanted: dict[str, Source] = {
            name: source for name, source in every.items() if self._allows(kind, source.key.driver)
        }
        self._book.watch(kind, wanted, self._probe.schedule.thresholds, self._base_period)
        return every.keys() - wanted.keys()

    def _discover(self) -> bool:
        kind = self._probe.kind
        try:
            names = self._probe.discover()
        except OSError as error:
            self._series.discovery_errors.inc()
            self.trouble = f"cannot tell what to look at: {error}"
            self._complain("discovery", self.trouble)
            return False
        except Exception as error:  # a bug in one probe must not end the others
            self._series.internal_errors.inc()
            self.trouble = f"discovery failed by a bug: {error!r}"
            log.exception("discovery failed by a bug; please report it", probe=kind.value)
            return False
        self.trouble = ""
        self._complained &= {*names}
        self._series.sources.set(len(names))
        return True

    async def _look(self, name: str, group: asyncio.TaskGroup) -> None:
        begin = self._clock.monotonic()
        await self._look_once(name)
        if self._probe.schedule.second_look and self._book.wants_second_look(self._probe.kind, name):
            group.create_task(self._look_again(name, begin + self._period / 2))

    async def _look_again(self, name: str, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._clock.monotonic()))
        if self._book.wants_second_look(self._probe.kind, name):
            await self._look_once(name)

    async def _look_once(self, name: str) -> None:
        if name in self._looking:
            return
        self._looking.add(name)
        begin, began_epoch_s = self._clock.monotonic(), self._clock.epoch()
        try:
            seen = await self._guarded(name)
            self._record(name, seen, self._clock.monotonic() - begin, began_epoch_s)
        finally:
            self._looking.discard(name)

    async def _guarded(self, name: str) -> Observation:
        try:
            return await self._probe.look(name)
        except Exception as error:  # a bug in one look must not end the others
            self._series.internal_errors.inc()
            if name not in self._complained:  # the counter goes on
                log.exception("a look failed by a bug; please report it", probe=self._probe.kind.value, source=name)
            return not_run(f"the look failed by a bug: {error!r}")

    def _record(self, name: str, seen: Observation, took: float, began_epoch_s: float) -> None:
        self._series.duration.observe(took)
        self._series.results(seen.outcome).inc()
        if seen.outcome is Outcome.NOT_RUN:
            self._complain(name, seen.message)
        else:
            self._complained.discard(name)
            self._series.last_success.set(self._clock.epoch())
        self._note_owner(name)
        change = self._book.record(self._probe.kind, name, seen)
        if change is not None:
            self._on_change(change, began_epoch_s)
            self._on_news()

    def _note_owner(self, name: str) -> None:
        """A look may have told whose source it is."""
        known = self._book.watched(self._probe.kind).get(name)
        if self._probe.sources().get(name) != (known.source if known else None):
            self._watch()

    def _complain(self, name: str, words: str) -> None:
        """Warn once per source until it can be looked at again; counters beside it go on."""
        if name not in self._complained:
            self._complained.add(name)
            log.warning("cannot look", probe=self._probe.kind.value, source=name, why=words)
