"""Facts about the node: read at a steady pace, dropped when they grow old."""

import asyncio
from collections.abc import Mapping

from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman_health_collector.metrics import ProbeMetrics
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.probe import FactProbe, FactValue
from leadsman_health_collector.rounds import first_wait

log = get_logger("collector.facts")

STALE_PERIODS = 3.0
"""Facts that could not be renewed for this many periods of their probe no longer count."""


class Facts:
    """What is known of the node now, by name (`docs/facts.md`)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, Mapping[str, FactValue]]] = {}

    def put(self, probe: str, values: Mapping[str, FactValue], valid_s: float) -> None:
        """What `probe` has read replaces what it read before, for `valid_s` seconds."""
        self._known[probe] = (self._clock.monotonic() + valid_s, values)

    def current(self) -> dict[str, FactValue]:
        """All facts that are still valid."""
        now = self._clock.monotonic()
        return {name: value for until, values in self._known.values() if now < until for name, value in values.items()}


class FactRounds:
    """Reads `probe` once per period, for ever; `period_s` is the collector's own."""

    def __init__(
        self,
        probe: FactProbe,
        facts: Facts,
        *,
        period_s: float,
        phase_s: float,
        clock: Clock,
        metrics: ProbeMetrics,
    ) -> None:
        self.name = probe.name
        self._probe = probe
        self._facts = facts
        self._period = period_s * probe.period
        self._phase = phase_s % self._period
        self._clock = clock
        self._series = metrics.of(probe.name)
        self._complained = False

    async def run(self) -> None:
        """Read at once, then at the node's moment of every period; a read that takes long delays the next."""
        due = self._clock.monotonic() + first_wait(self._clock.epoch(), self._phase, self._period)
        while True:
            await self.read()
            await asyncio.sleep(max(0.0, due - self._clock.monotonic()))
            now = self._clock.monotonic()
            due += self._period * (1 + max(0, int((now - due) / self._period)))

    async def read(self) -> None:
        """Read once; a failure is counted and said once, and the facts of before stand a while."""
        begin = self._clock.monotonic()
        outcome = Outcome.NOT_RUN
        try:
            values = await self._probe.read()
        except OSError as error:
            self._complain(str(error))
        except Exception as error:  # a bug in one probe must not end the others
            self._series.internal_errors.inc()
            log.exception("facts could not be read by a bug; please report it", probe=self.name, error=repr(error))
        else:
            outcome = Outcome.GOOD
            self._complained = False
            self._facts.put(self.name, values, STALE_PERIODS * self._period)
            self._series.last_success.set(self._clock.epoch())
        self._series.duration.observe(self._clock.monotonic() - begin)
        self._series.results(outcome).inc()
        self._series.rounds.inc()

    def _complain(self, words: str) -> None:
        if not self._complained:
            log.warning("cannot read facts", probe=self.name, why=words)  # counted as not_run
        self._complained = True
