"""Which (driver, backend) a mount belongs to and which volumes are on it, found without touching the mount.

Volumes in block mode are left out: the kubelet mounts a device node for them (filesystem devtmpfs, below
`plugins/kubernetes.io/csi/volumeDevices`), and whether the device behind it works is told by sysfs, not by a mount.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from leadsman.domain.report import StorageKey
from leadsman_health_collector.filesystems import MEMORY_FSTYPES, backend_of, is_storage
from leadsman_health_collector.mountinfo import Mount, visible_below
from leadsman_health_collector.volume_data import VOLUME_NAME, VolumeData, backend_in_handle, is_ceph, read_volume_data

IN_TREE_NFS = "kubernetes.io/nfs"

NO_DRIVER = ""
"""Stands for the driver where a mount has none: outside Kubernetes."""

_CSI_POD = re.compile(r"pods/[^/]+/volumes/kubernetes\.io~csi/(?P<volume>[^/]+)/mount")
_CSI_STAGED = re.compile(
    # Some drivers mount one level deeper: ceph-csi's RBD at globalmount/<volume handle>.
    r"plugins/kubernetes\.io/csi/(?P<driver>[A-Za-z0-9.-]+)/(?P<volume>[^/]+)/globalmount(?:/[^/]+)?"
)
_NFS_POD = re.compile(r"pods/[^/]+/volumes/kubernetes\.io~nfs/(?P<volume>[^/]+)")
_OLD_STAGED = "pv"
"""In old kubelets the staging path has this word where the driver's name is now, and the PV's name after it."""

_PROVISIONED = re.compile(r"pvc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Names that provisioners give to PersistentVolumes."""

_FOR_VOLUMES = re.compile(r"(?:pods/[^/]+|plugins/kubernetes\.io)/.+")
"""Places, relative to the kubelet's directory, where a mount is a volume or lies on one."""


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """One superblock to look at: `device` (`major:minor`), one path to it, and whom it belongs to.

    `mounts` are all the places where it is mounted as a volume of its driver, the one at `path` first. `volumes` are
    the names of the PersistentVolumes among them, `handles` what their driver calls them (CSI volume handles).
    """

    device: str
    path: str
    fstype: str
    key: StorageKey
    mounts: tuple[Mount, ...] = ()
    volumes: tuple[str, ...] = ()
    handles: tuple[str, ...] = ()


ReadVolumeData = Callable[[Path], VolumeData | None]


class VolumeMap:
    """Finds the superblocks of volumes below `kubelet_dir`, and with `everything` all other storage too.

    What a mount's file says never changes, so it is read once and remembered while the mount is there.
    """

    def __init__(self, kubelet_dir: Path, read: ReadVolumeData = read_volume_data, *, everything: bool = False) -> None:
        self._kubelet_dir = str(kubelet_dir)
        self._read = read
        self._everything = everything
        self._told: dict[tuple[int, str], VolumeData] = {}
        self.unmapped = 0

    def superblocks(self, mounts: list[Mount]) -> dict[str, VolumeMount]:
        """One entry per superblock, by device; `unmapped` then counts CSI mounts whose driver nobody tells.

        A superblock that volumes of two drivers share counts for the one whose mount shows most of it.
        """
        by_device: dict[str, list[tuple[Mount, VolumeData]]] = defaultdict(list)
        for mount, data in self._identify(mounts):
            by_device[mount.device].append((mount, data))
        return {device: _superblock(sorted(placed, key=_preference)) for device, placed in by_device.items()}

    def _identify(self, mounts: list[Mount]) -> list[tuple[Mount, VolumeData]]:
        """The mounts that are storage of somebody, with what is known about them."""
        below = visible_below(mounts, self._kubelet_dir)
        holding = {mount.mount_id for mount in below if _FOR_VOLUMES.fullmatch(self._place(mount))}
        remembered, self._told = self._told, {}
        self.unmapped = 0
        found: list[tuple[Mount, VolumeData]] = []
        for mount in visible_below(mounts, "/") if self._everything else below:
            known = remembered.get((mount.mount_id, mount.mount_point))
            data = known or self._look_up(mount, holding)
            if data is None:
                continue
            self._told[mount.mount_id, mount.mount_point] = data
            if mount.fstype not in MEMORY_FSTYPES:
                found.append((mount, data))
        return found

    def _look_up(self, mount: Mount, holding: Collection[int]) -> VolumeData | None:
        """What is known about `mount`; None if it is nobody's, or if it is a volume but nobody says of which driver."""
        place = self._place(mount)
        in_tree = _NFS_POD.fullmatch(place)
        if in_tree:
            # The last part of the path is a PV's name, or the name that a pod gives to an inline volume.
            return VolumeData(IN_TREE_NFS, volume=_name_if(_PROVISIONED, in_tree["volume"]))
        csi = _CSI_STAGED.fullmatch(place) or _CSI_POD.fullmatch(place)
        if csi:
            # A mount inside another volume: the directory beside it may hang like the volume, so it is not read.
            told = None if mount.parent_id in holding else self._read(self._beside(csi))
            data = _by_path(csi, told)
            self.unmapped += data is None
            return data
        return VolumeData(NO_DRIVER) if self._everything and is_storage(mount) else None

    def _beside(self, csi: re.Match[str]) -> Path:
        return Path(self._kubelet_dir, csi.string[: csi.end("volume")], "vol_data.json")

    def _place(self, mount: Mount) -> str:
        """The mount's path within the kubelet's directory; empty outside it."""
        start = self._kubelet_dir.rstrip("/") + "/"
        return mount.mount_point[len(start) :] if mount.mount_point.startswith(start) else ""


def _superblock(placed: list[tuple[Mount, VolumeData]]) -> VolumeMount:
    """One superblock from its mounts, the best to look at first."""
    mount, data = placed[0]
    own = [(one, other) for one, other in placed if other.driver == data.driver]
    handles = _distinct(other.handle for _, other in own)
    return VolumeMount(
        mount.device,
        mount.mount_point,
        mount.fstype,
        StorageKey(data.driver, _backend(data.driver, mount, handles)),
        tuple(one for one, _ in own),
        _distinct(other.volume for _, other in own),
        handles,
    )


def _by_path(csi: re.Match[str], told: VolumeData | None) -> VolumeData | None:
    """What the path of a CSI mount adds to what its file says."""
    driver = csi.groupdict().get("driver", _OLD_STAGED)
    if driver != _OLD_STAGED:
        return told or VolumeData(driver)
    if told is None or told.volume or csi.re is _CSI_POD:
        return told
    return VolumeData(told.driver, told.handle, _name_if(VOLUME_NAME, csi["volume"]))


def _backend(driver: str, mount: Mount, handles: Iterable[str]) -> str:
    """What the mount's source says, which is surer than a handle that people may have written.

    A cluster of ceph-csi has a name of its own (`clusterID`), which nothing but the handle tells. Where it does not,
    a made-up name would never be asked for, while the driver's own state is.
    """
    by_handle = next(filter(None, (backend_in_handle(driver, handle) for handle in handles)), "")
    return by_handle if is_ceph(driver) else backend_of(mount) or by_handle


def _preference(placed: tuple[Mount, VolumeData]) -> tuple[bool, bool, int, str]:
    """Volumes first, then the whole filesystem before a part: a deleted subdirectory says nothing about the rest."""
    mount, data = placed
    return (data.driver == NO_DRIVER, mount.root != "/", len(mount.root), mount.mount_point)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))


def _name_if(pattern: re.Pattern[str], name: str) -> str:
    return name if pattern.fullmatch(name) else ""
