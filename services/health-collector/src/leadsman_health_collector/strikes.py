"""From single looks at one source (a socket, an address, a mount) to its level, by thresholds up and down. Pure."""

from dataclasses import dataclass

from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman_health_collector.observation import DEFINITE, Observation, Outcome


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Consecutive looks that it takes (facts: storage-health 3.1).

    A source is down after `definite` definite failures in a row or `failures` failures of any kind, and up again
    after `up` good looks. A plugin may say "not ready" for `starting_s` seconds.
    """

    definite: int = 2
    failures: int = 3
    up: int = 2
    starting_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Level:
    """A decided state with its reason, words for people, and the last good look's duration in seconds."""

    state: State
    reason: Reason | None = None
    message: str = ""
    latency_s: float | None = None


class SourceHealth:
    """State machine of one source.

    `level` is None until the first good look, or until enough bad ones. With `cautious` even the first good look
    must be confirmed: something bad was known before we started. `first_round` and `last_round` number the rounds in
    which it was found and in which it last had a look.
    """

    def __init__(self, thresholds: Thresholds, *, cautious: bool = False, first_round: int = 0) -> None:
        self.level: Level | None = None
        self.first_round = first_round
        self.last_round = -1
        self._thresholds = thresholds
        self._good_needed = thresholds.up if cautious else 1
        self._good = 0
        self._starting = 0
        self._failures = 0
        self._definite = 0
        self._starting_since: float | None = None

    @property
    def attempted(self) -> bool:
        """Whether any look has succeeded in saying something."""
        return self.last_round >= 0

    @property
    def failing(self) -> bool:
        """Whether the latest look was bad, however few strikes there are."""
        return self._failures > 0

    @property
    def wants_second_look(self) -> bool:
        """Whether half a period is long enough to wait: a first definite failure of something not known as down."""
        down = self.level is not None and self.level.state is State.UNHEALTHY
        return self._failures == self._definite == 1 and not down

    def record(self, seen: Observation, now: float, round_number: int = 0) -> None:
        """Take one look into account; `now` is monotonic. A look that was not had changes nothing."""
        if seen.outcome is Outcome.NOT_RUN:
            return
        self.last_round = round_number
        if seen.outcome is Outcome.GOOD:
            self._record_good(seen)
        elif seen.outcome is Outcome.STARTING:
            self._record_starting(seen, now)
        else:
            self._record_failure(seen)

    def _record_good(self, seen: Observation) -> None:
        self._clear_failures()
        self._starting = 0
        self._good += 1
        if self._good >= self._good_needed:
            self.level = Level(State.HEALTHY, None, seen.message, seen.latency_s)
            self._good_needed = 1
            self._starting_since = None

    def _record_starting(self, seen: Observation, now: float) -> None:
        self._clear_failures()
        self._good = 0
        self._starting += 1
        self._good_needed = self._thresholds.up
        # Counted from the first time since it was last good, so that a crash loop does not start the clock anew.
        self._starting_since = now if self._starting_since is None else self._starting_since
        overdue = now - self._starting_since >= self._thresholds.starting_s
        was_down = self.level is not None and self.level.state is State.UNHEALTHY
        if overdue or not was_down or self._starting >= self._thresholds.up:
            state = State.UNHEALTHY if overdue else State.DEGRADED
            self.level = Level(state, seen.reason, seen.message, seen.latency_s)

    def _record_failure(self, seen: Observation) -> None:
        self._good = 0
        self._starting = 0
        self._failures += 1
        self._definite += seen.outcome in DEFINITE
        if self._definite >= self._thresholds.definite or self._failures >= self._thresholds.failures:
            self._good_needed = self._thresholds.up
            self.level = Level(self._state_when_down(seen.outcome), seen.reason, seen.message)

    def _state_when_down(self, outcome: Outcome) -> State:
        if outcome not in {Outcome.ABSENT, Outcome.REMOVED}:
            return State.UNHEALTHY
        was = self.level.state if self.level else None
        if self._failures < self._thresholds.failures and was is not State.UNHEALTHY:
            return State.DEGRADED  # it may be restarting: one more look of grace
        return State.NOT_APPLICABLE if outcome is Outcome.REMOVED else State.UNHEALTHY

    def _clear_failures(self) -> None:
        self._failures = 0
        self._definite = 0
