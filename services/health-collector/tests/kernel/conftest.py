"""A machine made of files: its mounts, its /sys and its /proc, and a clock."""

import json
from pathlib import Path

import pytest

from leadsman.testing.clock import FakeClock
from leadsman.testing.sysfs_tree import SysfsTree
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.volumes import VolumeMap

DRIVER = "disk.example.com"


class Machine:
    """What the probes read, below `root`."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        self.sys = SysfsTree(root / "sys")
        self.proc = root / "proc"
        self.proc.mkdir()
        self.kubelet = root / "kubelet"
        self.mountinfo = root / "mountinfo"
        self.table = MountTable(self.mountinfo, VolumeMap(self.kubelet), self.clock)
        self.mount()

    def mount(self, *lines: str) -> None:
        """These lines of mountinfo are all there are from now on."""
        self.mountinfo.write_text("".join(f"{number + 30} 29 {line}\n" for number, line in enumerate(lines)))
        self.clock.advance(2.0)

    def staged(
        self, device: str, options: str = "rw", superblock: str = "rw", *, volume: str = "v1", fstype: str = "ext4"
    ) -> str:
        """A line of mountinfo, without its ids: where the kubelet has staged a volume."""
        point = self.kubelet / "plugins" / "kubernetes.io" / "csi" / DRIVER / volume / "globalmount"
        return f"{device} / {point} {options} shared:9 - {fstype} /dev/x {superblock}"

    def in_pod(self, device: str, options: str = "rw", superblock: str = "rw", *, volume: str = "v1") -> str:
        """A line of mountinfo, without its ids: a volume in a pod, with the kubelet's file beside it."""
        folder = self.kubelet / "pods" / "0f0e" / "volumes" / "kubernetes.io~csi" / volume
        folder.mkdir(parents=True, exist_ok=True)
        told = {"driverName": DRIVER, "specVolID": volume, "volumeHandle": f"handle-{volume}"}
        (folder / "vol_data.json").write_text(json.dumps(told))
        return f"{device} / {folder / 'mount'} {options} - ext4 /dev/x {superblock}"

    def tell(self, path: str, text: str) -> None:
        """Give a file of /proc its content."""
        file = self.proc / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """See `Machine`."""
    return Machine(tmp_path)
