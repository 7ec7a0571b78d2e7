"""How busy and how slow the disks under volumes and under the root filesystem are: facts for scores, never a verdict.

Source: `/proc/diskstats` (Documentation/admin-guide/iostats.rst), differences since the last read.
Period: the collector's. Deadline: none, the kernel answers from memory.
Thresholds: none. Evidence: none, it judges no storage.

Each figure is a moving average per device, and the fact is the worst of the devices, so that there are three facts
however many disks a node has. A disk that did nothing counts as one that made nobody wait. Counters that fall (they
wrap, or another disk got the number) give no figure for that interval.

What it cannot tell: whether a throttle above the disk makes IO slow (blkio throttling does not show here, facts 3.1);
which disk it is; network filesystems; btrfs and ZFS, whose superblocks name no block device.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leadsman.domain.clock import Clock
from leadsman_health_collector.kernel_files import number, read_kernel_file
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.mountinfo import read_mounts
from leadsman_health_collector.moving_average import MovingAverage
from leadsman_health_collector.probes.probe import FactValue
from leadsman_health_collector.sysfs.block import on_block_device

UTILIZATION = "disk.utilizationMax"
AWAIT = "disk.awaitMaxSeconds"
QUEUE = "disk.queueMax"

FACTS = frozenset({UTILIZATION, AWAIT, QUEUE})
"""Every fact that this probe can give."""

_DIGITS = 4


@dataclass(frozen=True, slots=True)
class _Counters:
    """What a device has done since it appeared: requests, and seconds waited, busy, and weighted by queue length."""

    requests: float
    waited_s: float
    busy_s: float
    weighted_s: float

    def since(self, before: "_Counters") -> "_Counters | None":
        """The difference; None if any counter has fallen."""
        past = _Counters(
            self.requests - before.requests,
            self.waited_s - before.waited_s,
            self.busy_s - before.busy_s,
            self.weighted_s - before.weighted_s,
        )
        return None if min(past.requests, past.waited_s, past.busy_s, past.weighted_s) < 0 else past


@dataclass(slots=True)
class _Disk:
    counters: _Counters
    utilization: MovingAverage = field(default_factory=MovingAverage)
    wait_s: MovingAverage = field(default_factory=MovingAverage)
    queue: MovingAverage = field(default_factory=MovingAverage)

    def add(self, past: _Counters, elapsed_s: float) -> None:
        """Take in what it did within the last `elapsed_s` seconds."""
        self.utilization.add(min(1.0, past.busy_s / elapsed_s))
        self.wait_s.add(past.waited_s / past.requests if past.requests else 0.0)
        self.queue.add(past.weighted_s / elapsed_s)


class DiskstatsProbe:
    """Reads diskstats below `proc` for the disks of `table` and of the root mount in the file `mountinfo`."""

    name = "diskstats"
    period = 1.0

    def __init__(self, table: MountTable, mountinfo: Path, proc: Path, clock: Clock) -> None:
        self._table = table
        self._mountinfo = mountinfo
        self._path = f"{proc}/diskstats"
        self._clock = clock
        self._root: str | None = None
        self._disks: dict[str, _Disk] = {}
        self._read_at = 0.0

    async def read(self) -> Mapping[str, FactValue]:
        """See `FactProbe.read`."""
        self._root = self._root or self._root_device()
        wanted = {device for device in (self._root, *self._table.current()) if on_block_device(device)}
        found = dict(_parse(read_kernel_file(self._path), wanted))
        now = self._clock.monotonic()
        elapsed, self._read_at = now - self._read_at, now
        self._disks = {device: self._updated(device, counters, elapsed) for device, counters in found.items()}
        return self._worst()

    def _updated(self, device: str, counters: _Counters, elapsed_s: float) -> _Disk:
        disk = self._disks.get(device)
        if disk is None:
            return _Disk(counters)
        past = counters.since(disk.counters)
        if past is not None and elapsed_s > 0:
            disk.add(past, elapsed_s)
        disk.counters = counters
        return disk

    def _worst(self) -> dict[str, FactValue]:
        averages = {
            UTILIZATION: [disk.utilization.value for disk in self._disks.values()],
            AWAIT: [disk.wait_s.value for disk in self._disks.values()],
            QUEUE: [disk.queue.value for disk in self._disks.values()],
        }
        known = {name: [value for value in values if value is not None] for name, values in averages.items()}
        return {name: round(max(values), _DIGITS) for name, values in known.items() if values}

    def _root_device(self) -> str:
        """The root mount's superblock, which stays the same until the next boot."""
        points = {mount.mount_point: mount.device for mount in read_mounts(self._mountinfo)}
        return points.get("/", "0:0")


def _parse(text: str, wanted: set[str]) -> Iterator[tuple[str, _Counters]]:
    """Counters of the `wanted` devices (`major:minor`); lines that are not of this form are left out."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14 or f"{fields[0]}:{fields[1]}" not in wanted:
            continue
        try:
            reads, reading, writes, writing, busy, weighted = (number(fields[n]) for n in (3, 6, 7, 10, 12, 13))
        except ValueError:
            continue
        waited = reading + writing
        yield f"{fields[0]}:{fields[1]}", _Counters(reads + writes, waited / 1e3, busy / 1e3, weighted / 1e3)
