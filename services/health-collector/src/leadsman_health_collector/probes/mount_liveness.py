"""Does a mounted volume still answer? statvfs and stat in killable workers, one per superblock."""

import errno
import os
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.mountinfo import read_mounts
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.volumes import VolumeMap, VolumeMount
from leadsman_health_collector.workers import Finished, Overdue, Refused, WorkerPool

MAX_PER_KEY = 8
"""Superblocks of one (driver, backend) that are looked at in one round; more of them take turns."""

_REASONS = {
    errno.ESTALE: Reason.STALE_FILE_HANDLE,
    errno.ENOTCONN: Reason.MOUNT_DISCONNECTED,
    errno.ECONNABORTED: Reason.MOUNT_DISCONNECTED,
    errno.EACCES: Reason.ACCESS_REVOKED,
    errno.EPERM: Reason.ACCESS_REVOKED,
}

_OWN_DEVICE_NUMBERS = frozenset({"btrfs", "bcachefs"})
"""Filesystems whose stat tells a device of a subvolume, not the one that mountinfo shows."""


class MountLivenessProbe:
    """Looks at the volumes that `mountinfo` lists below the kubelet's directory; never touches them itself."""

    kind = Kind.MOUNT

    def __init__(self, mountinfo: Path, volumes: VolumeMap, workers: WorkerPool, deadline_s: float) -> None:
        self._mountinfo = mountinfo
        self._volumes = volumes
        self._workers = workers
        self._deadline_s = deadline_s
        self._mounts: dict[str, VolumeMount] = {}
        self._turn = 0

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: superblocks as `major:minor`."""
        self._mounts = self._volumes.superblocks(read_mounts(self._mountinfo))
        self._workers.keep(self._mounts)
        return self._mounts.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: suspects first, the others in turns, at most MAX_PER_KEY per (driver, backend)."""
        self._turn += 1
        by_key: dict[StorageKey, list[str]] = defaultdict(list)
        for device, mount in self._mounts.items():
            by_key[mount.key].append(device)
        return [device for devices in by_key.values() for device in _in_turn(sorted(devices), suspects, self._turn)]

    def keys(self) -> Mapping[str, StorageKey]:
        """See `Probe.keys`."""
        return {device: mount.key for device, mount in self._mounts.items()}

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        mount = self._mounts.get(name)
        if mount is None:
            return not_run("it has been unmounted")
        match await self._workers.look(name, mount.path, self._deadline_s):
            case Overdue(seconds):
                return Observation(Outcome.TIMEOUT, Reason.MOUNT_HUNG, f"no answer for {seconds:.0f} s")
            case Refused(why):
                return not_run(why)
            case Finished(answer):
                return read_answer(answer, mount)


def read_answer(answer: str, mount: VolumeMount) -> Observation:
    """What the worker's line says about `mount`."""
    match answer.split():
        case ["ok", device, seconds]:
            if device != mount.device and mount.fstype not in _OWN_DEVICE_NUMBERS:
                return not_run("something else is mounted there now")
            return Observation(Outcome.GOOD, latency_s=float(seconds))
        case ["error", number, call]:
            return _failed(int(number), call)
        case _:
            return not_run("the mount worker ended without an answer")


def _failed(number: int, call: str) -> Observation:
    if number in {errno.ENOENT, errno.ENOTDIR}:  # the path has gone, which is no word on the filesystem
        return not_run("it has been unmounted")
    reason = _REASONS.get(number, Reason.MOUNT_IO_ERROR)
    return Observation(Outcome.ERROR, reason, f"{call}: {os.strerror(number)}")


def _in_turn(devices: list[str], suspects: Collection[str], turn: int) -> list[str]:
    first = [device for device in devices if device in suspects]
    others = [device for device in devices if device not in suspects]
    places = max(0, MAX_PER_KEY - len(first))
    start = (turn * places) % len(others) if others else 0
    return first[:MAX_PER_KEY] + (others[start:] + others[:start])[:places]
