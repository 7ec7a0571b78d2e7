"""From the levels of single sources to the state of a backend and of a driver (facts: storage-health 4). Pure.

In every function None stands for "nothing decided yet".
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from leadsman.domain.reasons import Reason
from leadsman.domain.states import State, severity
from leadsman_health_collector.strikes import Level

IN_TREE = "kubernetes.io/"
"""Prefix of drivers that are built into the kubelet and have no plugin, such as `kubernetes.io/nfs`."""


def worst(levels: Iterable[Level | None]) -> Level | None:
    """The worst of independent levels; the last one among equals."""
    found: Level | None = None
    for level in levels:
        if level is not None and (found is None or severity(level.state) >= severity(found.state)):
            found = level
    return found


def of_plugin(sockets: Sequence[Level | None]) -> Level | None:
    """Level of a driver's plugin: its best socket, because an upgrade may leave a dead one in the old place."""
    decided = [level for level in sockets if level is not None]
    here = [level for level in decided if level.state is not State.NOT_APPLICABLE] or decided
    return min(here, key=lambda level: severity(level.state), default=None)


def of_endpoints(addresses: Sequence[Level | None]) -> Level | None:
    """Level of a backend by its addresses: UNHEALTHY if all are down, DEGRADED if some are."""
    decided = [level for level in addresses if level is not None]
    down = [level for level in decided if level.state is State.UNHEALTHY]
    if not decided:
        return None
    if not down:
        return Level(State.HEALTHY, latency_s=_slowest(decided))
    if len(down) == len(addresses):
        return _commonest(down)
    return Level(
        State.DEGRADED, Reason.PATHS_DEGRADED, f"{len(down)} of {len(addresses)} addresses down: {down[0].message}"
    )


def of_mounts(mounts: Sequence[Level | None], *, shared: bool) -> Level | None:
    """Level of a backend by its mounts.

    One bad mount does not condemn a backend, because new mounts usually work; a hung one does if mounts are `shared`:
    a new mount of the same backend joins the hung superblock. Where the backend is unknown (`shared` False) mounts
    may have nothing to do with one another, and only all of them hung is a verdict.
    """
    decided = [level for level in mounts if level is not None]
    if not decided:
        return None
    bad = [level for level in decided if level.state is State.UNHEALTHY]
    if not bad:
        return Level(State.HEALTHY, latency_s=_slowest(decided))
    hung = [level for level in bad if level.reason is Reason.MOUNT_HUNG]
    count = f"{len(bad)} of {len(mounts)} mounts bad: "
    leading = hung[0] if hung else _commonest(bad)
    all_bad = len(bad) == len(mounts) and (len(bad) > 1 or bool(hung))
    state = State.UNHEALTHY if all_bad or (hung and shared) else State.DEGRADED
    return Level(state, leading.reason, count + leading.message)


def of_backend(endpoints: Level | None, mounts: Level | None) -> Level | None:
    """Level of a backend: the worse of its addresses and its mounts.

    Failing name resolution alone does not make a backend UNHEALTHY whose mounts, which know the address, work.
    """
    mounts_work = mounts is not None and mounts.state is State.HEALTHY
    if endpoints and endpoints.reason is Reason.NAME_RESOLUTION_FAILED and mounts_work:
        endpoints = Level(State.DEGRADED, endpoints.reason, endpoints.message)
    return worst([mounts, endpoints])


def of_driver(
    driver: str, plugin: Level | None, mounts: Level | None, backends: Sequence[Level], *, mounted: bool
) -> Level | None:
    """Level of a driver on this node, from its plugin, its mounts of unknown backends, and the backends behind it.

    Broken backends make the driver DEGRADED, never UNHEALTHY: the others may work. A plugin that seems uninstalled
    while volumes are `mounted` is missing, not gone. An in-tree driver is what its backends are.
    """
    if plugin is None and driver.startswith(IN_TREE) and any(level.state is not State.UNKNOWN for level in backends):
        plugin = Level(State.HEALTHY)
    if plugin and plugin.state is State.NOT_APPLICABLE and mounted:
        plugin = Level(State.UNHEALTHY, plugin.reason, plugin.message)
    if plugin and plugin.state is State.NOT_APPLICABLE:
        return plugin
    broken = [level for level in backends if level.state is State.UNHEALTHY]
    degraded = None
    if plugin and broken:
        words = f"{len(broken)} of {len(backends)} backends unhealthy: {broken[0].message}"
        degraded = Level(State.DEGRADED, broken[0].reason, words)
    return worst([mounts, degraded, plugin])


def _commonest(levels: Sequence[Level]) -> Level:
    counts = Counter(str(level.reason) for level in levels)
    return min(levels, key=lambda level: (-counts[str(level.reason)], str(level.reason)))


def _slowest(levels: Sequence[Level]) -> float | None:
    return max((level.latency_s for level in levels if level.latency_s is not None), default=None)
