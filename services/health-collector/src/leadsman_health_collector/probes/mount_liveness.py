"""Does a mounted volume still answer?

Source: statvfs(2) and stat(2) of its root in killable workers, one per superblock (facts: storage-health 3.1 P8, 3.2);
both, because each can succeed where the other fails (0.3).
Period: the collector's, not 1.5 x as in the facts: a worker that is used again costs a hundredth of one that is started
anew, and a hung mount is known within the 35 s of the facts' table only so. Deadline: 5/3 x that of the collector.
Thresholds: down after 2 errors or 3 silences in a row, up after 2 answers; slow from 1 s on average.
Evidence: data path.

A worker that is overdue is killed and stays out for as long as the kernel keeps it. When the filesystem answers at
last, be it with the late error of a soft mount (ETIMEDOUT, EIO), the worker is gone and the next look is a normal one:
what a killed worker would have said is not waited for, since looking again says the same, and is newer.

Denied access (EACCES, EPERM; row 8). A network filesystem that denies its root has lost its credentials or been cut
off, as an evicted Ceph client; but one with root_squash, Kerberos, or a FUSE server for a single user may deny it to
us all along while pods work. So it counts as `AccessRevoked` only if the same mount has answered this run before; on
CephFS, which never squashes a stat, always; on a local filesystem never. Otherwise the look counts as not had, which
after a restart leaves standing what the earlier run reported.

What it cannot tell: whether files can be read or written (flags, error counters and the canary tell more), whether new
mounts work, or why a mount is silent.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.capacity import Capacity
from leadsman_health_collector.mount_errors import failed
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.mount_worker import look_job
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.strikes import Thresholds
from leadsman_health_collector.volumes import VolumeMount
from leadsman_health_collector.workers import MAX_STUCK, Finished, Overdue, Refused, WorkerPool

MAX_PER_KEY = 8
"""Superblocks of one (driver, backend) that are looked at in one round; more of them take turns."""

RESERVED = 2
"""Of those, how many are kept for those that are not suspect: a new fault must be seen among many old ones."""

MAX_OUT_PER_KEY = MAX_STUCK // 2
"""Workers that the mounts of one (driver, backend) may hold up."""

_OWN_DEVICE_NUMBERS = frozenset({"btrfs", "bcachefs"})
"""Filesystems whose stat tells a device of a subvolume, not the one that mountinfo shows."""


class MountLivenessProbe:
    """Looks at the volumes of `table`; never touches them itself. `deadline_s` is its own, in seconds."""

    kind = Kind.MOUNT
    schedule = Schedule(thresholds=Thresholds(slow_s=1.0))

    def __init__(self, table: MountTable, workers: WorkerPool, deadline_s: float) -> None:
        self._table = table
        self._workers = workers
        self._deadline_s = deadline_s
        self._mounts: Mapping[str, VolumeMount] = {}
        self._capacities: dict[str, Capacity] = {}
        self._turn = 0
        self._looking: set[str] = set()

    @property
    def capacities(self) -> Mapping[str, Capacity]:
        """The numbers that each mounted superblock gave when it last answered; a new object for every answer."""
        return self._capacities

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: superblocks as `major:minor`."""
        before, self._mounts = self._mounts, self._table.current()
        # The number of a filesystem that was unmounted may go to another one before we look again.
        same = {
            device for device, mount in self._mounts.items() if device in before and before[device].path == mount.path
        }
        self._capacities = {device: one for device, one in self._capacities.items() if device in same}
        self._workers.keep(self._mounts)
        return self._mounts.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: at most MAX_PER_KEY per (driver, backend) in turns, suspects more often than others.

        Those whose worker is still out cost nothing and come on top. But the more of a key are out or being looked at,
        the fewer others of it are tried, and none beyond MAX_OUT_PER_KEY (facts 3.2.4).
        """
        self._turn += 1
        by_key: dict[StorageKey, list[str]] = defaultdict(list)
        out: dict[StorageKey, list[str]] = defaultdict(list)
        for device, mount in sorted(self._mounts.items()):
            busy = device in self._looking or self._workers.is_out(device)
            (out if busy else by_key)[mount.key].append(device)
        chosen = [device for devices in out.values() for device in devices]
        for key, devices in by_key.items():
            places = min(MAX_PER_KEY, MAX_OUT_PER_KEY - len(out[key]))
            chosen += _in_turn(devices, suspects, self._turn, max(0, places))
        return chosen

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return {device: Source(mount.key, mount.volumes, mount.path) for device, mount in self._mounts.items()}

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        mount = self._mounts.get(name)
        if mount is None:
            return not_run("it has been unmounted")
        self._looking.add(name)
        try:
            result = await self._workers.run(name, look_job(mount.path), self._deadline_s)
        finally:
            self._looking.discard(name)
        match result:
            case Overdue(seconds):
                return Observation(Outcome.TIMEOUT, Reason.MOUNT_HUNG, f"no answer for {seconds:.0f} s")
            case Refused(why):
                return not_run(why)
            case Finished(answer):
                return self._read(answer, mount)

    def _read(self, answer: str, mount: VolumeMount) -> Observation:
        match answer.split():
            case ["ok", device, *numbers]:
                return self._note(device, _figures(numbers), mount)
            case ["error", number, call]:
                return failed(number, call, fstype=mount.fstype, answered=mount.device in self._capacities)
            case _:
                return not_run("the worker ended without an answer")

    def _note(self, device: str, figures: tuple[float, Capacity] | None, mount: VolumeMount) -> Observation:
        if figures is None:
            return not_run("the worker's answer makes no sense")
        if device != mount.device and mount.fstype not in _OWN_DEVICE_NUMBERS:
            return not_run("something else is mounted there now")
        seconds, capacity = figures
        if mount.device in self._mounts:
            self._capacities[mount.device] = capacity
        return Observation(Outcome.GOOD, latency_s=seconds)


def _figures(numbers: list[str]) -> tuple[float, Capacity] | None:
    """Seconds and capacity from the worker's numbers; None if they are not such."""
    try:
        size, blocks, available, inodes, inodes_available = map(int, numbers[1:])
        return float(numbers[0]), Capacity(blocks * size, available * size, inodes, inodes_available)
    except (ValueError, IndexError):
        return None


def _in_turn(devices: list[str], suspects: Collection[str], turn: int, places: int = MAX_PER_KEY) -> list[str]:
    first = [device for device in devices if device in suspects]
    others = [device for device in devices if device not in suspects]
    reserved = min(RESERVED, len(others), places // 2)
    chosen = _rotated(first, places - reserved, turn)
    return chosen + _rotated(others, places - len(chosen), turn)


def _rotated(devices: list[str], places: int, turn: int) -> list[str]:
    """The next `places` of `devices`, so that all have their turn."""
    start = (turn * places) % len(devices) if devices else 0
    return (devices[start:] + devices[:start])[:places]
