"""Holds back the recovery of storage that keeps changing its state (facts: storage-health 3.1). Pure."""

from collections import deque
from dataclasses import dataclass, field

from leadsman.domain.durations import format_duration
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State, severity
from leadsman_health_collector.strikes import Level

_KNOWN = frozenset({State.HEALTHY, State.DEGRADED, State.UNHEALTHY})


@dataclass(frozen=True, slots=True)
class Damping:
    """From `changes` changes of state within `window_s` seconds on, storage is flapping.

    A way down or up counts once, however many states it passes: absent storage is DEGRADED before it is UNHEALTHY. It
    then stays at least DEGRADED for `hold_s` seconds after its last change; each time it starts again soon after,
    for twice as long, up to `max_hold_s`.
    """

    changes: int = 3
    window_s: float = 600.0
    hold_s: float = 300.0
    max_hold_s: float = 1800.0


@dataclass(slots=True)
class _History:
    state: State | None = None
    falling: bool | None = None
    changes: deque[float] = field(default_factory=deque)
    hold_s: float = 0.0
    held_until: float = float("-inf")


class FlapDamper:
    """Remembers the changes of each key; `level` is what becomes of a level, given them."""

    def __init__(self, damping: Damping) -> None:
        self._damping = damping
        self._histories: dict[StorageKey, _History] = {}

    def level(self, key: StorageKey, level: Level, now: float) -> Level:
        """`level`, or DEGRADED as long as `key` is held for flapping and seems well; `now` is monotonic.

        Nothing is ever made better: a backend that flaps and is down is down.
        """
        history = self._histories.setdefault(key, _History())
        self._note(history, level.state, now)
        if now >= history.held_until or level.state is not State.HEALTHY:
            return level
        words = f"its state keeps changing; held for {format_duration(history.hold_s)} after the last change"
        return Level(State.DEGRADED, Reason.FLAPPING, words, level.latency_s)

    def hold(self, key: StorageKey, now: float) -> None:
        """An earlier run held `key` for flapping: so do we, since how long it was to last is not known."""
        self._histories[key] = _History(hold_s=self._damping.hold_s, held_until=now + self._damping.hold_s)

    def keep(self, keys: set[StorageKey]) -> None:
        """Only these still exist."""
        for key in self._histories.keys() - keys:
            del self._histories[key]

    def _note(self, history: _History, state: State, now: float) -> None:
        if state not in _KNOWN or state is history.state:
            return
        before, history.state = history.state, state
        if before is None:
            return
        falling = severity(state) > severity(before)
        if falling is history.falling:
            return
        history.falling = falling
        history.changes.append(now)
        while now - history.changes[0] > self._damping.window_s:
            history.changes.popleft()
        if len(history.changes) >= self._damping.changes:
            self._hold(history, now)

    def _hold(self, history: _History, now: float) -> None:
        longest = self._damping.max_hold_s
        if now >= history.held_until:  # else it is the same unrest, which only lasts longer
            soon = now - history.held_until < longest
            history.hold_s = min(2 * history.hold_s, longest) if soon else self._damping.hold_s
        history.held_until = now + history.hold_s
