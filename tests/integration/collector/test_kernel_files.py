"""Real filesystems on loop devices that the kernel turns read-only, shuts down or finds errors in."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.testing.waiting import eventually
from leadsman_health_collector.kernel_modules import KernelModules, Support
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.device_paths import DevicePathsProbe
from leadsman_health_collector.probes.diskstats import AWAIT, QUEUE, UTILIZATION, DiskstatsProbe
from leadsman_health_collector.probes.mount_flags import MountFlagsProbe
from leadsman_health_collector.sysfs.walk import ways_to
from leadsman_health_collector.volumes import VolumeMap

pytestmark = pytest.mark.integration

DRIVER = "disk.example.com"
SYS = Path("/sys")
MOUNTINFO = Path("/proc/self/mountinfo")

SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN (facts 6.5)."""

GOOD = (Outcome.GOOD, None)
READ_ONLY = (Outcome.ERROR, Reason.READ_ONLY_FILESYSTEM)


class EveryLook:
    """A clock by which the list of mounts is always old."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += 2.0
        return self._seconds

    def epoch(self) -> float:
        return SystemClock().epoch()


class Volumes:
    """Filesystems in files, mounted where the kubelet stages volumes, and the flags probe that looks at them."""

    def __init__(self, folder: Path) -> None:
        self.kubelet = folder / "kubelet"
        self._images = folder
        clock = EveryLook()
        self.table = MountTable(MOUNTINFO, VolumeMap(self.kubelet), clock)
        self.probe = MountFlagsProbe(self.table, SYS, clock)

    def stage(self, fstype: str, size: str = "32M", options: str = "loop", folder: Path | None = None) -> Path:
        """A new filesystem on a loop device, staged."""
        image = (folder or self._images) / "image"
        with image.open("xb") as file:
            file.truncate(int(size[:-1]) << 20)
        run(f"mkfs.{fstype}", "-q", str(image))
        point = self.kubelet / "plugins" / "kubernetes.io" / "csi" / DRIVER / "v1" / "globalmount"
        point.mkdir(parents=True)
        run("mount", "-t", fstype, "-o", options, str(image), str(point))
        return point

    def publish(self, staged: Path) -> Path:
        """A pod's read-write bind mount of what is `staged`."""
        point = self.kubelet / "pods" / "0f0e" / "volumes" / "kubernetes.io~csi" / "v1" / "mount"
        point.mkdir(parents=True)
        (point.parent / "vol_data.json").write_text(json.dumps({"driverName": DRIVER}))
        run("mount", "--bind", str(staged), str(point))
        run("mount", "-o", "remount,bind,rw", str(point))
        return point

    async def seen(self):
        """What the probe says of the only volume now."""
        (name,) = self.probe.discover()
        found = await self.probe.look(name)
        return (found.outcome, found.reason)

    def sysfs_folder(self) -> Path:
        """Where ext4 tells of the only volume."""
        (name,) = self.table.current()
        return SYS / "fs" / "ext4" / (SYS / "dev" / "block" / name).resolve().name

    def close(self) -> None:
        """Unmount everything; the loop devices go with it."""
        points = [line.split()[4] for line in MOUNTINFO.read_text().splitlines() if f" {self._images}/" in line]
        for point in reversed(points):
            run("umount", point)


