"""Volumes as a kubelet lays them out, and what can be mounted there: a FUSE filesystem, a filesystem in a file."""

import contextlib
import fcntl
import os
import struct
import uuid
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leadsman.testing.process import Process
from leadsman_faults.commands import run
from leadsman_faults.errors import StageError

_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, `_IOR('X', 125, __u32)`."""

_NO_LOG_FLUSH = 2


@dataclass(frozen=True, slots=True)
class Volume:
    """A published volume: its driver, the PersistentVolume's name, and where it is (to be) mounted."""

    driver: str
    name: str
    place: Path


def publish(kubelet: Path, driver: str, name: str, handle: str) -> Volume:
    """Make what the kubelet keeps for a CSI volume in a pod's directory (facts: storage-health 3.3)."""
    pod = uuid.uuid5(uuid.NAMESPACE_DNS, f"{driver}.{name}")
    folder = kubelet / "pods" / str(pod) / "volumes" / "kubernetes.io~csi" / name
    (folder / "mount").mkdir(parents=True, exist_ok=True)
    described = {
        "driverName": driver,
        "nodeName": "faults",
        "specVolID": name,
        "volumeHandle": handle,
        "volumeLifecycleMode": "Persistent",
    }
    (folder / "vol_data.json").write_bytes(msgspec.json.encode(described))
    return Volume(driver, name, folder / "mount")


def device_of(place: Path) -> str:
    """`major:minor` of what is mounted at `place`, from the kernel's list: the mount itself is not touched.

    Raises:
        StageError: nothing is.
    """
    found = [line.split()[2] for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {place} " in line]
    if not found:
        raise StageError(f"nothing is mounted at {place}")
    return found[-1]


class DiskImage:
    """A filesystem in the file `image`, mounted at `place` by a loop device that goes with the last mount of it."""

    def __init__(self, image: Path, place: Path, kind: str, size_mb: int, *options: str) -> None:
        self.place = place
        self._image = image
        self._kind = kind
        self._size_mb = size_mb
        self._options = options

    async def make(self, *mkfs: str) -> None:
        """Make an empty filesystem and mount it."""
        self._image.parent.mkdir(parents=True, exist_ok=True)
        self._image.unlink(missing_ok=True)
        with self._image.open("wb") as file:
            file.truncate(self._size_mb << 20)
        quiet = {"ext4": ("-q", "-F", "-m", "1"), "xfs": ("-q", "-f")}[self._kind]
        await run(f"mkfs.{self._kind}", *quiet, *mkfs, str(self._image))
        await self.mount()

    async def mount(self) -> None:
        """Mount what is in the file."""
        await run(
            "mount", "-t", self._kind, "-o", ",".join(("loop", *self._options)), str(self._image), str(self.place)
        )

    async def unmount(self) -> None:
        """Take the mount away, whatever still uses it."""
        await run("umount", "-l", str(self.place))

    async def renew(self, *mkfs: str) -> None:
        """Replace the filesystem by a new one, as a repair does."""
        await self.unmount()
        await self.make(*mkfs)

    @property
    def device(self) -> str:
        """`major:minor` of the mounted filesystem."""
        return device_of(self.place)

    @property
    def sysfs_name(self) -> str:
        """The kernel's name of the loop device, such as `loop3`."""
        return Path(os.path.realpath(f"/sys/dev/block/{self.device}")).name

    def shut_down(self) -> None:
        """Make the filesystem refuse all further IO, as it does itself after an error that it cannot survive."""
        handle = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def trigger_error(self) -> None:
        """Make ext4 meet an error."""
        Path(f"/sys/fs/ext4/{self.sysfs_name}/trigger_fs_error").write_text("leadsman", encoding="ascii")

    def fill(self, *, share: float) -> None:
        """Write one file until `share` (0-1) of the space is in use, as far as it goes."""
        room = os.statvfs(self.place)
        wanted = int(room.f_blocks * share) - (room.f_blocks - room.f_bfree)
        with contextlib.suppress(OSError), (self.place / "filling").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, wanted) * room.f_frsize)

    async def overfill(self) -> None:
        """Write more than the store below can keep; the errors that come of it are wanted."""
        for number in range(3):
            with contextlib.suppress(StageError):
                target = f"of={self.place}/too-much-{number}"
                await run("dd", "if=/dev/urandom", target, "bs=1M", "count=8", "conv=fsync")
            with contextlib.suppress(StageError):
                await run("sync", "--file-system", str(self.place))  # only then the journal meets the full store

    def fill_inodes(self, *, share: float) -> None:
        """Make empty files until `share` (0-1) of the inodes is in use."""
        room = os.statvfs(self.place)
        wanted = int(room.f_files * share) - (room.f_files - room.f_ffree)
        (self.place / "many").mkdir()
        for number in range(wanted):
            (self.place / "many" / str(number)).touch()

    def empty(self) -> None:
        """Remove what was filled in."""
        (self.place / "filling").unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            for path in (self.place / "many").iterdir():
                path.unlink()
            (self.place / "many").rmdir()


async def fuse_gone(process: Process, place: Path) -> None:
    """End a FUSE server and take its mount away."""
    process.kill()
    await run("umount", "-l", str(place))
