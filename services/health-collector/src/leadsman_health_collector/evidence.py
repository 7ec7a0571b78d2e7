"""Which probes speak for a key, and how their sources are put together. Pure."""

from collections.abc import Collection, Mapping, Sequence

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.combine import (
    DriverEvidence,
    Superblock,
    at_most_degraded,
    of_backend,
    of_driver,
    of_endpoints,
    of_mounts,
    of_plugin,
    of_superblock,
    of_volumes,
    worst,
)
from leadsman_health_collector.observation import Kind
from leadsman_health_collector.strikes import Level
from leadsman_health_collector.watched import Watched

Group = Mapping[Kind, Mapping[str, Watched]]
"""The sources of one key, by probe and name."""

PRIMARY = frozenset({Kind.PLUGIN, Kind.REGISTRATION, Kind.TCP, Kind.PROTOCOL, Kind.MOUNT})
"""Probes that alone can tell that something works. The others find single faults: their silence is no news."""

ON_SUPERBLOCK = (Kind.CAPACITY, Kind.FLAGS, Kind.PATHS)
"""Probes whose sources are named by superblock as those of `mount_liveness` are; of equals the last one is told."""

_NOT_OBSERVED = "the {} probe has not run for too long"

TOLD_BY: Mapping[Reason, frozenset[Kind]] = {
    Reason.DRIVER_NOT_REGISTERED: frozenset({Kind.REGISTRATION}),
    Reason.READ_ONLY_FILESYSTEM: frozenset({Kind.FLAGS, Kind.CANARY}),
    Reason.FILESYSTEM_ERRORS: frozenset({Kind.FLAGS}),
    Reason.MOUNT_IO_ERROR: frozenset({Kind.FLAGS, Kind.CANARY}),
    Reason.MOUNT_HUNG: frozenset({Kind.CANARY}),
    Reason.PATHS_DEGRADED: frozenset({Kind.PATHS}),
    Reason.ALL_PATHS_DOWN: frozenset({Kind.PATHS}),
    Reason.STORAGE_UNREACHABLE: frozenset({Kind.STORAGE_HEALTH}),
    Reason.STORAGE_DEGRADED: frozenset({Kind.STORAGE_HEALTH, Kind.VOLUME_HEALTH}),
    Reason.VOLUME_UNHEALTHY: frozenset({Kind.VOLUME_HEALTH}),
    Reason.CAPACITY_LOW: frozenset({Kind.CAPACITY, Kind.CANARY}),
    Reason.NAME_RESOLUTION_FAILED: frozenset({Kind.NAME}),
    Reason.IO_PRESSURE: frozenset({Kind.PRESSURE}),
    Reason.KERNEL_SUPPORT_MISSING: frozenset({Kind.KERNEL}),
}
"""Which probes beside the primary ones can find this."""


def kinds_behind(key: StorageKey, reason: Reason | None) -> frozenset[Kind]:
    """The probes that must have decided before an earlier finding about `key` with `reason` can be given up."""
    own = {Kind.TCP, Kind.PROTOCOL, Kind.MOUNT} if key.backend else {Kind.PLUGIN, Kind.MOUNT}
    return frozenset(own) | (TOLD_BY.get(reason, frozenset()) if reason else frozenset())


def fresh_backend(own: Group, stale: Collection[Kind]) -> Level | None:
    """Level of a backend by its sources; good evidence of `stale` probes no longer counts as good."""
    mounts = _mounts(own, stale, backend_known=True)
    endpoints = _endpoints(own, stale)
    works = Kind.MOUNT not in stale and any(map(_works, _levels(own, Kind.MOUNT)))
    if works and _may_have_moved(own):
        endpoints = at_most_degraded(endpoints)
    return of_backend(endpoints, mounts, _others(own, stale), mounts_work=works)


def fresh_driver(
    driver: str,
    own: Group,
    stale: Collection[Kind],
    backends: Sequence[Level],
    *,
    mounted: bool,
    looked_for: bool = True,
) -> Level | None:
    """Level of a driver by its sources and its `backends`; see `DriverEvidence` for the rest."""
    seen = DriverEvidence(
        plugin=_current(of_plugin(_levels(own, Kind.PLUGIN)), Kind.PLUGIN, stale),
        registration=_current(of_plugin(_levels(own, Kind.REGISTRATION)), Kind.REGISTRATION, stale),
        mounts=_mounts(own, stale, backend_known=False),
        others=_others(own, stale),
        mounted=mounted,
        looked_for=looked_for,
    )
    return of_driver(driver, seen, backends)


def is_shared(device: str) -> bool:
    """Whether superblock `device` (`major:minor`) has no block device of its own, as those of network filesystems."""
    return device.startswith("0:")


def superblock_level(own: Group, device: str) -> Level | None:
    """What all probes together say of one superblock."""
    seen = {
        kind: own[kind][device].health.level for kind in (Kind.MOUNT, *ON_SUPERBLOCK) if device in own.get(kind, ())
    }
    return of_superblock(seen.pop(Kind.MOUNT, None), seen.values())


def _endpoints(own: Group, stale: Collection[Kind]) -> Level | None:
    sources = [*own.get(Kind.TCP, {}).values(), *own.get(Kind.PROTOCOL, {}).values()]
    quorum = any(one.source.quorum for one in sources)
    level = of_endpoints([one.health.level for one in sources], quorum=quorum)
    kind = Kind.PROTOCOL if own.get(Kind.PROTOCOL) else Kind.TCP
    return _current(level, kind, stale)


def _may_have_moved(own: Group) -> bool:
    """Whether all addresses are monitors as old mounts name them: operators replace those, and mounts follow."""
    sources = [one.source for kind in (Kind.TCP, Kind.PROTOCOL) for one in own.get(kind, {}).values()]
    return all(source.quorum and source.from_mount for source in sources)


def _mounts(own: Group, stale: Collection[Kind], *, backend_known: bool) -> Level | None:
    devices = sorted({device for kind in (Kind.MOUNT, *ON_SUPERBLOCK) for device in own.get(kind, ())})
    mounts = [
        Superblock(superblock_level(own, device), shared=backend_known and is_shared(device)) for device in devices
    ]
    return _current(of_mounts(mounts), Kind.MOUNT, stale)


def _others(own: Group, stale: Collection[Kind]) -> tuple[Level | None, ...]:
    """Sources that find single faults; while they are well or have not looked for long they say nothing."""
    direct = [
        level
        for kind in (Kind.STORAGE_HEALTH, Kind.CANARY, Kind.KERNEL, Kind.PRESSURE)
        if kind not in stale or kind is not Kind.PRESSURE
        for level in _levels(own, kind)
    ]
    names = at_most_degraded(worst(_levels(own, Kind.NAME)))
    found = [*direct, names, of_volumes(_levels(own, Kind.VOLUME_HEALTH))]
    return tuple(level for level in found if level is not None and level.state is not State.HEALTHY)


def _works(level: Level | None) -> bool:
    return level is not None and level.state in {State.HEALTHY, State.DEGRADED}


def _levels(own: Group, kind: Kind) -> list[Level | None]:
    return [one.health.level for one in own.get(kind, {}).values()]


def _current(level: Level | None, kind: Kind, stale: Collection[Kind]) -> Level | None:
    """`level`, unless it is good and rests on looks that have not been had for too long."""
    if level is None or level.state is not State.HEALTHY or kind not in stale:
        return level
    return Level(State.UNKNOWN, Reason.NOT_OBSERVED, _NOT_OBSERVED.format(kind.value))
