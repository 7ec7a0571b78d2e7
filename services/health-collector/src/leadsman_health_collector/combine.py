"""From the levels of single sources to the state of a backend and of a driver (facts: storage-health 4). Pure.

In every function None stands for "nothing decided yet".
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leadsman.domain.reasons import Reason
from leadsman.domain.states import State, severity
from leadsman_health_collector.strikes import Level

IN_TREE = "kubernetes.io/"
"""Prefix of drivers that are built into the kubelet and have no plugin, such as `kubernetes.io/nfs`."""

HEALTHY = Level(State.HEALTHY)


def worst(levels: Iterable[Level | None]) -> Level | None:
    """The worst of independent levels; the last one among equals."""
    found: Level | None = None
    for level in levels:
        if level is not None and (found is None or severity(level.state) >= severity(found.state)):
            found = level
    return found


def at_most_degraded(level: Level | None) -> Level | None:
    """`level` of a source that alone proves nothing."""
    if level is None or level.state is not State.UNHEALTHY:
        return level
    return replace(level, state=State.DEGRADED)


def of_plugin(sockets: Sequence[Level | None]) -> Level | None:
    """Level of a driver's plugin: its best socket, because an upgrade may leave a dead one in the old place."""
    decided = [level for level in sockets if level is not None]
    here = [level for level in decided if level.state is not State.NOT_APPLICABLE] or decided
    return min(here, key=lambda level: severity(level.state), default=None)


def of_endpoints(addresses: Sequence[Level | None], *, quorum: bool = False) -> Level | None:
    """Level of a backend by its addresses: UNHEALTHY if all are down, or with `quorum` if no majority is up.

    DEGRADED if some are down or slow.
    """
    decided = [level for level in addresses if level is not None]
    down = [level for level in decided if level.state is State.UNHEALTHY]
    if not decided:
        return None
    if not down:
        slow = [level for level in decided if level.state is State.DEGRADED]
        return slow[0] if slow else Level(State.HEALTHY, latency_s=_slowest(decided))
    if len(down) == len(addresses) or (quorum and 2 * len(down) >= len(addresses)):
        return _commonest(down)
    return Level(
        State.DEGRADED, Reason.PATHS_DEGRADED, f"{len(down)} of {len(addresses)} addresses down: {down[0].message}"
    )


def of_superblock(liveness: Level | None, others: Iterable[Level | None]) -> Level | None:
    """Level of one mounted filesystem: whether it answers, and what free space, flags and paths say, in this order.

    That nothing is wrong with its flags does not make a filesystem healthy that has not been looked at.
    """
    bad = [level for level in others if level is not None and level.state is not State.HEALTHY]
    return worst([liveness, *bad])


@dataclass(frozen=True, slots=True)
class Superblock:
    """One mounted filesystem of a key.

    `shared` if a new mount of the same backend would join it, as with an NFS export; not so a filesystem on a block
    device, or one whose backend is unknown.
    """

    level: Level | None
    shared: bool


def of_mounts(mounts: Sequence[Superblock]) -> Level | None:
    """Level of a key by its mounts.

    One bad mount does not condemn a backend, because new mounts usually work; a hung one does if it is shared. Where
    mounts have nothing to do with one another, only all of several is a verdict. A full filesystem that is not shared
    is its volume's own matter.
    """
    judged = [one for one in map(_without_own_matters, mounts) if one.level is not None]
    levels = [one.level for one in judged if one.level is not None]
    if not levels:
        return None
    bad = [level for level in levels if level.state is State.UNHEALTHY]
    if not bad:
        impaired = [level for level in levels if level.state is not State.HEALTHY]
        return _counted(impaired, len(mounts)) if impaired else Level(State.HEALTHY, latency_s=_slowest(levels))
    hung = [level for level in bad if level.reason is Reason.MOUNT_HUNG]
    joined = any(one.shared and one.level and one.level.reason is Reason.MOUNT_HUNG for one in judged)
    all_bad = len(bad) == len(mounts) and len(bad) > 1
    state = State.UNHEALTHY if all_bad or joined else State.DEGRADED
    return replace(_counted(hung or bad, len(mounts), len(bad)), state=state, latency_s=None)