def run(*command: str) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def shut_down(point: Path) -> None:
    """What an administrator's `xfs_io -x -c shutdown` does; the log is flushed first."""
    handle = os.open(point, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", 0))
    finally:
        os.close(handle)


def create(point: Path) -> int:
    """Errno of an attempt to create a file, 0 if it succeeds."""
    try:
        (point / "new").touch()
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.fixture
def volumes(tmp_path: Path) -> Iterator[Volumes]:
    """See `Volumes`."""
    if os.geteuid() != 0:
        pytest.skip("mounting a filesystem needs root")
    if not Path("/dev/loop-control").exists():
        pytest.skip("this machine has no loop devices (/dev/loop-control)")
    volumes = Volumes(tmp_path)
    yield volumes
    volumes.close()


@pytest.fixture
def ext4(volumes: Volumes) -> Volumes:
    """Skip where there is no ext4."""
    needs("ext4")
    return volumes


def needs(fstype: str) -> None:
    """Skip without the tools or the kernel's support for `fstype`."""
    if shutil.which(f"mkfs.{fstype}") is None:
        pytest.skip(f"mkfs.{fstype} is not installed")
    if f"\t{fstype}\n" not in Path("/proc/filesystems").read_text():
        pytest.skip(f"this kernel has no {fstype}")


async def test_read_only_by_a_remount_or_by_a_bind_mount(ext4):
    """The one is trouble for pods that write, the other is what read-only volumes look like."""
    point = ext4.stage("ext4")
    assert await ext4.seen() == GOOD
    run("mount", "-o", "remount,bind,ro", str(point))
    assert create(point) == errno.EROFS
    assert await ext4.seen() == GOOD
    run("mount", "-o", "remount,bind,rw", str(point))
    run("mount", "-o", "remount,ro", str(point))
    assert await ext4.seen() == (Outcome.IMPAIRED, Reason.READ_ONLY_FILESYSTEM)
    run("mount", "-o", "remount,rw", str(point))
    assert await ext4.seen() == GOOD


async def test_a_volume_that_is_read_only_from_the_start_is_none_of_our_business(ext4):
    """As drivers mount a volume that nobody may write to."""
    ext4.stage("ext4", options="loop,ro")
    assert await ext4.seen() == GOOD


async def test_a_volume_staged_read_only_and_published_by_a_bind_mount_that_says_otherwise(ext4):
    """As volumes that many nodes read are; the kernel takes `rw` for the mount point and keeps the filesystem `ro`."""
    staged = ext4.stage("ext4", options="loop,ro")
    published = ext4.publish(staged)
    assert create(published) == errno.EROFS
    (mount,) = ext4.table.current().values()
    assert {("ro" in place.options, "ro" in place.super_options) for place in mount.mounts} == {
        (True, True),
        (False, True),
    }
    assert await ext4.seen() == GOOD


async def test_an_error_turns_it_read_only_though_statfs_and_stat_see_nothing(ext4):
    """`emergency_ro`, or `ro` of the superblock alone on older kernels."""
    point = ext4.stage("ext4", options="loop,errors=remount-ro")
    assert await ext4.seen() == GOOD
    (ext4.sysfs_folder() / "trigger_fs_error").write_text("a test")
    assert create(point) == errno.EROFS
    os.statvfs(point)
    point.stat()
    assert await ext4.seen() == READ_ONLY


async def test_an_error_that_it_goes_on_after_is_seen_by_its_counter(ext4):
    """`errors=continue` is what mkfs gives by default."""
    point = ext4.stage("ext4", options="loop,errors=continue")
    assert await ext4.seen() == GOOD
    (ext4.sysfs_folder() / "trigger_fs_error").write_text("a test")
    assert create(point) == 0
    assert await ext4.seen() == (Outcome.ERROR, Reason.FILESYSTEM_ERRORS)


async def test_a_shut_down_ext4_is_seen_by_its_options(ext4):
    """Reading works on; creating fails."""
    point = ext4.stage("ext4")
    shut_down(point)
    assert create(point) == errno.EIO
    point.stat()
    assert await ext4.seen() == (Outcome.ERROR, Reason.MOUNT_IO_ERROR)


async def test_a_backing_store_that_is_full_like_a_thin_pool(ext4, tmp_path):
    """Free space is shown, and every write fails."""
    pool = tmp_path / "pool"
    pool.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(pool))
    point = ext4.stage("ext4", "64M", folder=pool)
    assert await ext4.seen() == GOOD
    with (point / "data").open("wb") as file, contextlib.suppress(OSError):  # fsync may fail, now or only for others
        file.write(b"\x55" * (30 << 20))
        os.fsync(file.fileno())
    await eventually("the journal gives up", lambda: create(point) == errno.EROFS, within_s=10.0)
    assert os.statvfs(point).f_bavail > 0
    outcome, reason = await ext4.seen()
    assert outcome is Outcome.ERROR
    assert reason in {Reason.READ_ONLY_FILESYSTEM, Reason.FILESYSTEM_ERRORS}


async def test_a_shut_down_xfs_keeps_it_to_itself(volumes):
    """What the probe's docstring says it cannot tell: the mount worker's stat or a write meets EIO."""
    needs("xfs")
    point = volumes.stage("xfs", "320M")
    assert await volumes.seen() == GOOD
    shut_down(point)
    assert create(point) == errno.EIO
    assert await volumes.seen() == GOOD


async def test_disks_of_volumes_are_measured_and_loop_devices_have_no_paths(ext4):
    """The kernel under this test writes what we parse."""
    point = ext4.stage("ext4")
    clock = SystemClock()
    disks = DiskstatsProbe(ext4.table, MOUNTINFO, Path("/proc"), clock)
    assert await disks.read() == {}
    with (point / "data").open("wb") as file:
        for _ in range(20):
            file.write(b"\x55" * 4096)
            os.fsync(file.fileno())
    facts = await disks.read()
    assert set(facts) == {UTILIZATION, AWAIT, QUEUE}
    assert all(float(value) >= 0 for value in facts.values())
    assert float(facts[AWAIT]) < 10
    assert list(DevicePathsProbe(ext4.table, SYS, clock).discover()) == []


def test_every_disk_of_this_machine_can_be_walked():
    """Whatever this machine has."""
    if not (SYS / "dev" / "block").is_dir():
        pytest.skip("/sys is not mounted")
    for link in (SYS / "dev" / "block").iterdir():
        assert all(way.parts or way.name for way in ways_to(str(link.resolve())))


def test_what_this_kernel_has_is_found_and_what_no_kernel_has_is_not():
    """With or without /lib/modules."""
    kernel = KernelModules(Path("/proc"), SYS, Path("/lib/modules"))
    assert kernel.support(["no_such_filesystem", "tmpfs"]) is Support.PRESENT
    assert kernel.support(["no_such_filesystem"]) in {Support.MISSING, Support.UNKNOWN}
