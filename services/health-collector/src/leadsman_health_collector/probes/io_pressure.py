"""Is the node held up by IO on local block devices?

Source: `/proc/pressure/io`, `full`: the share of time in which CPUs that had work could do none of it for waiting on
IO.
Period: the collector's. Deadline: none, the kernel answers from memory.
Thresholds: 1 and 1, because the averages are the hysteresis: set when avg10 and avg60 are both over `LIMIT`, cleared
when avg60 is under it (as in KEP-5394).
Evidence: data path, and never more than IMPAIRED (`IOPressure`): busy is not broken.

`full` and not `some`, because one backup that reads all night keeps `some` at 100 % and hurts nobody. 40 %: a healthy
disk under a heavy but bearable load stays below, as work goes on beside the waits; above it the node gets less than
two thirds of its work done. The figure is a choice, not a measurement of many clusters.

Sources are the (driver, backend) that have volumes on block devices of this node; PSI does not see waits for network
and FUSE filesystems (facts 0.8). A kernel without PSI has no sources.

What it cannot tell: which of the devices is slow, so that all of them bear it; a slow device that nobody uses.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from leadsman.domain.reasons import Reason
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.psi import Stall, read_pressure
from leadsman_health_collector.strikes import Thresholds
from leadsman_health_collector.sysfs.block import on_block_device

LIMIT = 0.4
"""Share of time, 0-1."""

_NOBODYS = "no driver"
"""Name of the source for filesystems that are no volumes; there are such only where all storage is looked at."""


class IoPressureProbe:
    """Judges the storage of the block-device volumes of `table` by the pressure below `proc`, the root of procfs."""

    kind = Kind.PRESSURE
    schedule = Schedule(thresholds=Thresholds(definite=1, failures=1, up=1), second_look=False)

    def __init__(self, table: MountTable, proc: Path, limit: float = LIMIT) -> None:
        self._table = table
        self._proc = proc
        self._limit = limit
        self._sources: dict[str, Source] = {}
        self._stall: Stall | None = None
        self._pressed = False

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: keys of storage, as text."""
        mounts = self._table.current()
        pressure = read_pressure(self._proc, "io")
        self._sources = {}
        self._stall = None if pressure is None else pressure.get("full")
        if pressure is None:
            return self._sources
        keys = {mount.key for device, mount in mounts.items() if on_block_device(device)}
        self._sources = {str(key) or _NOBODYS: Source(key, place="local block devices") for key in keys}
        if self._stall is not None:
            self._pressed = is_pressed(self._stall, self._limit, before=self._pressed)
        return self._sources.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:  # noqa: ARG002 - all: it is one and the same look
        """See `Probe.choose`: all of them."""
        return self._sources.keys()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return self._sources

    async def look(self, name: str) -> Observation:  # noqa: ARG002 - the pressure is the whole node's
        """See `Probe.look`: what the pressure was at discovery."""
        if self._stall is None:
            return not_run("the kernel tells no io pressure in words that are known here")
        words = f"all work waited for IO {self._stall.avg60:.0%} of the last minute"
        if self._pressed:
            return Observation(Outcome.IMPAIRED, Reason.IO_PRESSURE, words)
        return Observation(Outcome.GOOD, message=words if self._stall.avg60 > self._limit else "")


def is_pressed(stall: Stall, limit: float, *, before: bool) -> bool:
    """Whether the node is under pressure now, having been so `before` or not."""
    return stall.avg60 > limit and (before or stall.avg10 > limit)