def of_volumes(volumes: Sequence[Level | None]) -> Level | None:
    """Level of a key by what its driver says of single volumes: never worse than DEGRADED, and good news are none."""
    bad = [level for level in volumes if level is not None and level.state is not State.HEALTHY]
    return at_most_degraded(_counted(bad, len(volumes), what="volumes")) if bad else None


def of_backend(
    endpoints: Level | None, mounts: Level | None, others: Iterable[Level | None], *, mounts_work: bool = False
) -> Level | None:
    """Level of a backend: the worst of its addresses, its mounts and all else.

    Failing name resolution alone does not make a backend UNHEALTHY of which a mount, which knows the address, works.
    """
    if endpoints and endpoints.reason is Reason.NAME_RESOLUTION_FAILED and mounts_work:
        endpoints = at_most_degraded(endpoints)
    return worst([*others, mounts, endpoints])


@dataclass(frozen=True, slots=True)
class DriverEvidence:
    """What is known of a driver on this node beside its backends.

    `mounted` if volumes of it are; `looked_for` unless its plugin is not to be looked at.
    """

    plugin: Level | None = None
    registration: Level | None = None
    mounts: Level | None = None
    others: tuple[Level | None, ...] = ()
    mounted: bool = False
    looked_for: bool = True


def of_driver(driver: str, seen: DriverEvidence, backends: Sequence[Level]) -> Level | None:
    """Level of a driver on this node, from its plugin, its registration, its mounts, and the backends behind it.

    Broken backends make the driver DEGRADED, never UNHEALTHY: the others may work. A plugin that seems uninstalled
    while volumes are mounted is missing, not gone. An in-tree driver is what its backends are.
    """
    plugin = seen.plugin
    if plugin is None and driver.startswith(IN_TREE) and any(level.state is not State.UNKNOWN for level in backends):
        plugin = HEALTHY
    plugin = _missing_if(plugin, mounted=seen.mounted)
    if plugin and plugin.state is State.NOT_APPLICABLE:
        return plugin
    registration = _missing_if(seen.registration, mounted=seen.mounted)
    if plugin is None and seen.looked_for and registration and registration.state is State.HEALTHY:
        registration = Level(State.UNKNOWN, Reason.NOT_OBSERVED, "registered, but no socket of it is found here")
    elif plugin and registration and registration.state is State.NOT_APPLICABLE:
        registration = None  # its plugin is here: the plugin's own state says more
    broken = [level for level in backends if level.state is State.UNHEALTHY]
    degraded = None
    if plugin and broken:
        words = f"{len(broken)} of {len(backends)} backends unhealthy: {broken[0].message}"
        degraded = Level(State.DEGRADED, broken[0].reason, words)
    return worst([*seen.others, seen.mounts, degraded, registration, plugin])


def _missing_if(level: Level | None, *, mounted: bool) -> Level | None:
    if level and level.state is State.NOT_APPLICABLE and mounted:
        return replace(level, state=State.UNHEALTHY)
    return level


def _without_own_matters(one: Superblock) -> Superblock:
    if not one.shared and one.level and one.level.reason is Reason.CAPACITY_LOW:
        return replace(one, level=replace(one.level, state=State.HEALTHY, reason=None))
    return one


def _counted(levels: Sequence[Level], of: int, number: int | None = None, *, what: str = "mounts") -> Level:
    leading = _commonest(levels)
    return replace(leading, message=f"{number or len(levels)} of {of} {what} bad: {leading.message}")


def _commonest(levels: Sequence[Level]) -> Level:
    counts = Counter(str(level.reason) for level in levels)
    return min(levels, key=lambda level: (-counts[str(level.reason)], str(level.reason)))


def _slowest(levels: Sequence[Level]) -> float | None:
    return max((level.latency_s for level in levels if level.latency_s is not None), default=None)
