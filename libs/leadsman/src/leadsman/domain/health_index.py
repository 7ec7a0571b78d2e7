"""Node reports turned into what is in force now: per (driver, backend), the nodes in each effective state.

The work is paid when a report or the clock changes something, so that a request only merges what is ready. Pure:
time and ages are arguments.
"""

import heapq
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from leadsman.domain.health import NOT_OBSERVED, STALE, Health, effective, prevailing, treatment
from leadsman.domain.listing import bad_volumes, listed_states
from leadsman.domain.report import NodeReport, StorageKey, VolumeKey, VolumeStatus
from leadsman.domain.requirements import Requirement
from leadsman.domain.standings import Standings
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment

K = TypeVar("K")

_NONE: Mapping[str, Health] = {}
_NO_VOLUMES: dict[VolumeKey, Health] = {}


def levels(need: StorageKey) -> tuple[StorageKey, ...]:
    """The keys that decide about one need: its backend and the driver itself, more specific first."""
    return (need, StorageKey(need.driver)) if need.backend else (need,)


@dataclass(slots=True)
class _Node:
    """What is in force on a node: the union over its reporters. `refused` are the volumes whose pods it turns away."""

    name: str
    reporters: "list[_Reporter]" = field(default_factory=list)
    in_force: dict[StorageKey, Health] = field(default_factory=dict)
    refused: dict[VolumeKey, Health] = field(default_factory=dict)


@dataclass(slots=True)
class _Reporter:
    """The agent or a sidecar of a node: what it said last, and what counts of that at its own age."""

    name: str
    node: _Node
    listed: dict[StorageKey, Health] = field(default_factory=dict)
    volumes: tuple[VolumeStatus, ...] = ()
    bad: dict[VolumeKey, Health] = field(default_factory=dict)
    in_force: dict[StorageKey, Health] = field(default_factory=dict)
    refused: dict[VolumeKey, Health] = field(default_factory=dict)
    age_s: float = 0.0
    due_s: float = float("inf")


