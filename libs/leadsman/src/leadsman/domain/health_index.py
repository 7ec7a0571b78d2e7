"""Node reports turned into what is in force now: per (driver, backend), the nodes in each effective state.

The work is paid when a report or the clock changes something, so that a request only merges what is ready. Pure:
time and ages are arguments.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, StorageKey, StorageStatus
from leadsman.domain.states import Evidence, State, severity
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment


@dataclass(frozen=True, slots=True)
class Health:
    """A state with its reason (None for HEALTHY) and the evidence it rests on."""

    state: State
    reason: Reason | None
    evidence: Evidence


@cache
def health(state: State, reason: Reason | None, evidence: Evidence) -> Health:
    """The one Health object with these values; the sets are closed, so there are few."""
    return Health(state, None if state is State.HEALTHY else reason, evidence)


STALE = health(State.UNKNOWN, Reason.STALE, Evidence.CONTROL_PLANE)
"""In force on a node that went silent."""

NOT_OBSERVED = health(State.UNKNOWN, Reason.NOT_OBSERVED, Evidence.CONTROL_PLANE)
"""In force where no report says anything."""

_HOLDING = frozenset({State.UNHEALTHY, State.NOT_APPLICABLE})
_NONE: Mapping[str, Health] = {}


def effective(last: Health, policy: DriverPolicy, age_s: float) -> Health:
    """What counts of the last reported state `age_s` seconds later.

    A stale state is unknown; one that rejects (unhealthy, not applicable) holds a while longer, because silence is
    no recovery.
    """
    stale_at, hold_until = policy.limits
    if age_s < stale_at or (last.state in _HOLDING and age_s < hold_until):
        return last
    return STALE


def treatment(health_now: Health, policy: DriverPolicy) -> Treatment:
    """How a node in this state is treated when a pod needs the storage, policy applied."""
    if health_now.state in _HOLDING:
        return Treatment.REJECT
    if health_now.state is not State.UNKNOWN:
        return Treatment.ALLOW
    return policy.stale if health_now.reason is Reason.STALE else policy.unknown


def levels(need: StorageKey) -> tuple[StorageKey, ...]:
    """The keys that decide about one need: its backend and the driver itself, more specific first."""
    return (need, StorageKey(need.driver)) if need.backend else (need,)


@dataclass(slots=True)
class _Node:
    listed: dict[StorageKey, Health]
    in_force: dict[StorageKey, Health] = field(default_factory=dict)
    age_s: float = 0.0
    due_s: float = float("inf")


@dataclass(slots=True)
class _Storage:
    by_state: dict[State, dict[str, Health]] = field(default_factory=dict)
    changed: int = 0


class HealthIndex:
    """Effective states of all nodes, with a generation that grows whenever one of them changes.

    A need looks at its backend and its driver, as far as a node's report lists them; where neither is listed,
    `unlisted` is in force. `now_s` must never go back and may be any clock of the caller's. Generations begin at
    `first_generation`, which a process takes from the time of its start, so that not even by accident two starts
    give the same number to different answers.
    """

    def __init__(self, policy: StoragePolicy, first_generation: int = 1) -> None:
        self.policy = policy
        self._limits = policy.age_limits()
        self._nodes: dict[str, _Node] = {}
        self._storages: dict[StorageKey, _Storage] = {}
        self._due: list[tuple[float, str]] = []
        self._recovered: set[StorageKey] = set()
        self._silent: set[str] = set()
        self._blind = False
        self._changes = first_generation
        self._floor = first_generation
        self._removed = 0

    @property
    def unlisted(self) -> Health:
        """In force on every node and storage that is not listed."""
        return STALE if self._blind else NOT_OBSERVED

    @property
    def blind(self) -> bool:
        """Whether the bus has been out of reach for so long that no state counts any more."""
        return self._blind

    @property
    def changes(self) -> int:
        """Generation of the index as a whole: grows with every change of any state in force."""
        return self._changes

    @property
    def nodes(self) -> int:
        """How many nodes have reported."""
        return len(self._nodes)

    @property
    def silent(self) -> int:
        """How many nodes are so old in age that some driver's states on them are stale."""
        return len(self._silent)

    def storages(self) -> Collection[StorageKey]:
        """Every key that some node lists."""
        return self._storages.keys()

    def in_state(self, key: StorageKey, state: State) -> Mapping[str, Health]:
        """Nodes that list `key` and are in `state` there; do not keep it across changes."""
        storage = self._storages.get(key)
        if storage is None or self._blind:
            return _NONE
        return storage.by_state.get(state, _NONE)

    def listed(self, need: StorageKey) -> set[str]:
        """Nodes that list the backend or the driver of `need`."""
        return set().union(*[self.in_state(key, state) for key in levels(need) for state in State])

    def generation(self, needs: Iterable[StorageKey]) -> int:
        """A number that grows whenever what `needs` depend on has changed; never 0, never back."""
        latest = self._floor
        for need in needs:
            for key in levels(need):
                storage = self._storages.get(key)
                latest = max(latest, self._removed if storage is None else storage.changed)
        return latest

    def apply(self, report: NodeReport, age_s: float, now_s: float) -> None:
        """Take in a node's newest report, `age_s` seconds old; touches only what it changes."""
        listed = _listed(report.storages)
        entry = self._nodes.get(report.node)
        if entry is None:
            entry = self._nodes[report.node] = _Node(listed)
        elif entry.listed == listed and max(entry.age_s, age_s) < self._limits[0]:
            self._schedule(report.node, entry, age_s, now_s)
            return
        entry.listed = listed
        self._refresh(report.node, entry, age_s)
        self._schedule(report.node, entry, age_s, now_s)

    def tick(self, now_s: float, age_of: Callable[[str], float | None], frozen_for_s: float | None = None) -> None:
        """Let time pass; call it about once a second. Looks only at nodes whose age may have reached a limit.

        `age_of` is the authority on ages (None: forgotten); they stand still while the bus is out of reach.
        `frozen_for_s` is how long that has been so, None while it works; beyond the policy's limit all is unknown.
        """
        self._set_blind(frozen_for_s is not None and frozen_for_s >= self.policy.bus_frozen_max_age_s)
        for node in self._pop_due(now_s):
            age_s = age_of(node)
            if age_s is None:
                self.forget(node)
                continue
            entry = self._nodes[node]
            self._refresh(node, entry, age_s)
            self._schedule(node, entry, age_s, now_s)

    def forget(self, node: str) -> None:
        """Drop everything about `node`."""
        entry = self._nodes.pop(node, None)
        self._silent.discard(node)
        if entry is not None:
            for key, old in entry.in_force.items():
                self._move(node, key, old, None)

    @property
    def recovering(self) -> bool:
        """Whether `take_recovered` has something to tell."""
        return bool(self._recovered)

    def take_recovered(self) -> set[StorageKey]:
        """Keys whose set of rejected nodes has shrunk since the last call; each is told once."""
        recovered, self._recovered = self._recovered, set()
        return recovered

    def _refresh(self, node: str, entry: _Node, age_s: float) -> None:
        before = entry.in_force
        now = {key: effective(last, self.policy.of(key.driver), age_s) for key, last in entry.listed.items()}
        entry.in_force = now
        entry.age_s = age_s
        for key, old in before.items():
            if key not in now:
                self._move(node, key, old, None)
        for key, new in now.items():
            old_one = before.get(key)
            if old_one is not new:
                self._move(node, key, old_one, new)

    def _move(self, node: str, key: StorageKey, old: Health | None, new: Health | None) -> None:
        storage = self._storages.get(key)
        if storage is None:
            storage = self._storages[key] = _Storage()
        if old is not None and (new is None or new.state is not old.state):
            del storage.by_state[old.state][node]
            if not storage.by_state[old.state]:
                del storage.by_state[old.state]
        if new is not None:
            storage.by_state.setdefault(new.state, {})[node] = new
        self._changes += 1
        storage.changed = self._changes
        if not storage.by_state:
            del self._storages[key]
            self._removed = self._changes
        if self._rejects(key, old) and not self._rejects(key, new):
            self._recovered.add(key)

    def _rejects(self, key: StorageKey, one: Health | None) -> bool:
        return treatment(one or NOT_OBSERVED, self.policy.of(key.driver)) is Treatment.REJECT

    def _set_blind(self, blind: bool) -> None:  # noqa: FBT001 - one caller, one meaning
        if blind == self._blind:
            return
        self._blind = blind
        self._changes += 1
        self._floor = self._changes
        if blind:
            self._recovered |= {
                key for key, storage in self._storages.items() if not _HOLDING.isdisjoint(storage.by_state)
            }

    def _schedule(self, node: str, entry: _Node, age_s: float, now_s: float) -> None:
        """See that `node` is looked at when its age reaches the next limit; an earlier look does no harm."""
        entry.age_s = age_s
        passed = bisect_right(self._limits, age_s)
        (self._silent.add if passed else self._silent.discard)(node)
        if passed == len(self._limits):
            return
        due_s = now_s + self._limits[passed] - age_s
        if due_s < entry.due_s:
            entry.due_s = due_s
            heapq.heappush(self._due, (due_s, node))

    def _pop_due(self, now_s: float) -> list[str]:
        popped = []
        while self._due and self._due[0][0] <= now_s:
            due_s, node = heapq.heappop(self._due)
            entry = self._nodes.get(node)
            if entry is not None and entry.due_s == due_s:  # else an earlier look has replaced this one
                entry.due_s = float("inf")
                popped.append(node)
        return popped


def _listed(storages: Iterable[StorageStatus]) -> dict[StorageKey, Health]:
    """The states of one report by key; of two entries for one key the worse counts."""
    found: dict[StorageKey, Health] = {}
    for status in storages:
        one = health(status.state, status.reason, status.evidence)
        other = found.get(status.key)
        if other is None or severity(one.state) > severity(other.state):
            found[status.key] = one
    return found
