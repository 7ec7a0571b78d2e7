"""A directory that looks like /sys to who reads block devices: SCSI disks on iSCSI or Fibre Channel, NVMe, multipath.

For machines that have none of these. The layout is the kernel's: `dev/block/<major:minor>` and `class/block/<name>` are
links to the device's own directory below `devices`, `slaves` and `device` are links, too.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path


class SysfsTree:
    """Builds and changes the tree at `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "dev" / "block").mkdir(parents=True)
        (root / "class" / "block").mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        """Give the file `path` (relative to the root) the content `text` and a newline, as the kernel does."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def link(self, path: str, target: str) -> None:
        """Make `path` a relative link to `target`, both relative to the root; an old one is replaced."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(os.path.relpath(self.root / target, place.parent))

    def block(self, number: str, folder: str) -> None:
        """A block device `number` (`major:minor`) in `folder`, which is named like it."""
        self.write(f"{folder}/dev", number)
        self.link(f"dev/block/{number}", folder)
        self.link(f"class/block/{Path(folder).name}", folder)

    def unplug(self, number: str) -> None:
        """The kernel forgets the device."""
        place = self.root / "dev" / "block" / number
        (self.root / "class" / "block" / place.resolve().name).unlink()
        place.unlink()

    def scsi_disk(self, name: str, number: str, above: str) -> str:
        """A disk whose SCSI device is below the folder `above`; the SCSI device's folder."""
        unit = number.partition(":")[2]
        device = f"{above}/0:0:0:{unit}"
        self.write(f"{device}/state", "running")
        self.block(number, f"{device}/block/{name}")
        self.link(f"{device}/block/{name}/device", device)
        return device

    def iscsi_disk(self, name: str, number: str, session: int) -> str:
        """A disk on a session that is logged in; the SCSI device's folder."""
        folder = self.session(session)
        return self.scsi_disk(name, number, f"{folder}/target{session}:0:0")

    def session(self, session: int, state: str = "LOGGED_IN") -> str:
        """An iSCSI session in `state`; its folder."""
        folder = f"devices/platform/host{session}/session{session}"
        self.write(f"{folder}/iscsi_session/session{session}/state", state)
        return folder

    def fc_disk(self, name: str, number: str, host: int, port: int) -> str:
        """A disk behind a remote port of a Fibre Channel adapter, both online; the SCSI device's folder."""
        folder = self.fc_port(host, port)
        return self.scsi_disk(name, number, f"{folder}/target{host}:0:{port}")

    def fc_host(self, host: int, state: str = "Online") -> str:
        """A Fibre Channel adapter whose own port is in `state`; its folder."""
        folder = f"devices/pci0000:00/0000:00:0{host}.0/host{host}"
        self.write(f"{folder}/fc_host/host{host}/port_state", state)
        return folder

    def fc_port(self, host: int, port: int, state: str = "Online") -> str:
        """A remote port in `state`, on an adapter that is made if missing; its folder."""
        folder = f"devices/pci0000:00/0000:00:0{host}.0/host{host}"
        if not (self.root / folder).exists():
            self.fc_host(host)
        name = f"rport-{host}:0-{port}"
        self.write(f"{folder}/{name}/fc_remote_ports/{name}/port_state", state)
        return f"{folder}/{name}"

    def nvme_disk(self, name: str, number: str, controller: str) -> str:
        """A namespace below its only controller, which is live; the controller's folder."""
        folder = f"devices/pci0000:00/0000:00:1f.0/nvme/{controller}"
        self.write(f"{folder}/state", "live")
        self.block(number, f"{folder}/{name}")
        self.link(f"{folder}/{name}/device", folder)
        return folder

    def nvme_subsystem(self, name: str, number: str, controllers: Mapping[str, str]) -> str:
        """A namespace with native multipath over fabrics, by controllers and their states; the subsystem's folder."""
        folder = "devices/virtual/nvme-subsystem/nvme-subsys0"
        for controller, state in controllers.items():
            self.write(f"devices/virtual/nvme-fabrics/ctl/{controller}/state", state)
            self.link(f"{folder}/{controller}", f"devices/virtual/nvme-fabrics/ctl/{controller}")
        self.block(number, f"{folder}/{name}")
        self.link(f"{folder}/{name}/device", folder)
        return folder

    def device_mapper(self, name: str, number: str, uuid: str, slaves: Sequence[str]) -> str:
        """A device-mapper device on top of the block devices `slaves`; its folder. Made again, it has these slaves."""
        folder = f"devices/virtual/block/{name}"
        for old in (self.root / folder / "slaves").glob("*"):
            old.unlink()
        (self.root / folder / "slaves").mkdir(parents=True, exist_ok=True)
        self.write(f"{folder}/dm/uuid", uuid)
        for slave in slaves:
            target = (self.root / "class" / "block" / slave).resolve().relative_to(self.root.resolve())
            self.link(f"{folder}/slaves/{slave}", str(target))
        self.block(number, folder)
        return folder

    def partition(self, name: str, number: str, disk: str) -> None:
        """A partition of the block device `disk`."""
        folder = (self.root / "class" / "block" / disk).resolve().relative_to(self.root.resolve())
        self.write(f"{folder}/{name}/partition", "1")
        self.block(number, f"{folder}/{name}")

    def ext4(self, name: str, errors: int, last_epoch_s: float = 0) -> None:
        """The error counter of the ext4 filesystem on the block device `name`."""
        self.write(f"fs/ext4/{name}/errors_count", str(errors))
        self.write(f"fs/ext4/{name}/last_error_time", f"{last_epoch_s:.0f}")
