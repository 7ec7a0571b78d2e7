"""All that is known about this node's storage: sources with their strikes, and a status per (driver, backend)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason, evidence_of
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import Evidence, State
from leadsman_health_collector.combine import IN_TREE, of_backend, of_driver, of_endpoints, of_mounts, of_plugin, worst
from leadsman_health_collector.observation import Kind, Observation
from leadsman_health_collector.strikes import Level, SourceHealth, Thresholds

STALE_ROUNDS = 3
"""Good evidence older than this many rounds of its probe no longer counts as good."""

VERIFY_ROUNDS = 2
"""What an earlier run knew is confirmed or given up within this many rounds in which the probe could look."""


@dataclass(slots=True)
class _Source:
    key: StorageKey
    health: SourceHealth


Group = Mapping[Kind, list[SourceHealth]]
"""The sources of one key, by probe."""


class HealthBook:
    """Takes looks in, gives statuses out; no I/O, time from `clock`.

    `inherited` is what an earlier run on this boot last published. It stands until every probe behind a key has
    decided again: worse news counts at once, better news only then.
    """

    def __init__(self, clock: Clock, thresholds: Thresholds, inherited: Iterable[StorageStatus] = ()) -> None:
        self._clock = clock
        self._thresholds = thresholds
        self._sources: dict[Kind, dict[str, _Source]] = {kind: {} for kind in Kind}
        self._rounds = dict.fromkeys(Kind, 0)
        self._discoveries = dict.fromkeys(Kind, 0)
        self._statuses = {status.key: status for status in inherited}
        self._inherited = {
            key: Level(status.state, status.reason, status.message)
            for key, status in self._statuses.items()
            if status.state is not State.UNKNOWN  # not knowing is not worth keeping
        }

    @property
    def statuses(self) -> tuple[StorageStatus, ...]:
        """One status per key as of the last `evaluate`, ordered by key."""
        return tuple(self._statuses[key] for key in sorted(self._statuses))

    def rounds(self, kind: Kind) -> int:
        """How many rounds of `kind` have ended, whatever came of them: evidence ages by these."""
        return self._rounds[kind]

    def discoveries(self, kind: Kind) -> int:
        """How many of the rounds could tell what there is to look at: only these can refute an earlier run."""
        return self._discoveries[kind]

    def watch(self, kind: Kind, keys: Mapping[str, StorageKey]) -> None:
        """These, by name, are the sources of `kind` from now on; what was known of the others is dropped."""
        sources = self._sources[kind]
        for name in sources.keys() - keys.keys():
            del sources[name]
        for name, key in keys.items():
            if name not in sources or sources[name].key != key:
                health = SourceHealth(self._thresholds, cautious=self._was_bad(key), first_round=self._rounds[kind])
                sources[name] = _Source(key, health)

    def record(self, kind: Kind, name: str, seen: Observation) -> bool:
        """Take one look into account; whether the source's own state or reason has changed by it.

        A look at a source that is not watched (any more) is ignored.
        """
        source = self._sources[kind].get(name)
        if source is None:
            return False
        before = source.health.level
        source.health.record(seen, self._clock.monotonic(), self._rounds[kind])
        return _essence(before) != _essence(source.health.level)

    def end_round(self, kind: Kind, *, discovered: bool) -> None:
        """A round of looks of `kind` has ended; `discovered` if it could be told what there is to look at."""
        self._rounds[kind] += 1
        self._discoveries[kind] += discovered

    def wants_second_look(self, kind: Kind, name: str) -> bool:
        """Whether `name` should be looked at again before its next turn."""
        source = self._sources[kind].get(name)
        return source is not None and source.health.wants_second_look

    def suspects(self, kind: Kind) -> frozenset[str]:
        """Sources that are bad or may be about to be: they are looked at in every round."""
        return frozenset(name for name, source in self._sources[kind].items() if _suspect(source.health))

    def evaluate(self) -> bool:
        """Work out all statuses anew; whether a key, a state or a reason has changed."""
        groups = self._groups()
        levels: dict[StorageKey, Level | None] = {}
        behind: dict[str, list[Level]] = defaultdict(list)
        for key in sorted(key for key in {*groups, *self._inherited} if key.backend):
            own = groups.get(key, {})
            level = levels[key] = self._settle(key, own, self._fresh_backend(own))
            if level is not None:
                behind[key.driver].append(level)
        mounted = {source.key.driver for source in self._sources[Kind.MOUNT].values()}
        for driver in self._drivers(groups, behind):
            own = groups.get(StorageKey(driver), {})
            fresh = self._fresh_driver(driver, own, behind.get(driver, []), mounted=driver in mounted)
            levels[StorageKey(driver)] = self._settle(StorageKey(driver), own, fresh)
        before = {key: (status.state, status.reason) for key, status in self._statuses.items()}
        self._statuses = {key: self._status(key, level) for key, level in levels.items() if level is not None}
        return before != {key: (status.state, status.reason) for key, status in self._statuses.items()}

    def _groups(self) -> dict[StorageKey, Group]:
        groups: dict[StorageKey, dict[Kind, list[SourceHealth]]] = defaultdict(lambda: defaultdict(list))
        for kind, sources in self._sources.items():
            for _, source in sorted(sources.items()):
                groups[source.key][kind].append(source.health)
        return dict(groups)

    def _drivers(self, groups: Iterable[StorageKey], behind: Iterable[str]) -> set[str]:
        in_tree = {driver for driver in behind if driver.startswith(IN_TREE)}
        return in_tree | {key.driver for key in [*groups, *self._inherited] if not key.backend}

    def _settle(self, key: StorageKey, own: Group, fresh: Level | None) -> Level | None:
        """`fresh` together with what was inherited; None if there is no reason to list the key."""
        old = self._inherited.get(key)
        if old is not None and self._verified(key, own):
            del self._inherited[key]
            old = None
        if old is not None and old.state is State.HEALTHY and min(self._rounds.values()) >= STALE_ROUNDS:
            old = None  # good news that nobody has confirmed since
        undecided = Level(State.UNKNOWN, Reason.NOT_OBSERVED, "no probe has decided yet")
        return worst([old, fresh]) or (undecided if self._had_a_chance(own) else None)

    def _fresh_backend(self, own: Group) -> Level | None:
        mounts = self._current(Kind.MOUNT, own, of_mounts(_levels(own, Kind.MOUNT), shared=True))
        endpoints = self._current(Kind.ENDPOINT, own, of_endpoints(_levels(own, Kind.ENDPOINT)))
        return of_backend(endpoints, mounts)

    def _fresh_driver(self, driver: str, own: Group, behind: list[Level], *, mounted: bool) -> Level | None:
        mounts = self._current(Kind.MOUNT, own, of_mounts(_levels(own, Kind.MOUNT), shared=False))
        plugin = self._current(Kind.PLUGIN, own, of_plugin(_levels(own, Kind.PLUGIN)))
        return of_driver(driver, plugin, mounts, behind, mounted=mounted)

    def _current(self, kind: Kind, own: Group, level: Level | None) -> Level | None:
        """`level`, unless it is good and rests on looks that have not been had for too long."""
        if level is None or level.state is not State.HEALTHY:
            return level
        if self._rounds[kind] - max(health.last_round for health in own[kind]) <= STALE_ROUNDS:
            return level
        return Level(State.UNKNOWN, Reason.NOT_OBSERVED, f"the {kind} probe has not run for {STALE_ROUNDS} rounds")

    def _had_a_chance(self, own: Group) -> bool:
        """Whether any source has been looked at, or should have been; before that a key is not worth a report."""
        return any(
            health.attempted or self._rounds[kind] > health.first_round
            for kind, healths in own.items()
            for health in healths
        )

    def _verified(self, key: StorageKey, own: Group) -> bool:
        """Whether what an earlier run knew of a key has been looked into again."""
        if not own:
            return min(self._discoveries.values()) >= VERIFY_ROUNDS
        # A probe that has not found out what there is may yet find the very source that was bad.
        blind = any(self._discoveries[kind] == 0 for kind in _kinds_behind(key))
        return not blind and all(self._group_verified(kind, healths) for kind, healths in own.items())

    def _group_verified(self, kind: Kind, healths: list[SourceHealth]) -> bool:
        undecided = [health for health in healths if health.level is None]
        if len(undecided) == len(healths):
            return False
        # Mounts take turns, so some may not have been looked at in two rounds; those have no say.
        return not any(health.attempted or self._discoveries[kind] < VERIFY_ROUNDS for health in undecided)

    def _was_bad(self, key: StorageKey) -> bool:
        old = self._inherited.get(key)
        return old is not None and old.state is not State.HEALTHY

    def _status(self, key: StorageKey, level: Level) -> StorageStatus:
        before = self._statuses.get(key)
        same = before is not None and (before.state, before.reason) == (level.state, level.reason)
        return StorageStatus(
            key=key,
            state=level.state,
            reason=level.reason,
            evidence=evidence_of(level.reason) if level.reason else _evidence_when_well(key),
            message=level.message,
            since_epoch_s=before.since_epoch_s if before and same else self._clock.epoch(),
            latency_s=None if level.latency_s is None else round(level.latency_s, 4),
        )


def _levels(own: Group, kind: Kind) -> list[Level | None]:
    return [health.level for health in own.get(kind, [])]


def _kinds_behind(key: StorageKey) -> tuple[Kind, ...]:
    return (Kind.ENDPOINT, Kind.MOUNT) if key.backend else (Kind.PLUGIN, Kind.MOUNT)


def _essence(level: Level | None) -> tuple[State, Reason | None] | None:
    return None if level is None else (level.state, level.reason)


def _suspect(health: SourceHealth) -> bool:
    return health.failing or (health.level is not None and health.level.state is not State.HEALTHY)


def _evidence_when_well(key: StorageKey) -> Evidence:
    return Evidence.DATA_PATH if key.backend else Evidence.CONTROL_PLANE
