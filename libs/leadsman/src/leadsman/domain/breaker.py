"""The breakers of mass failures: when nearly all nodes of a storage look bad at once, it is monitoring and not storage.

For each (driver, backend), and for each driver itself, one counts the nodes that list it, and those of them that would
be rejected for it on weak evidence: what the control plane says (a plugin, a registration, a name that does not
resolve), or silence. While the breaker of a backend is open, such evidence about it rejects nobody; while that of a
driver is, neither does such evidence about any of its backends. One backend with a mistake in its PersistentVolume
therefore disarms nothing but itself. Broken data paths reject as ever. Pure: time is an argument.
"""

from collections.abc import Collection
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
    """The breaker of `storage` has opened or closed: of `total` nodes that have the storage, `weak` looked bad then."""

    storage: StorageKey
    opened: bool
    weak: int
    total: int


def suppressed(key: StorageKey, open_breakers: Collection[StorageKey]) -> bool:
    """Whether weak evidence about `key` rejects nobody, because its breaker or that of its driver is open."""
    return bool(open_breakers) and (key in open_breakers or StorageKey(key.driver) in open_breakers)


class _Grade(NamedTuple):
    """What a state is worth under the policy of a driver.

    `has` is whether a node in it has the storage, and `suspect` whether it speaks for a mass failure. `rejected` is
    what happens to a node in it, and `rejected_if_open` what happens while a breaker that covers it is open.
    """

    has: bool
    suspect: bool
    rejected: bool
    rejected_if_open: bool


@dataclass(slots=True)
class _Storage:
    """How many nodes have the storage, and how many of them are suspect."""

    grades: dict[Health | None, _Grade] = field(default_factory=dict)
    total: int = 0
    suspect: int = 0
    changed: int = 0
    """The number of the last opening or closing."""
    below_since_s: float | None = None
    """Of an open breaker: since when the share has been too small to open it; None while it is large enough."""


class Breakers:
    """One breaker for each storage. Feed it with `move`, then let it decide with `judge` and `tick`.

    `blind` (nothing counts any more, so every node is stale) is to be set by the owner.
    """

    def __init__(self, policy: StoragePolicy, changes: ChangeCounter) -> None:
        self.open: frozenset[StorageKey] = frozenset()
        """Storages whose own breaker is open; see `suppressed`."""
        self._policy = policy
        self._changes = changes
        self._storages: dict[StorageKey, _Storage] = {}
        self._touched: set[StorageKey] = set()
        self._dropped = 0
        """The highest `changed` of storages that no node has any more, so that none of them goes back."""
        self._blind = False

    def rejects(self, key: StorageKey, health: Health) -> bool:
        """Whether a node in this state at `key` is kept from pods that need it."""
        if treatment(health, self._policy.of(key.driver)) is not Treatment.REJECT:
            return False
        return not (weak(health) and suppressed(key, self.open))

    def counts(self, key: StorageKey) -> tuple[int, int]:
        """Nodes that weak evidence about `key` speaks against, and all that have it."""
        one = self._storages.get(key)
        if one is None:
            return 0, 0
        if not self._blind:
            return one.suspect, one.total
        return (one.total if self._policy.of(key.driver).stale is Treatment.REJECT else 0), one.total

    def changed(self, key: StorageKey) -> int:
        """A number that grows when the breaker of `key` itself opens or closes, and never goes back."""
        one = self._storages.get(key)
        return one.changed if one else self._dropped

    def move(self, key: StorageKey, old: Health | None, new: Health | None) -> bool:
        """A node was in `old` at `key` and is in `new`; None where it does not list the key.

        Returns whether the node was rejected for it and may be no longer: what is not listed rejects where policy says
        so, but not if the driver or the backend is listed still.
        """
        one = self._storages.get(key)
        if one is None:
            one = self._storages[key] = _Storage(changed=self._dropped)
        was = one.grades.get(old) or self._grade(key, old)
        now = one.grades.get(new) or self._grade(key, new)
        if was == now:
            return False
        one.total += now.has - was.has
        one.suspect += now.suspect - was.suspect
        self._touched.add(key)
        if suppressed(key, self.open):
            return was.rejected_if_open and not now.rejected_if_open
        return was.rejected and (new is None or not now.rejected)

    def adopt(self, policy: StoragePolicy) -> None:
        """Count by another policy from now on, beginning with nothing: `move` everything in again."""
        self._policy = policy
        for one in self._storages.values():
            one.grades.clear()
            one.total = one.suspect = 0
        self._touched |= self._storages.keys()

    def set_blind(self, blind: bool) -> None:  # noqa: FBT001 - one caller, one meaning
        """Whether nothing counts any more."""
        self._blind = blind
        self._touched |= self._storages.keys()

    def judge(self, now_s: float) -> list[BreakerEvent]:
        """Open the breakers for which what was moved since the last call is a reason, and tell."""
        events: list[BreakerEvent] = []
        if not self._touched:  # nearly always
            return events
        for key in sorted(self._touched):
            one = self._storages[key]
            if self._failing(key):
                one.below_since_s = None
                if key not in self.open:
                    events.append(self._turn(key, opened=True))
            elif key in self.open:
                one.below_since_s = now_s if one.below_since_s is None else one.below_since_s
            elif not one.total:
                self._dropped = max(self._dropped, one.changed)
                del self._storages[key]
        self._touched.clear()
        return events

    def tick(self, now_s: float) -> list[BreakerEvent]:
        """Close the breakers that have had no reason to be open for long enough, and tell; `judge` before."""
        events = []
        for key in sorted(self.open):
            since_s = self._storages[key].below_since_s
            if since_s is not None and now_s - since_s >= CLOSE_AFTER_S:
                events.append(self._turn(key, opened=False))
                self._touched.add(key)
        return events

    def _failing(self, key: StorageKey) -> bool:
        count, total = self.counts(key)
        limit = self._policy.breaker
        return total >= limit.min_nodes and count / total > limit.share

    def _turn(self, key: StorageKey, *, opened: bool) -> BreakerEvent:
        self.open = self.open | {key} if opened else self.open - {key}
        self._storages[key].changed = self._changes.next()
        return BreakerEvent(key, opened, *self.counts(key))

    def _grade(self, key: StorageKey, health: Health | None) -> _Grade:
        """Work out the grade of a state, or of a node that does not list the key, and keep it."""
        now = health or NOT_OBSERVED
        has = health is not None and health.state is not State.NOT_APPLICABLE
        rejected = treatment(now, self._policy.of(key.driver)) is Treatment.REJECT
        suspect = rejected and weak(now)
        grade = _Grade(has, has and suspect, rejected, rejected and not suspect)
        self._storages[key].grades[health] = grade
        return grade
