"""All that is known about this node's storage: sources with their strikes, and a status per (driver, backend)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason, evidence_of
from leadsman.domain.report import StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import Evidence, State
from leadsman_health_collector.bad_volumes import BadVolumes
from leadsman_health_collector.combine import IN_TREE, worst
from leadsman_health_collector.evidence import PRIMARY, Group, fresh_backend, fresh_driver, kinds_behind
from leadsman_health_collector.flapping import Damping, FlapDamper
from leadsman_health_collector.observation import Kind, Observation
from leadsman_health_collector.probes.probe import Source
from leadsman_health_collector.strikes import Level, SourceHealth, Thresholds
from leadsman_health_collector.watched import Watched

STALE_ROUNDS = 3
"""Good evidence older than this many rounds of its probe no longer counts as good."""

VERIFY_ROUNDS = 2
"""What an earlier run knew is confirmed or given up within this many rounds in which the probe could look."""


@dataclass(frozen=True, slots=True)
class Change:
    """A look has changed the level of one source."""

    kind: Kind
    name: str
    source: Source
    before: Level | None
    after: Level | None
    seen: Observation


class HealthBook:
    """Takes looks in, gives statuses out; no I/O, time from `clock`.

    `inherited` and `inherited_volumes` are what an earlier run on this boot last published. They stand until every
    probe behind them has decided again: worse news counts at once, better news only then. `kinds` are the probes that
    will look, `looked_for` tells whether the plugin of a driver is among what they look at.
    """

    def __init__(
        self,
        clock: Clock,
        inherited: Iterable[StorageStatus] = (),
        inherited_volumes: Iterable[VolumeStatus] = (),
        *,
        kinds: Iterable[Kind] = tuple(Kind),
        damping: Damping | None = None,
        looked_for: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._clock = clock
        self._sources: dict[Kind, dict[str, Watched]] = {kind: {} for kind in kinds}
        self._rounds = dict.fromkeys(self._sources, 0)
        self._discoveries = dict.fromkeys(self._sources, 0)
        self._statuses = {status.key: status for status in inherited}
        self._inherited = {
            key: Level(status.state, status.reason, status.message)
            for key, status in self._statuses.items()
            if status.state is not State.UNKNOWN  # not knowing is not worth keeping
        }
        self._looked_for = looked_for
        self._damper = FlapDamper(damping or Damping())
        for key, level in self._inherited.items():
            if level.reason is Reason.FLAPPING:
                self._damper.hold(key, clock.monotonic())
        self._volumes = BadVolumes(clock, inherited_volumes)

    @property
    def statuses(self) -> tuple[StorageStatus, ...]:
        """One status per key as of the last `evaluate`, ordered by key."""
        return tuple(self._statuses[key] for key in sorted(self._statuses))

    @property
    def bad_volumes(self) -> tuple[VolumeStatus, ...]:
        """Volumes that are not well as of the last `evaluate`, the worst first."""
        return self._volumes.statuses

    def watched(self, kind: Kind) -> Mapping[str, Watched]:
        """The sources of `kind` with what is known of them, by name; read only."""
        return self._sources[kind]

    def rounds(self, kind: Kind) -> int:
        """How many rounds of `kind` have ended, whatever came of them: evidence ages by these."""
        return self._rounds[kind]

    def discoveries(self, kind: Kind) -> int:
        """How many of the rounds could tell what there is to look at: only these can refute an earlier run."""
        return self._discoveries[kind]

    def watch(
        self, kind: Kind, found: Mapping[str, Source], thresholds: Thresholds | None = None, period_s: float = 10.0
    ) -> None:
        """These, by name, are the sources of `kind` from now on; what was known of the others is dropped.

        `period_s` is the collector's own.
        """
        sources = self._sources[kind]
        for name in sources.keys() - found.keys():
            del sources[name]
        for name, source in found.items():
            known = sources.get(name)
            if known is not None and _same(known.source, source):
                known.source = source
                continue
            health = SourceHealth(
                thresholds or Thresholds(),
                period_s=period_s,
                cautious=self._was_bad(source.key),
                was_down=self._was_down(source.key, kind),
                first_round=self._rounds[kind],
            )
            sources[name] = Watched(source, health)

    def record(self, kind: Kind, name: str, seen: Observation) -> Change | None:
        """Take one look into account; what it has changed of the source's own state or reason, if anything.

        A look at a source that is not watched (any more) is ignored.
        """
        watched = self._sources[kind].get(name)
        if watched is None:
            return None
        before = watched.health.level
        watched.health.record(seen, self._clock.monotonic(), self._rounds[kind])
        after = watched.health.level
        return Change(kind, name, watched.source, before, after, seen) if _essence(before) != _essence(after) else None

    def end_round(self, kind: Kind, *, discovered: bool) -> None:
        """A round of looks of `kind` has ended; `discovered` if it could be told what there is to look at."""
        self._rounds[kind] += 1
        self._discoveries[kind] += discovered

    def wants_second_look(self, kind: Kind, name: str) -> bool:
        """Whether `name` should be looked at again before its next turn."""
        watched = self._sources[kind].get(name)
        return watched is not None and watched.health.wants_second_look

    def suspects(self, kind: Kind) -> frozenset[str]:
        """Sources that are bad or may be about to be: they are looked at in every round."""
        return frozenset(name for name, one in self._sources[kind].items() if _suspect(one.health))

    def evaluate(self) -> bool:
        """Work out all statuses anew; whether a key, a bad volume, a state or a reason has changed."""
        groups = self._groups()
        levels: dict[StorageKey, Level | None] = {}
        behind: dict[str, list[Level]] = defaultdict(list)
        for key in sorted(key for key in {*groups, *self._inherited} if key.backend):
            own = groups.get(key, {})
            level = levels[key] = self._settle(key, own, fresh_backend(own, self._stale(own)))
            if level is not None:
                behind[key.driver].append(level)
        mounted = {one.source.key.driver for one in self._sources.get(Kind.MOUNT, {}).values()}
        for driver in self._drivers(groups, behind):
            own = groups.get(StorageKey(driver), {})
            fresh = fresh_driver(
                driver,
                own,
                self._stale(own),
                behind.get(driver, []),
                mounted=driver in mounted,
                looked_for=self._looked_for(driver),
            )
            levels[StorageKey(driver)] = self._settle(StorageKey(driver), own, fresh)
        return self._publish(levels)

    def _publish(self, levels: Mapping[StorageKey, Level | None]) -> bool:
        before = {key: (status.state, status.reason) for key, status in self._statuses.items()}
        now = self._clock.monotonic()
        self._statuses = {
            key: self._status(key, self._damper.level(key, level, now))
            for key, level in levels.items()
            if level is not None
        }
        self._damper.keep(set(self._statuses))
        volumes_changed = self._volumes.evaluate(self._sources, self._discoveries.get(Kind.MOUNT, 0) >= VERIFY_ROUNDS)
        after = {key: (status.state, status.reason) for key, status in self._statuses.items()}
        return before != after or volumes_changed

    def _groups(self) -> dict[StorageKey, Group]:
        groups: dict[StorageKey, dict[Kind, dict[str, Watched]]] = defaultdict(lambda: defaultdict(dict))
        for kind, sources in self._sources.items():
            for name, one in sorted(sources.items()):
                groups[one.source.key][kind][name] = one
        return dict(groups)

    def _drivers(self, groups: Iterable[StorageKey], behind: Iterable[str]) -> set[str]:
        in_tree = {driver for driver in behind if driver.startswith(IN_TREE)}
        return in_tree | {key.driver for key in [*groups, *self._inherited] if not key.backend}

    def _stale(self, own: Group) -> frozenset[Kind]:
        """Kinds of which no source has had a look for too long."""
        return frozenset(
            kind
            for kind, sources in own.items()
            if self._rounds[kind] - max(one.health.last_round for one in sources.values()) > STALE_ROUNDS
        )

    def _settle(self, key: StorageKey, own: Group, fresh: Level | None) -> Level | None:
        """`fresh` together with what was inherited; None if there is no reason to list the key."""
        old = self._inherited.get(key)
        if old is not None and self._verified(key, own, old.reason):
            del self._inherited[key]
            old = None
        if old is not None and old.state is State.HEALTHY and self._least(self._rounds, key, None) >= STALE_ROUNDS:
            old = None  # good news that nobody has confirmed since
        undecided = Level(State.UNKNOWN, Reason.NOT_OBSERVED, "no probe has decided yet")
        return worst([old, fresh]) or (undecided if self._had_a_chance(own) else None)

    def _had_a_chance(self, own: Group) -> bool:
        """Whether any source has been looked at, or should have been; before that a key is not worth a report."""
        return any(
            one.health.attempted or self._rounds[kind] > one.health.first_round
            for kind, sources in own.items()
            if kind in PRIMARY
            for one in sources.values()
        )

    def _verified(self, key: StorageKey, own: Group, reason: Reason | None) -> bool:
        """Whether what an earlier run knew of a key has been looked into again."""
        if not own:
            return self._least(self._discoveries, key, reason) >= VERIFY_ROUNDS
        needed = kinds_behind(key, reason)
        if needed.isdisjoint(own):
            needed |= PRIMARY  # then whoever else speaks for it must have decided
        # A probe that has not found out what there is may yet find the very source that was bad.
        blind = any(self._discoveries.get(kind) == 0 for kind in needed)
        return not blind and all(self._group_verified(kind, sources) for kind, sources in own.items() if kind in needed)

    def _group_verified(self, kind: Kind, sources: Mapping[str, Watched]) -> bool:
        undecided = [one.health for one in sources.values() if one.health.level is None]
        if len(undecided) == len(sources):
            return False
        # Mounts take turns, so some may not have been looked at in two rounds; those have no say.
        return not any(health.attempted or self._discoveries[kind] < VERIFY_ROUNDS for health in undecided)

    @staticmethod
    def _least(counts: Mapping[Kind, int], key: StorageKey, reason: Reason | None) -> int:
        """The least count of the probes that could speak for `key`, or tell others what to look at."""
        needed = PRIMARY | kinds_behind(key, reason)
        return min((count for kind, count in counts.items() if kind in needed), default=VERIFY_ROUNDS)

    def _was_down(self, key: StorageKey, kind: Kind) -> bool:
        """Whether an earlier run found `key` down by what `kind` looks at: its grace is over."""
        old = self._inherited.get(key)
        return old is not None and old.state is State.UNHEALTHY and kind in kinds_behind(key, old.reason)

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


def _same(known: Source, source: Source) -> bool:
    """Whether it is what was looked at before: the kernel gives the number of an unmounted filesystem to the next."""
    moved = known.place != source.place and bool(known.volumes) and not set(known.volumes) & set(source.volumes)
    return known.key == source.key and not moved


def _essence(level: Level | None) -> tuple[State, Reason | None] | None:
    return None if level is None else (level.state, level.reason)


def _suspect(health: SourceHealth) -> bool:
    return health.failing or (health.level is not None and health.level.state is not State.HEALTHY)


def _evidence_when_well(key: StorageKey) -> Evidence:
    return Evidence.DATA_PATH if key.backend else Evidence.CONTROL_PLANE
