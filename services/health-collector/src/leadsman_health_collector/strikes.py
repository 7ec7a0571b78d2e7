"""From single looks at one source (a socket, an address, a mount) to its level, by thresholds up and down. Pure."""

from dataclasses import dataclass

from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman_health_collector.observation import DEFINITE, Observation, Outcome

_NEWEST = 0.3
"""Weight of the newest look in the moving average of latencies, so that one slow look moves no score."""

_ABSENT = frozenset({Outcome.ABSENT, Outcome.REMOVED})

_AGAIN_FAST = 0.5
"""A source that was slow is fast again below this share of the limit."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Consecutive looks that it takes (facts: storage-health 3.1).

    A source is down after `definite` definite failures in a row or `failures` failures of any kind, and up again
    after `up` good looks. What is merely absent is DEGRADED first, and down only after `grace` periods of absence: it
    may be restarting. With `gone_at_once` what was removed has no such grace. A plugin may say "not ready" for
    `starting` periods. Both count the collector's own period (10 s as shipped). A source whose latency averages more
    than `slow_s` seconds is DEGRADED (None: latency does not matter).
    """

    definite: int = 2
    failures: int = 3
    up: int = 2
    grace: float = 3.0
    starting: float = 12.0
    slow_s: float | None = None
    gone_at_once: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A decided state with its reason, words for people, and how long good looks take (s, moving average)."""

    state: State
    reason: Reason | None = None
    message: str = ""
    latency_s: float | None = None


class SourceHealth:
    """State machine of one source.

    `level` is None until the first good look, or until enough bad ones. With `cautious` even the first good look
    must be confirmed: something bad was known before we started; if it `was_down`, no grace is left to it either.
    `period_s` is the collector's. `first_round` and
    `last_round` number the rounds in which it was found and in which it last had a look.
    """

    def __init__(
        self,
        thresholds: Thresholds,
        *,
        period_s: float,
        cautious: bool = False,
        was_down: bool = False,
        first_round: int = 0,
    ) -> None:
        self.level: Level | None = None
        self.first_round = first_round
        self.last_round = -1
        self._thresholds = thresholds
        self._grace_s = 0.0 if was_down else thresholds.grace * period_s
        self._starting_s = 0.0 if was_down else thresholds.starting * period_s
        self._good_needed = thresholds.up if cautious else 1
        self._good = 0
        self._impaired = 0
        self._working = 0
        self._starting = 0
        self._failures = 0
        self._definite = 0
        self._impairment: Observation | None = None
        self._starting_since: float | None = None
        self._failing_since = 0.0
        self._absent = False
        self._period_s = period_s
        self._latency: float | None = None
        self._slow = False

    @property
    def attempted(self) -> bool:
        """Whether any look has succeeded in saying something."""
        return self.last_round >= 0

    @property
    def failing(self) -> bool:
        """Whether the latest look was bad, however few strikes there are."""
        return self._failures > 0 or self._impaired > 0

    @property
    def wants_second_look(self) -> bool:
        """Whether half a period is long enough to wait: a first definite failure of something not known as down."""
        return self._failures == self._definite == 1 < self._thresholds.definite and not self._down

    def record(self, seen: Observation, now: float, round_number: int = 0) -> None:
        """Take one look into account; `now` is monotonic. A look that was not had changes nothing."""
        if seen.outcome is Outcome.NOT_RUN:
            return
        self.last_round = round_number
        if seen.outcome is Outcome.GOOD:
            self._record_good(seen)
        elif seen.outcome is Outcome.IMPAIRED:
            self._record_impaired(seen)
        elif seen.outcome is Outcome.STARTING:
            self._record_starting(seen, now)
        else:
            self._record_failure(seen, now)

    def _record_good(self, seen: Observation) -> None:
        self._note_working()
        self._restore_grace()
        self._impaired = 0
        self._good += 1
        latency = self._average(seen.latency_s)
        slow = self._is_slow(latency)
        if self._good >= self._good_needed:
            self.level = _slow_level(latency) if slow else Level(State.HEALTHY, None, seen.message, latency)
            self._good_needed = 1
            self._impairment = None
            self._starting_since = None
        elif self._down and self._working >= self._thresholds.up and self._impairment:
            self.level = _impaired(self._impairment)  # now well, now impaired: it works

    def _record_impaired(self, seen: Observation) -> None:
        """It works, so what was down is up again after `up` looks; what was well is impaired after `definite`."""
        self._note_working()
        self._good = 0
        self._impaired += 1
        self._impairment = seen
        self._starting_since = None
        enough = self._working >= self._thresholds.up if self._down else self._impaired >= self._thresholds.definite
        if enough:
            self._good_needed = self._thresholds.up
            self.level = _impaired(seen)

    def _record_starting(self, seen: Observation, now: float) -> None:
        self._failures = self._definite = 0
        self._good = self._impaired = self._working = 0
        self._starting += 1
        self._good_needed = self._thresholds.up
        # Counted from the first time since it was last good, so that a crash loop does not start the clock anew.
        self._starting_since = now if self._starting_since is None else self._starting_since
        overdue = now - self._starting_since >= self._starting_s
        if overdue or not self._down or self._starting >= self._thresholds.up:
            state = State.UNHEALTHY if overdue else State.DEGRADED
            self.level = Level(state, seen.reason, seen.message, seen.latency_s)

    def _record_failure(self, seen: Observation, now: float) -> None:
        self._good = self._impaired = self._working = self._starting = 0
        self._failing_since = self._failing_since if self._failures else now
        absent = seen.outcome in _ABSENT
        if absent:
            self._absent = True
        elif self._absent and now - self._failing_since < self._grace_s:
            # It is being restarted and now listens before it serves: its errors count from here.
            self._absent = False
            self._failures = self._definite = 0
        self._failures += 1
        self._definite += seen.outcome in DEFINITE
        if self._definite >= self._thresholds.definite or self._failures >= self._thresholds.failures:
            self._good_needed = self._thresholds.up
            self.level = Level(self._state_when_down(seen.outcome, now), seen.reason, seen.message)

    @property
    def _down(self) -> bool:
        return self.level is not None and self.level.state in {State.UNHEALTHY, State.NOT_APPLICABLE}

    def _restore_grace(self) -> None:
        """Whatever was known of an earlier run, from here on it is like any other."""
        self._grace_s = self._thresholds.grace * self._period_s
        self._starting_s = self._thresholds.starting * self._period_s

    def _note_working(self) -> None:
        self._failures = self._definite = self._starting = 0
        self._absent = False
        self._working += 1

    def _state_when_down(self, outcome: Outcome, now: float) -> State:
        if outcome not in _ABSENT:
            return State.UNHEALTHY
        at_once = outcome is Outcome.REMOVED and self._thresholds.gone_at_once
        if now - self._failing_since < self._grace_s and not self._down and not at_once:
            return State.DEGRADED  # it may be restarting
        return State.NOT_APPLICABLE if outcome is Outcome.REMOVED else State.UNHEALTHY

    def _average(self, latency_s: float | None) -> float | None:
        """The average with the newest look in it; None for a look that does not tell."""
        if latency_s is None:
            return None
        before = latency_s if self._latency is None else self._latency
        self._latency = before + _NEWEST * (latency_s - before)
        return self._latency

    def _is_slow(self, latency: float | None) -> bool:
        """Whether answers take too long on average; once slow, until they are clearly faster."""
        limit = self._thresholds.slow_s
        if limit is None or latency is None:
            return False
        self._slow = latency > (limit * _AGAIN_FAST if self._slow else limit)
        return self._slow


def _slow_level(latency: float | None) -> Level:
    return Level(State.DEGRADED, Reason.HIGH_LATENCY, f"answers take {latency:.1f} s on average", latency)


def _impaired(seen: Observation) -> Level:
    return Level(State.DEGRADED, seen.reason, seen.message, seen.latency_s)
