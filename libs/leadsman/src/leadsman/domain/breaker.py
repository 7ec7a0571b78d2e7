"""The breaker of mass failures: when nearly all nodes of a driver look bad at once, it is monitoring and not storage.

It counts, per driver, the nodes that list it, and those of them that would be rejected on weak evidence: what the
control plane says of it (its plugin, its registration), or silence. While a driver's breaker is open, such evidence
rejects nobody. Broken data paths reject as ever. Pure: time is an argument.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health import NOT_OBSERVED, Health, treatment, weak
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy, Treatment

CLOSE_AFTER_S = 10.0
"""An open breaker closes once the share has not been above the limit for so long."""


class BreakerEvent(NamedTuple):
    """The breaker of `driver` has opened or closed: of `total` nodes that have the driver, `weak` looked bad then."""

    driver: str
    opened: bool
    weak: int
    total: int


class _Grade(NamedTuple):
    """What a state is worth under the policy of a driver.

    `has` is whether a node in it has the driver, and `suspect` whether it speaks for a mass failure. `rejected` is what
    happens to a node in it, and `rejected_if_open` what happens while the breaker is open.
    """

    has: bool
    suspect: bool
    rejected: bool
    rejected_if_open: bool


@dataclass(slots=True)
class _Driver:
    """How many keys of the driver each node has, and how many of them are suspect; nodes without any are left out."""

    grades: dict[Health | None, _Grade] = field(default_factory=dict)
    has: dict[str, int] = field(default_factory=dict)
    suspect: dict[str, int] = field(default_factory=dict)
    below_since_s: float | None = None
    """Of an open breaker: since when the share has been too small to open it; None while it is large enough."""


class Breakers:
    """One breaker for each driver. Feed it with `move`, then let it decide with `judge` and `tick`.

    `blind` (nothing counts any more, so every node is stale) is to be set by the owner.
    """

    def __init__(self, policy: StoragePolicy, changes: ChangeCounter) -> None:
        self.open: frozenset[str] = frozenset()
        """Drivers whose breaker is open."""
        self._policy = policy
        self._changes = changes
        self._drivers: dict[str, _Driver] = {}
        self._touched: set[str] = set()
        self._changed: dict[str, int] = {}
        self._blind = False

    def rejects(self, driver: str, health: Health) -> bool:
        """Whether a node in this state is kept from pods that need it."""
        if treatment(health, self._policy.of(driver)) is not Treatment.REJECT:
            return False
        return driver not in self.open or not weak(health)

    def counts(self, driver: str) -> tuple[int, int]:
        """Nodes of `driver` that weak evidence speaks against, and all that have it."""
        one = self._drivers.get(driver)
        if one is None:
            return 0, 0
        total = len(one.has)
        if not self._blind:
            return len(one.suspect), total
        return (total if self._policy.of(driver).stale is Treatment.REJECT else 0), total

    def changed(self, driver: str) -> int:
        """The number of the last opening or closing of the breaker of `driver`, 0 if there was none."""
        return self._changed.get(driver, 0)

    def move(self, node: str, key: StorageKey, old: Health | None, new: Health | None) -> bool:
        """`node` was in `old` at `key` and is in `new`; None where it does not list the key.

        Returns whether the node was rejected for it and may be no longer: what is not listed rejects where policy says
        so, but not if the driver or the backend is listed still.
        """
        driver = key.driver
        one = self._drivers.get(driver)
        if one is None:
            one = self._drivers[driver] = _Driver()
        was = one.grades.get(old) or self._grade(driver, old)
        now = one.grades.get(new) or self._grade(driver, new)
        if was == now:
            return False
        if was.has != now.has:
            _add(one.has, node, now.has - was.has)
        if was.suspect != now.suspect:
            _add(one.suspect, node, now.suspect - was.suspect)
        self._touched.add(driver)
        if driver in self.open:
            return was.rejected_if_open and not now.rejected_if_open
        return was.rejected and (new is None or not now.rejected)

    def adopt(self, policy: StoragePolicy) -> None:
        """Count by another policy from now on, beginning with nothing: `move` everything in again."""
        self._policy = policy
        for one in self._drivers.values():
            one.grades.clear()
            one.has.clear()
            one.suspect.clear()
        self._touched |= self._drivers.keys()

    def set_blind(self, blind: bool) -> None:  # noqa: FBT001 - one caller, one meaning
        """Whether nothing counts any more."""
        self._blind = blind
        self._touched |= self._drivers.keys()

    def judge(self, now_s: float) -> list[BreakerEvent]:
        """Open the breakers for which what was moved since the last call is a reason, and tell."""
        events: list[BreakerEvent] = []
        if not self._touched:  # nearly always
            return events
        for driver in sorted(self._touched):
            one = self._drivers[driver]
            if self._failing(driver):
                one.below_since_s = None
                if driver not in self.open:
                    events.append(self._turn(driver, opened=True))
            elif driver in self.open:
                one.below_since_s = now_s if one.below_since_s is None else one.below_since_s
            elif not one.has:
                del self._drivers[driver]
        self._touched.clear()
        return events

    def tick(self, now_s: float) -> list[BreakerEvent]:
        """Close the breakers that have had no reason to be open for long enough, and tell; `judge` before."""
        events = []
        for driver in sorted(self.open):
            one = self._drivers[driver]
            if one.below_since_s is not None and now_s - one.below_since_s >= CLOSE_AFTER_S:
                events.append(self._turn(driver, opened=False))
                self._touched.add(driver)
        return events

    def _failing(self, driver: str) -> bool:
        count, total = self.counts(driver)
        limit = self._policy.breaker
        return total >= limit.min_nodes and count / total > limit.share

    def _turn(self, driver: str, *, opened: bool) -> BreakerEvent:
        self.open = self.open | {driver} if opened else self.open - {driver}
        self._changed[driver] = self._changes.next()
        return BreakerEvent(driver, opened, *self.counts(driver))

    def _grade(self, driver: str, health: Health | None) -> _Grade:
        """Work out the grade of a state, or of a node that does not list the key, and keep it."""
        now = health or NOT_OBSERVED
        has = health is not None and health.state is not State.NOT_APPLICABLE
        rejected = treatment(now, self._policy.of(driver)) is Treatment.REJECT
        suspect = rejected and weak(now)
        grade = _Grade(has, has and suspect, rejected, rejected and not suspect)
        self._drivers[driver].grades[health] = grade
        return grade


def _add(counts: dict[str, int], node: str, step: int) -> None:
    count = counts.get(node, 0) + step
    if count:
        counts[node] = count
    else:
        counts.pop(node, None)
