"""Single volumes that are not well although their backend may be (facts: storage-health 4)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import VolumeStatus
from leadsman.domain.states import State, severity
from leadsman_health_collector.evidence import ON_SUPERBLOCK, TOLD_BY, is_shared
from leadsman_health_collector.observation import Kind
from leadsman_health_collector.strikes import Level
from leadsman_health_collector.watched import Watched

_KINDS = (Kind.MOUNT, *ON_SUPERBLOCK, Kind.VOLUME_HEALTH)

_OF_ONE_PATH = frozenset({Reason.STALE_FILE_HANDLE, Reason.ACCESS_REVOKED})

Sources = Mapping[Kind, Mapping[str, Watched]]
Volume = tuple[str, str]
"""Driver and PersistentVolume."""


class BadVolumes:
    """Keeps the list; `inherited` is that of an earlier run, which stands until it has been looked into again."""

    def __init__(self, clock: Clock, inherited: Iterable[VolumeStatus]) -> None:
        self._clock = clock
        self._found: dict[Volume, VolumeStatus] = {(one.driver, one.volume): one for one in inherited}
        self._inherited = dict(self._found)

    @property
    def statuses(self) -> tuple[VolumeStatus, ...]:
        """The worst first, then by driver and volume."""
        return tuple(sorted(self._found.values(), key=lambda one: (-severity(one.state), one.driver, one.volume)))

    def evaluate(self, sources: Sources, discovered: bool) -> bool:  # noqa: FBT001 - one caller, one meaning
        """Work out the list anew; whether a volume, its state or reason has changed.

        `discovered` tells that the mounts there are have been found often enough: a volume of an earlier run that is
        not among them is gone.
        """
        before = {volume: (one.state, one.reason) for volume, one in self._found.items()}
        fresh: dict[Volume, Level] = {}
        looked: dict[Volume, dict[Kind, bool]] = defaultdict(dict)
        for kind, volume, level in _by_volume(sources):
            looked[volume][kind] = level is not None and looked[volume].get(kind, True)
            worse = State.UNKNOWN if volume not in fresh else fresh[volume].state
            if level is not None and severity(level.state) > severity(worse):
                fresh[volume] = level
        self._inherited = {
            volume: one
            for volume, one in self._inherited.items()
            if (_pending(one, looked[volume]) if volume in looked else not discovered)
        }
        found = {volume: self._status(volume, level) for volume, level in fresh.items()}
        self._found = {**self._inherited, **found}
        return before != {volume: (one.state, one.reason) for volume, one in self._found.items()}

    def _status(self, volume: Volume, level: Level) -> VolumeStatus:
        reason = level.reason or Reason.UNRECOGNISED
        before = self._found.get(volume)
        same = before is not None and (before.state, before.reason) == (level.state, reason)
        since = before.since_epoch_s if before and same else self._clock.epoch()
        return VolumeStatus(*volume, level.state, reason, level.message, since)


def _pending(one: VolumeStatus, looked: Mapping[Kind, bool]) -> bool:
    """Whether a probe that could have found what an earlier run knew has yet to decide."""
    needed = {Kind.MOUNT} | TOLD_BY.get(one.reason, frozenset())
    return any(not decided for kind, decided in looked.items() if kind in needed)


def _by_volume(sources: Sources) -> Iterator[tuple[Kind, Volume, Level | None]]:
    """Every volume with each level that speaks of it alone."""
    for kind in _KINDS:
        for name, one in sources.get(kind, {}).items():
            level = one.health.level
            if level is not None and is_shared(name) and _is_of_backend(level, one):
                level = Level(State.HEALTHY)
            for volume in one.source.volumes:
                yield kind, (one.source.key.driver, volume), level


def _is_of_backend(level: Level, one: Watched) -> bool:
    """Whether what is said of a share is not to be said of each volume on it.

    That it is slow, full, or hangs is the backend's matter. A directory that was removed, or is denied, is that of one
    volume, and of several on one share (the NFS client has one superblock for an export) it is not known whose.
    """
    if level.state is State.DEGRADED or (level.reason is Reason.MOUNT_HUNG and bool(one.source.key.backend)):
        return True
    return level.reason in _OF_ONE_PATH and len(one.source.volumes) > 1
