"""A sysfs with disks that this machine does not have: SCSI over iSCSI and Fibre Channel, multipath, NVMe over fabrics.

Laid out as the kernel does (drivers/scsi, drivers/md/dm-sysfs.c, drivers/nvme/host/multipath.c); what the suite does
not break is the real one. A disk of the tree stands for a filesystem that is really mounted, from a loop device: their
device numbers are the same.
"""

import os
from pathlib import Path

_SAME_AS_REAL = ("fs", "kernel", "module", "power", "firmware")


class SysTree:
    """The tree below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hosts = 1
        self._maps = 0
        (root / "dev" / "block").mkdir(parents=True)
        for name in _SAME_AS_REAL:
            if Path("/sys", name).exists():
                (root / name).symlink_to(Path("/sys", name))

    def stand_for(self, disk: Path, device: str) -> Path:
        """Let `disk` be the block device with the number `device` (`major:minor`); its entry in /sys/dev/block."""
        entry = self.root / "dev" / "block" / device
        entry.symlink_to(os.path.relpath(disk, entry.parent))
        return entry

    def iscsi_disk(self) -> tuple[Path, Path]:
        """A logged-in iSCSI disk: its block device, and the state of its session."""
        self._hosts += 1
        host = self._hosts
        session = self.root / "devices" / "platform" / f"host{host}" / f"session{host}"
        state = session / "iscsi_session" / f"session{host}" / "state"
        _write(state, "LOGGED_IN")
        return self._scsi(session, host), state

    def fc_disk(self) -> tuple[Path, Path]:
        """A Fibre Channel disk: its block device, and the state of the remote port that it is behind."""
        self._hosts += 1
        host = self._hosts
        adapter = self.root / "devices" / "pci0000:00" / "0000:00:03.0" / f"host{host}"
        _write(adapter / "fc_host" / f"host{host}" / "port_state", "Online")
        port = adapter / f"rport-{host}:0-1"
        state = port / "fc_remote_ports" / port.name / "port_state"
        _write(state, "Online")
        return self._scsi(port, host), state

    def multipath(self, *disks: Path) -> Path:
        """A multipath map over `disks`."""
        name = f"dm-{self._maps}"
        self._maps += 1
        map_ = self.root / "devices" / "virtual" / "block" / name
        _write(map_ / "dm" / "uuid", f"mpath-3600faults{self._maps:08d}")
        _write(map_ / "dm" / "name", f"mpath{self._maps}")
        (map_ / "slaves").mkdir()
        for disk in disks:
            (map_ / "slaves" / disk.name).symlink_to(os.path.relpath(disk, map_ / "slaves"))
        return map_

    def nvme_namespace(self) -> tuple[Path, list[Path]]:
        """An NVMe-oF namespace with two live controllers: its block device, and the controllers' states."""
        subsystem = self.root / "devices" / "virtual" / "nvme-subsystem" / "nvme-subsys0"
        namespace = subsystem / "nvme0n1"
        namespace.mkdir(parents=True)
        (namespace / "device").symlink_to("..")
        states = []
        for number in (0, 1):
            controller = self.root / "devices" / "virtual" / "nvme-fabrics" / "ctl" / f"nvme{number}"
            states.append(controller / "state")
            _write(states[-1], "live")
            (subsystem / controller.name).symlink_to(os.path.relpath(controller, subsystem))
        return namespace, states

    def _scsi(self, above: Path, host: int) -> Path:
        device = above / f"target{host}:0:0" / f"{host}:0:0:0"
        _write(device / "state", "running")
        disk = device / "block" / f"sd{chr(ord('a') + host)}"
        disk.mkdir(parents=True)
        (disk / "device").symlink_to("../..")
        return disk


def scsi_state(disk: Path) -> Path:
    """The state file of a SCSI disk's device."""
    return disk.parent.parent / "state"


def set_state(file: Path, word: str) -> None:
    """Let the kernel's word for a state be `word`."""
    file.write_text(f"{word}\n", encoding="ascii")


def _write(file: Path, word: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    set_state(file, word)
