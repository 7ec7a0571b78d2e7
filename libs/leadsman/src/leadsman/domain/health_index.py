"""Node reports turned into what is in force now: per (driver, backend), the nodes in each effective state.

The work is paid when a report or the clock changes something, so that a request only merges what is ready. Pure:
time and ages are arguments.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from leadsman.domain.breaker import BreakerEvent, Breakers, suppressed
from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health import NOT_OBSERVED, STALE, Health, weak
from leadsman.domain.report import NodeReport, StorageKey, VolumeKey
from leadsman.domain.reporters import AgeOf, Node, Reporters, differences
from leadsman.domain.requirements import Requirement
from leadsman.domain.standings import Standings
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy

_NONE: Mapping[str, Health] = {}
_NOTHING: Mapping[StorageKey, Health] = {}

_UNLISTED = ""
"""In sets of rejected nodes: every node that lists nothing of the driver."""

OTHER_DRIVERS = "other drivers"
"""Among names of what has recovered: all drivers that no node lists and that policy does not name."""


def levels(need: StorageKey) -> tuple[StorageKey, ...]:
    """The keys that decide about one need: its backend and the driver itself, more specific first."""
    return (need, StorageKey(need.driver)) if need.backend else (need,)


class HealthListener(Protocol):
    """Whoever works something out of states in force, when they change and not when it is asked."""

    def refresh(self, node: str) -> None:
        """Something in force on `node` has changed; it may also list nothing more."""
        ...

    def reset(self) -> None:
        """Anything may differ now: what states are worth has changed as a whole."""
        ...


class HealthIndex:
    """Effective states of all nodes, with a generation that grows whenever one of them changes.

    A need looks at its backend and its driver, as far as a node's reports list them; where neither is listed,
    `unlisted` is in force. A node's agent and its sidecars are heard side by side, each with its own age; where they
    speak of one thing, `leadsman.domain.health.prevailing` says what counts. Reporters go by their names, see
    `NodeReport.reporter`: an agent's is that of its node.

    `now_s` must never go back and may be any clock of the caller's. Generations are numbers of `changes`.
    """

    def __init__(self, policy: StoragePolicy, changes: ChangeCounter) -> None:
        self.policy = policy
        self.complete = True
        """Set it to False while most nodes have not been heard: breakers stay as they are, since shares mean nothing.

        They decide with the first change or tick after it is True again.
        """
        self._changes = changes
        self._breakers = Breakers(policy, changes)
        self._standings = Standings(self._breakers, changes)
        self._reporters = Reporters(policy)
        self._listeners: list[HealthListener] = []
        self._events: list[BreakerEvent] = []
        self._blind = False
        self._now_s = 0.0
        self._floor = changes.value

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
        """Generation of all that shares the counter: grows with every change of any state in force."""
        return self._changes.value

    @property
    def nodes(self) -> int:
        """How many nodes have reported."""
        return len(self._reporters)

    @property
    def silent(self) -> int:
        """How many nodes have a reporter so old in age that some driver's states on them are stale."""
        return self._reporters.silent

    def storages(self) -> Collection[StorageKey]:
        """Every key that some node lists."""
        return self._standings.storages.keys()

    def volumes(self) -> Collection[VolumeKey]:
        """Every volume for which some node turns pods away; there are few or none, so look here first."""
        return self._standings.volumes.keys()

    def in_force(self, node: str) -> Mapping[StorageKey, Health]:
        """All that `node` lists with what counts of it, nothing for an unknown node; do not keep it across changes."""
        known = self._reporters.node(node)
        return _NOTHING if known is None or self._blind else known.in_force

    def in_state(self, key: StorageKey, state: State) -> Mapping[str, Health]:
        """Nodes that list `key` and are in `state` there; do not keep it across changes."""
        return _NONE if self._blind else self._standings.in_state(key, state) or _NONE

    def rejects(self, key: StorageKey, health: Health) -> bool:
        """Whether a node in this state at `key` is kept from pods that need it: by policy and by the breakers.

        `unlisted` counts at the need itself: a backend's breaker speaks for nodes that list nothing of it, too.
        """
        return self._breakers.rejects(key, health)

    def refusing(self, volume: VolumeKey) -> Mapping[str, Health]:
        """Nodes that must not get pods with `volume`, and why; do not keep it across changes.

        UNHEALTHY, or UNKNOWN where policy rejects that; while the driver's breaker is open, only what the data path
        says. Once its hold is over, a silent reporter's word about a volume is gone: whether such a node is let in is
        decided by its storages, which are stale then.
        """
        nodes = None if self._blind else self._standings.refusing(volume)
        if not nodes:
            return _NONE
        if not self.breaker_open(StorageKey(volume.driver)):
            return nodes
        return {node: health for node, health in nodes.items() if not weak(health)}

    def listed(self, need: StorageKey) -> set[str]:
        """Nodes that list the backend or the driver of `need`."""
        return set().union(*[self.in_state(key, state) for key in levels(need) for state in State])

    def generation(self, needs: Iterable[StorageKey]) -> int:
        """A number that grows when what `needs` depend on has changed, single volumes aside; never 0, never back."""
        latest = self._floor
        for need in needs:
            for key in levels(need):
                latest = max(latest, self._standings.changed(key), self._breakers.changed(key))
        return latest

    def generation_of_volumes(self, volumes: Collection[Requirement]) -> int:
        """As `generation`, for the nodes that refuse one of `volumes` or are unhealthy in the storage behind it."""
        storages = self.generation(need.key for need in volumes)
        changes = [self._standings.volume_changed(VolumeKey(need.driver, need.volume)) for need in volumes]
        return max(storages, *changes)

    @property
    def open_breakers(self) -> frozenset[StorageKey]:
        """Storages whose own breaker is open; that of a driver covers its backends, see `leadsman.domain.breaker`."""
        return self._breakers.open

    def breaker_open(self, key: StorageKey) -> bool:
        """Whether weak evidence about `key` rejects nobody now: its breaker or that of its driver is open."""
        return suppressed(key, self._breakers.open)

    def breaker_counts(self, key: StorageKey) -> tuple[int, int]:
        """Nodes that `key` would reject on weak evidence if no breaker were open, and all that have it."""
        return self._breakers.counts(key)

    def take_breaker_events(self) -> list[BreakerEvent]:
        """The openings and closings since the last call, in order."""
        events, self._events = self._events, []
        return events

    def listen(self, listener: HealthListener) -> None:
        """Tell `listener` of every change from now on, in the turn in which it comes in force."""
        self._listeners.append(listener)

    def unlisten(self, listener: HealthListener) -> None:
        """Tell `listener` nothing more."""
        self._listeners.remove(listener)

    def apply(self, report: NodeReport, age_s: float, now_s: float) -> None:
        """Take in a reporter's newest report, `age_s` seconds old; touches only what it changes."""
        self._now_s = now_s
        node = self._reporters.hear(report, age_s, now_s)
        if node is not None:
            self._settle([node])

    def tick(self, now_s: float, age_of: AgeOf, frozen_for_s: float | None = None) -> None:
        """Let time pass; call it about once a second. Looks only at reporters whose age may have reached a limit.

        Ages stand still while the bus is out of reach. `frozen_for_s` is how long that has been so, None while it
        works; beyond the policy's limit all is unknown.
        """
        self._now_s = now_s
        self._set_blind(frozen_for_s is not None and frozen_for_s >= self.policy.bus_frozen_max_age_s)
        self._settle(self._reporters.look(now_s, age_of))
        if self.complete:
            self._turned(self._breakers.tick(now_s))

    def forget(self, reporter: str) -> None:
        """Drop everything that `reporter` said."""
        node = self._reporters.forget(reporter)
        if node is not None:
            self._settle([node])

    def adopt(self, policy: StoragePolicy, now_s: float, age_of: AgeOf) -> None:
        """Judge all nodes by another policy from now on; nothing to do if it says the same.

        How long the bus may be out of reach counts from the next `tick` on.
        """
        if policy == self.policy:
            return
        named = self.policy.drivers.keys() | policy.drivers.keys()
        before, told = self._rejected(named), set(self._standings.recovered)
        self.policy, self._now_s = policy, now_s
        self._standings.adopt(policy)
        for node in self._reporters.adopt(policy, now_s, age_of):
            self._bring_in_force(node)
        now = self._rejected(named)
        self._standings.recovered = told | {key for key, nodes in before.items() if nodes - now.get(key, set())}
        self._everything_differs()

    @property
    def recovering(self) -> bool:
        """Whether `take_recovered` has something to tell."""
        return bool(self._standings.recovered or self._standings.recovered_volumes)

    def take_recovered(self) -> set[str]:
        """Names of storages and volumes that fewer nodes reject than at the last call; each is told once.

        A storage whose breaker opened is one of them, and so may be OTHER_DRIVERS.
        """
        return self._standings.take_recovered()

    def _settle(self, nodes: Iterable[Node]) -> None:
        """Bring in force what the reporters of `nodes` say, and let everybody know."""
        changed = [node.name for node in nodes if self._bring_in_force(node)]
        self._judge()
        for listener in self._listeners:
            for name in changed:
                listener.refresh(name)

    def _bring_in_force(self, node: Node) -> bool:
        """Whether some storage has changed on `node`."""
        before, refused_before = node.in_force, node.refused
        node.unite()
        changed = False
        for key, old, new in differences(before, node.in_force):
            self._standings.move(node.name, key, old, new)
            changed = True
        if refused_before or node.refused:
            for volume, _, why in differences(refused_before, node.refused):
                self._standings.move_volume(node.name, volume, why)
        return changed

    def _set_blind(self, blind: bool) -> None:  # noqa: FBT001 - one caller, one meaning
        if blind == self._blind:
            return
        standings = self._standings
        # Who is let in now depends on what unlisted nodes are worth: better told in vain than not told.
        standings.recovered |= {key for key, nodes in self._rejected(self.policy.drivers).items() if nodes}
        standings.recovered_volumes |= standings.volumes.keys() if blind else set()
        self._blind = blind
        self._breakers.set_blind(blind)
        self._everything_differs()

    def _rejected(self, named: Iterable[str]) -> dict[StorageKey, set[str]]:
        """By key, whom it rejects; of nodes that list nothing, for drivers that are `named` or listed somewhere."""
        found = {} if self._blind else self._standings.rejected()
        for driver in {OTHER_DRIVERS, *named, *(key.driver for key in self._standings.storages)}:
            if self.rejects(StorageKey(driver), self.unlisted):
                found.setdefault(StorageKey(driver), set()).add(_UNLISTED)
        return found

    def _judge(self) -> None:
        if self.complete:
            self._turned(self._breakers.judge(self._now_s))

    def _turned(self, events: list[BreakerEvent]) -> None:
        """Breakers have opened or closed."""
        if events:
            self._events += events
            self._standings.recovered |= {event.storage for event in events if event.opened}
            self._reset_listeners()

    def _everything_differs(self) -> None:
        self._floor = self._changes.next()
        self._judge()
        self._reset_listeners()

    def _reset_listeners(self) -> None:
        for listener in self._listeners:
            listener.reset()
