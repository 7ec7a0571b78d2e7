"""Do ways still lead to the disks under a volume? States of SCSI devices, iSCSI sessions, FC ports, NVMe controllers.

Source: sysfs, from `/sys/dev/block/<major:minor>` of each mounted superblock through partitions, device mapper and MD
to the disks. For a SCSI disk its `device/state`, the `state` of the iSCSI session or the `port_state` of the remote
port and adapter that it hangs on (an unused adapter is down by design and nobody's way); for an NVMe namespace the
`state` of each controller of its subsystem. A device of which sysfs tells no ways (virtio, rbd, zram) is no source.
Period: the collector's. Deadline: none, sysfs answers from memory.
Thresholds: down or impaired after 2 looks, up after 2, with a second look: an iSCSI session is logged in again within
seconds.
Evidence: data path.

All ways up is good, some down is IMPAIRED (`PathsDegraded`), all down is an error (`AllPathsDown`). Ways that vanish
altogether (`dev_loss_tmo`, logout) count as down for a day, so that "2 of 2" is not good news where there were four;
after that a smaller number is taken as meant. New ways are found within five minutes. A device number that is mounted
but no longer in sysfs is a disk that was removed under its filesystem: an error.

What it cannot tell: a way that the kernel has not tried since it broke; a path that multipathd has failed by its own
checker while the SCSI device runs; ALUA and ANA states (standby looks the same whether meant or not); which of several
disks a striped volume can spare, so the loss of one of them is only IMPAIRED; btrfs and ZFS, whose superblocks name no
block device; volumes in block mode, which are not mounted.
"""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.superblock_memory import SuperblockMemory
from leadsman_health_collector.sysfs.block import BlockDevices, on_block_device
from leadsman_health_collector.sysfs.walk import ways_to
from leadsman_health_collector.sysfs.ways import Sight, StateFiles, Way, WayState
from leadsman_health_collector.volumes import VolumeMount

WALK_AGAIN_S = 300.0
"""New ways are found this late. What has vanished is noticed at once."""

REMEMBERED_S = 86_400.0
"""How long ways that have vanished count as down: long enough to be seen to, short enough if it was meant."""

_EXAMPLES = 2

LOST = Observation(Outcome.ERROR, Reason.ALL_PATHS_DOWN, "the disk has vanished under its filesystem")


@dataclass(slots=True)
class _Device:
    """What was found below a device, and the most ways it had lately.

    `directory` is where it was in sysfs then: None if nowhere, empty if nobody has looked yet.
    """

    directory: str | None = ""
    walked_at: float = float("-inf")
    ways: tuple[Way, ...] = ()
    most: int = 0
    most_at: float = 0.0


class DevicePathsProbe:
    """Looks at the ways to the block devices under the volumes of `table`; `sys` is the root of sysfs."""

    kind = Kind.PATHS
    schedule = Schedule()

    def __init__(self, table: MountTable, sys: Path, clock: Clock) -> None:
        self._table = table
        self._blocks = BlockDevices(sys)
        self._files = StateFiles(clock)
        self._clock = clock
        self._devices = SuperblockMemory(_Device)
        self._sources: dict[str, Source] = {}

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: superblocks as `major:minor`, those with ways to them."""
        mounts = self._table.current()
        self._devices.keep(mounts)
        listed = self._blocks.listed()
        self._sources = {}
        for name, mount in mounts.items():
            if on_block_device(name):
                device = self._devices.of(mount)
                with contextlib.suppress(OSError):  # what was found before stands, and the look will tell
                    self._refresh(device, name)
                if device.most or (listed and device.directory is None):
                    self._sources[name] = Source(mount.key, mount.volumes, mount.path)
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
            return not_run("it has been unmounted") if mount is None else self._look(mount)
        except OSError as error:
            return not_run(f"mounts or sysfs cannot be read: {error}")

    def _look(self, mount: VolumeMount) -> Observation:
        device = self._devices.of(mount)
        sights = self._files.see(device.ways)
        if not sights or any(sight.gone for sight in sights):
            self._walk(device, self._blocks.directory(mount.device))
            sights = self._files.see(device.ways)
        if device.directory is None:
            return LOST if self._blocks.listed() else not_run("sysfs lists no block devices")
        return judge(sights, device.most)

    def _refresh(self, device: _Device, name: str) -> None:
        """Walk again if the device is in another place or some time has passed."""
        directory = self._blocks.directory(name)
        if directory != device.directory or self._clock.monotonic() - device.walked_at >= WALK_AGAIN_S:
            self._walk(device, directory)

    def _walk(self, device: _Device, directory: str | None) -> None:
        device.ways = () if directory is None else ways_to(directory)
        device.directory, device.walked_at = directory, self._clock.monotonic()
        if len(device.ways) >= device.most or device.walked_at - device.most_at >= REMEMBERED_S:
            device.most, device.most_at = len(device.ways), device.walked_at


def judge(sights: Sequence[Sight], most: int) -> Observation:
    """What `sights` of all present ways mean for a device that had up to `most` ways lately."""
    total = max(most, len(sights))
    if total == 0:
        return not_run("nothing tells of paths to it any more")
    working = sum(sight.state <= WayState.MARGINAL for sight in sights)
    unreadable = [sight for sight in sights if sight.state is WayState.UNREADABLE]
    bad = [sight for sight in sights if sight.state in {WayState.DOWN, WayState.MARGINAL}]
    words = f"{working} of {total} paths up{_examples(bad or unreadable)}"
    if working == 0:
        return not_run(words) if unreadable else Observation(Outcome.ERROR, Reason.ALL_PATHS_DOWN, words)
    if bad or len(sights) < total:
        return Observation(Outcome.IMPAIRED, Reason.PATHS_DEGRADED, words)
    return not_run(words) if unreadable else Observation(Outcome.GOOD, message=words)


def _examples(sights: Sequence[Sight]) -> str:
    words = ", ".join(sight.why for sight in sights[:_EXAMPLES])
    return f" ({words}{', ...' if len(sights) > _EXAMPLES else ''})" if words else ""
