"""Which (driver, backend) a mount below the kubelet's directory belongs to, found without touching the mount."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leadsman.domain.report import StorageKey
from leadsman_health_collector.mountinfo import Mount, visible_below

IN_TREE_NFS = "kubernetes.io/nfs"

MEMORY_FSTYPES = frozenset({"tmpfs", "devtmpfs", "ramfs", "overlay"})
"""Filesystems that some drivers mount and that cannot lose their storage."""

DRIVER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
"""CSI specification, GetPluginInfoResponse.name: domain name notation, at most 63 characters."""

_CSI_POD = re.compile(r"pods/[^/]+/volumes/kubernetes\.io~csi/(?P<volume>[^/]+)/mount")
_CSI_STAGED = re.compile(r"plugins/kubernetes\.io/csi/(?P<driver>[A-Za-z0-9.-]+)/(?P<volume>[^/]+)/globalmount")
_NFS_POD = re.compile(r"pods/[^/]+/volumes/kubernetes\.io~nfs/(?P<volume>[^/]+)")
_OLD_STAGED = "pv"
"""In old kubelets the staging path has this word where the driver's name is now."""

_NFS_SOURCE = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):/.*")
_MAX_VOL_DATA_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """One superblock to look at: `device` (`major:minor`), one path to it, and whom it belongs to."""

    device: str
    path: str
    fstype: str
    key: StorageKey


class _VolumeData(msgspec.Struct):
    driver: str = msgspec.field(name="driverName", default="")


_decoder = msgspec.json.Decoder(_VolumeData)

ReadDriver = Callable[[Path], str]


def read_driver(path: Path) -> str:
    """The driver named in a `vol_data.json`, empty if there is none; `path` must not lie on the volume itself."""
    try:
        with path.open("rb") as file:
            driver = _decoder.decode(file.read(_MAX_VOL_DATA_BYTES)).driver
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return driver if DRIVER_NAME.fullmatch(driver) else ""


class VolumeMap:
    """Finds the superblocks below `kubelet_dir`; remembers the driver of each mount, which never changes."""

    def __init__(self, kubelet_dir: Path, read: ReadDriver = read_driver) -> None:
        self._kubelet_dir = str(kubelet_dir)
        self._read = read
        self._drivers: dict[tuple[int, str], str] = {}
        self.unmapped = 0

    def superblocks(self, mounts: list[Mount]) -> dict[str, VolumeMount]:
        """One mount per superblock, by device; `unmapped` then counts CSI mounts whose driver nobody tells."""
        below = visible_below(mounts, self._kubelet_dir)
        nested = {mount.mount_id for mount in below}
        drivers = {(mount.mount_id, mount.mount_point): self._driver(mount, nested) for mount in below}
        self._drivers = {place: driver for place, driver in drivers.items() if driver}
        found: dict[str, VolumeMount] = {}
        self.unmapped = 0
        for mount in sorted(below, key=_preference):
            driver = drivers[mount.mount_id, mount.mount_point]
            if driver and mount.fstype not in MEMORY_FSTYPES:
                volume = VolumeMount(
                    mount.device, mount.mount_point, mount.fstype, StorageKey(driver, backend_of(mount.source))
                )
                found.setdefault(mount.device, volume)
            elif driver is None:
                self.unmapped += 1
        return found

    def _driver(self, mount: Mount, nested: Iterable[int]) -> str | None:
        """The driver of `mount`; empty if it is no volume of a driver, None if it is but nobody says of which."""
        remembered = self._drivers.get((mount.mount_id, mount.mount_point))
        if remembered:
            return remembered
        place = mount.mount_point[len(self._kubelet_dir.rstrip("/")) + 1 :]
        if _NFS_POD.fullmatch(place):
            return IN_TREE_NFS
        staged = _CSI_STAGED.fullmatch(place)
        if not staged and not _CSI_POD.fullmatch(place):
            return ""
        # A mount inside another volume: the directory beside it may hang like the volume, so it is not read.
        told = "" if mount.parent_id in nested else self._read(Path(mount.mount_point).parent / "vol_data.json")
        by_path = staged["driver"] if staged and staged["driver"] != _OLD_STAGED else ""
        return told or by_path or None


def backend_of(source: str) -> str:
    """The host of an NFS-like source `host:/path` (IPv6 without brackets); empty for any other source."""
    match = _NFS_SOURCE.fullmatch(source)
    return (match["ipv6"] or match["host"]) if match else ""


def _preference(mount: Mount) -> tuple[bool, int, str]:
    """The whole filesystem before a part of it: a deleted subdirectory says nothing about the superblock."""
    return (mount.root != "/", len(mount.root), mount.mount_point)
