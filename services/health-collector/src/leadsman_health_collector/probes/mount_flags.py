"""Has the kernel turned a mounted filesystem read-only, shut it down, or counted errors in it?

Source: the options of mountinfo (scanned, because poll() on it does not wake for `emergency_ro`: facts 0.5), and the
error counter of ext4 in `/sys/fs/ext4/<device>`.
Period: the collector's. Deadline: none, both answer from memory.
Thresholds: down or impaired after 2 looks, up after 2, with a second look.
Evidence: data path.

What is bad:

* `emergency_ro` or `shutdown` among the superblock's options: the kernel has given up writing to it. Reads go on, so
  statfs and stat see nothing; creating a file fails with EROFS or EIO.
* The superblock was `rw` when we saw it before and is `ro` now, while a mount point of it still says `rw`: who writes
  there gets EROFS (older kernels show an error so, without `emergency_ro`). If we never saw it `rw`, the same, but only
  if no mount point at all says `ro`: so a restart of the collector does not make it well.
* It was `rw` before, and it and all its mount points are `ro`: somebody remounted it, so it is IMPAIRED only.
* Not bad: a volume that is staged with `-o ro`, although the bind mount of it for a pod may say `rw`; a read-only bind
  mount of a writable filesystem, which has `ro` only at the mount point; a filesystem that cannot be written at all.
* The kubelet's staging mount is `ro` while a pod's mount of it is `rw`: the next pod would get it read-only. IMPAIRED.
* ext4 has counted an error within `RECENT_S`, also while it says `rw` (a backing store that was exhausted, facts 0.4).
  The count falls only by fsck, and a condition that never clears is of no use: so it is the age of the last error that
  counts. It is an error while recent, IMPAIRED for a day (the kernel reminds of it once a day, too), and then only
  words. The age is the kernel's own note on the disk, hence the same after a restart of the collector. With a clock
  that jumped, the rise that we saw ourselves counts as recent; a note from the future is IMPAIRED, until the clock has
  gone a day beyond it or fsck has cleared it.

What it cannot tell: XFS keeps a shutdown to itself (mount_liveness meets EIO); btrfs has counters but no time beside
them, and turns `ro` when it matters; whether a single file is corrupt; a pod volume that
is read-only by intent but mounted otherwise.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.superblock_memory import SuperblockMemory
from leadsman_health_collector.sysfs.block import BlockDevices
from leadsman_health_collector.sysfs.ext4_errors import Ext4Errors, read_ext4_errors
from leadsman_health_collector.volumes import VolumeMount

RECENT_S = 600.0
"""So long after its last error a filesystem counts as failing."""

REMEMBERED_S = 86_400.0
"""So long after its last error a filesystem counts as impaired."""

_ALWAYS_READ_ONLY = frozenset({"squashfs", "erofs", "iso9660", "cramfs", "romfs"})
"""Filesystems that cannot be written at all, whatever their mount points say."""

_ACCESS = frozenset({"ro", "rw"})
_STAGED = "/globalmount"
"""Part of the path of a staging mount; some drivers mount one level below it."""

_GOOD = Observation(Outcome.GOOD)


@dataclass(slots=True)
class _Seen:
    """Of one superblock: its block device, whether it was ever writable, its error count, and when we saw that rise."""

    device_name: str | None = None
    writable: bool = False
    errors: int | None = None
    rose_at: float = float("-inf")


class MountFlagsProbe:
    """Looks at the options of the volumes of `table`, and at ext4's error counters below `sys`, the root of sysfs."""

    kind = Kind.FLAGS
    schedule = Schedule()

    def __init__(self, table: MountTable, sys: Path, clock: Clock) -> None:
        self._table = table
        self._sys = sys
        self._blocks = BlockDevices(sys)
        self._clock = clock
        self._sources: dict[str, Source] = {}
        self._seen = SuperblockMemory(_Seen)

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: superblocks as `major:minor`."""
        mounts = self._table.current()
        self._seen.keep(mounts)
        self._sources = {device: Source(mount.key, mount.volumes, mount.path) for device, mount in mounts.items()}
        return self._sources.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:  # noqa: ARG002 - all, they cost little
        """See `Probe.choose`: all of them."""
        return self._sources.keys()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return self._sources

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        try:
            mount = self._table.current().get(name)
        except OSError as error:
            return not_run(f"the list of mounts cannot be read: {error}")
        if mount is None:
            return not_run("it has been unmounted")
        if not mount.mounts or _ACCESS.isdisjoint(mount.mounts[0].super_options):
            return not_run("the kernel does not say whether it is writable")
        seen = self._seen.of(mount)
        seen.writable = seen.writable or "rw" in mount.mounts[0].super_options
        return judge_options(mount, was_writable=seen.writable) or self._judge_errors(mount, seen)

    def _judge_errors(self, mount: VolumeMount, seen: _Seen) -> Observation:
        try:
            errors = self._ext4_errors(mount, seen)
        except (OSError, ValueError) as error:
            return not_run(f"the filesystem's error counter cannot be read: {error}")
        if errors is None:
            return _GOOD
        if seen.errors is not None and errors.count > seen.errors:
            seen.rose_at = self._clock.monotonic()
        seen.errors = errors.count
        since_rise = self._clock.monotonic() - seen.rose_at
        return judge_errors(errors, self._clock.epoch() - errors.last_epoch_s, since_rise)

    def _ext4_errors(self, mount: VolumeMount, seen: _Seen) -> Ext4Errors | None:
        if not mount.fstype.startswith("ext"):
            return None
        # Remembered, because the counter outlives a device that is removed under its filesystem.
        seen.device_name = seen.device_name or self._blocks.name(mount.device)
        return read_ext4_errors(self._sys, seen.device_name) if seen.device_name else None


def judge_options(mount: VolumeMount, *, was_writable: bool) -> Observation | None:
    """What is wrong with the options of `mount` and its superblock, which `was_writable` before; None if nothing is."""
    superblock = mount.mounts[0].super_options
    if "emergency_ro" in superblock:
        return _read_only(Outcome.ERROR, "the kernel stopped writing to it after an error (emergency_ro)")
    if "shutdown" in superblock:
        return Observation(Outcome.ERROR, Reason.MOUNT_IO_ERROR, "the filesystem has been shut down")
    writable = [place for place in mount.mounts if "ro" not in place.options]
    if "ro" in superblock and mount.fstype not in _ALWAYS_READ_ONLY:
        nobody_asked = len(writable) == len(mount.mounts)
        return _judge_change(still_writable=bool(writable)) if was_writable or nobody_asked else None
    staged = [place for place in mount.mounts if _STAGED in place.mount_point]
    if writable and any("ro" in place.options for place in staged):
        return _read_only(Outcome.IMPAIRED, "its staging mount is read-only, so the next pod could not write")
    return None


def _judge_change(*, still_writable: bool) -> Observation:
    """Of a superblock that is read-only and was not, with or without a mount point that is `still_writable`."""
    if still_writable:
        return _read_only(Outcome.ERROR, "the filesystem has turned read-only, though it is mounted read-write")
    return _read_only(Outcome.IMPAIRED, "it has been remounted read-only")


def judge_errors(errors: Ext4Errors, age_s: float, since_rise_s: float) -> Observation:
    """What `errors` mean whose last one was `age_s` ago by the wall clock, and whose rise we saw `since_rise_s` ago."""
    if errors.count == 0:
        return _GOOD
    words = f"errors that ext4 has counted since the last fsck: {errors.count}"
    if 0 <= age_s < RECENT_S or since_rise_s < RECENT_S:
        return Observation(Outcome.ERROR, Reason.FILESYSTEM_ERRORS, words)
    if age_s < 0:
        ahead = "the last at a time that this node's clock has yet to reach"
        return Observation(Outcome.IMPAIRED, Reason.FILESYSTEM_ERRORS, f"{words}, {ahead}")
    if age_s < REMEMBERED_S:
        return Observation(Outcome.IMPAIRED, Reason.FILESYSTEM_ERRORS, f"{words}, none in the last 10 minutes")
    return Observation(Outcome.GOOD, message=f"{words}, none in the last day")


def _read_only(outcome: Outcome, words: str) -> Observation:
    return Observation(outcome, Reason.READ_ONLY_FILESYSTEM, words)