class HealthIndex:
    """Effective states of all nodes, with a generation that grows whenever one of them changes.

    A need looks at its backend and its driver, as far as a node's reports list them; where neither is listed,
    `unlisted` is in force. A node's agent and its sidecars are heard side by side, each with its own age; where they
    speak of one thing, `leadsman.domain.health.prevailing` says what counts. Reporters go by their names, see
    `NodeReport.reporter`: an agent's is that of its node.

    `now_s` must never go back and may be any clock of the caller's. Generations begin at `first_generation`, which a
    process takes from the time of its start, so that not even by accident two starts give the same number to different
    answers.
    """

    def __init__(self, policy: StoragePolicy, first_generation: int = 1) -> None:
        self.policy = policy
        self._limits = policy.age_limits()
        self._standings = Standings(policy, first_generation)
        self._nodes: dict[str, _Node] = {}
        self._reporters: dict[str, _Reporter] = {}
        self._due: list[tuple[float, str]] = []
        self._silent: set[str] = set()
        self._blind = False
        self._floor = first_generation

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
        return self._standings.changes

    @property
    def nodes(self) -> int:
        """How many nodes have reported."""
        return len(self._nodes)

    @property
    def silent(self) -> int:
        """How many nodes have a reporter so old in age that some driver's states on them are stale."""
        return len({self._reporters[name].node.name for name in self._silent})

    def storages(self) -> Collection[StorageKey]:
        """Every key that some node lists."""
        return self._standings.storages.keys()

    def volumes(self) -> Collection[VolumeKey]:
        """Every volume for which some node turns pods away; there are few or none, so look here first."""
        return self._standings.volumes.keys()

    def in_state(self, key: StorageKey, state: State) -> Mapping[str, Health]:
        """Nodes that list `key` and are in `state` there; do not keep it across changes."""
        return _NONE if self._blind else self._standings.in_state(key, state) or _NONE

    def refusing(self, volume: VolumeKey) -> Mapping[str, Health]:
        """Nodes that must not get pods with `volume`, and why; do not keep it across changes.

        UNHEALTHY, or UNKNOWN where policy rejects that. Once its hold is over, a silent reporter's word about a volume
        is gone: whether such a node is let in is decided by its storages, which are stale then.
        """
        return _NONE if self._blind else self._standings.refusing(volume) or _NONE

    def listed(self, need: StorageKey) -> set[str]:
        """Nodes that list the backend or the driver of `need`."""
        return set().union(*[self.in_state(key, state) for key in levels(need) for state in State])

    def generation(self, needs: Iterable[StorageKey]) -> int:
        """A number that grows when what `needs` depend on has changed, single volumes aside; never 0, never back."""
        latest = self._floor
        for need in needs:
            for key in levels(need):
                latest = max(latest, self._standings.changed(key))
        return latest

    def generation_of_volumes(self, volumes: Collection[Requirement]) -> int:
        """As `generation`, for the nodes that refuse one of `volumes` or are unhealthy in the storage behind it."""
        storages = self.generation(need.key for need in volumes)
        changes = [self._standings.volume_changed(VolumeKey(need.driver, need.volume)) for need in volumes]
        return max(storages, *changes)

    def apply(self, report: NodeReport, age_s: float, now_s: float) -> None:
        """Take in a reporter's newest report, `age_s` seconds old; touches only what it changes."""
        listed = listed_states(report.storages)
        one = self._reporters.get(report.reporter) or self._introduce(report)
        same = one.listed == listed and one.volumes == report.bad_volumes
        if not same or max(one.age_s, age_s) >= self._limits[0]:
            one.listed, one.volumes = listed, report.bad_volumes
            one.bad = bad_volumes(report.bad_volumes)
            self._refresh(one, age_s)
        self._schedule(one, age_s, now_s)

    def tick(self, now_s: float, age_of: Callable[[str], float | None], frozen_for_s: float | None = None) -> None:
        """Let time pass; call it about once a second. Looks only at reporters whose age may have reached a limit.

        `age_of` is the authority on ages (None: forgotten); they stand still while the bus is out of reach.
        `frozen_for_s` is how long that has been so, None while it works; beyond the policy's limit all is unknown.
        """
        self._set_blind(frozen_for_s is not None and frozen_for_s >= self.policy.bus_frozen_max_age_s)
        for one in self._pop_due(now_s):
            age_s = age_of(one.name)
            if age_s is None:
                self.forget(one.name)
            else:
                self._refresh(one, age_s)
                self._schedule(one, age_s, now_s)

    def forget(self, reporter: str) -> None:
        """Drop everything that `reporter` said."""
        one = self._reporters.pop(reporter, None)
        self._silent.discard(reporter)
        if one is None:
            return
        one.node.reporters.remove(one)
        self._settle(one.node)
        if not one.node.reporters:
            del self._nodes[one.node.name]

    @property
    def recovering(self) -> bool:
        """Whether `take_recovered` has something to tell."""
        return bool(self._standings.recovered or self._standings.recovered_volumes)

    def take_recovered(self) -> set[str]:
        """Names of storages and volumes that fewer nodes reject than at the last call; each is told once."""
        return self._standings.take_recovered()

    def _introduce(self, report: NodeReport) -> _Reporter:
        node = self._nodes.get(report.node)
        if node is None:
            node = self._nodes[report.node] = _Node(report.node)
        one = self._reporters[report.reporter] = _Reporter(report.reporter, node)
        node.reporters.append(one)
        return one

    def _refresh(self, one: _Reporter, age_s: float) -> None:
        """See what counts of a reporter's word at this age."""
        policy_of = self.policy.of
        one.age_s = age_s
        one.in_force = {key: effective(last, policy_of(key.driver), age_s) for key, last in one.listed.items()}
        one.refused = _NO_VOLUMES
        if one.bad:
            now = {key: effective(last, policy_of(key.driver), age_s) for key, last in one.bad.items()}
            one.refused = {key: each for key, each in now.items() if _refuses(each, policy_of(key.driver))}
        self._settle(one.node)

    def _settle(self, node: _Node) -> None:
        """Bring in force what the reporters of `node` say together."""
        before, refused_before = node.in_force, node.refused
        if len(node.reporters) == 1:  # nearly always
            (only,) = node.reporters
            node.in_force, node.refused = only.in_force, only.refused
        else:
            node.in_force = _united([one.in_force for one in node.reporters])
            node.refused = _united([one.refused for one in node.reporters])
        for key, old, new in _differences(before, node.in_force):
            self._standings.move(node.name, key, old, new)
        if refused_before or node.refused:
            for volume, _, why in _differences(refused_before, node.refused):
                self._standings.move_volume(node.name, volume, why)

    def _set_blind(self, blind: bool) -> None:  # noqa: FBT001 - one caller, one meaning
        if blind == self._blind:
            return
        self._blind = blind
        if blind:
            self._standings.drop_all()
        else:
            self._standings.changes += 1
        self._floor = self._standings.changes

    def _schedule(self, one: _Reporter, age_s: float, now_s: float) -> None:
        """See that `one` is looked at when its age reaches the next limit; an earlier look does no harm."""
        one.age_s = age_s
        passed = bisect_right(self._limits, age_s)
        (self._silent.add if passed else self._silent.discard)(one.name)
        if passed == len(self._limits):
            return
        due_s = now_s + self._limits[passed] - age_s
        if due_s < one.due_s:
            one.due_s = due_s
            heapq.heappush(self._due, (due_s, one.name))

    def _pop_due(self, now_s: float) -> list[_Reporter]:
        popped = []
        while self._due and self._due[0][0] <= now_s:
            due_s, name = heapq.heappop(self._due)
            one = self._reporters.get(name)
            if one is not None and one.due_s == due_s:  # else an earlier look has replaced this one
                one.due_s = float("inf")
                popped.append(one)
        return popped


def _refuses(now: Health, policy: DriverPolicy) -> bool:
    return now is not STALE and treatment(now, policy) is Treatment.REJECT


def _united(words: list[dict[K, Health]]) -> dict[K, Health]:
    """What several reporters of a node say together."""
    found: dict[K, Health] = {}
    for word in words:
        for key, one in word.items():
            other = found.get(key)
            found[key] = one if other is None else prevailing(one, other)
    return found


def _differences(
    before: Mapping[K, Health], now: Mapping[K, Health]
) -> Iterator[tuple[K, Health | None, Health | None]]:
    """Each key with what it was and what it is, where these differ."""
    for key, old in before.items():
        if key not in now:
            yield key, old, None
    for key, new in now.items():
        before_it = before.get(key)
        if before_it is not new:
            yield key, before_it, new
