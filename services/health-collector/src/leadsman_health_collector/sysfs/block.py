"""From a device number to the directory of the block device in sysfs (sysfs(5), /sys/dev/block)."""

import os
from pathlib import Path

from leadsman_health_collector.sysfs.links import follow, last_name

_ANONYMOUS = "0:"


def on_block_device(device: str) -> bool:
    """Whether the superblock `device` (`major:minor`) lies on a block device of this node.

    Network, FUSE and memory filesystems do not; nor, by their numbers, do btrfs and ZFS, which give superblocks
    numbers of their own.
    """
    return not device.startswith(_ANONYMOUS)


class BlockDevices:
    """The block devices of the machine whose sysfs is `sys`, by `major:minor`."""

    def __init__(self, sys: Path) -> None:
        self._links = str(sys / "dev" / "block")

    def directory(self, device: str) -> str | None:
        """The device's own directory; None if there is no such device.

        It changes when another device gets the number, or the same one comes back by another way.

        Raises:
            OSError: it cannot be told.
        """
        return follow(f"{self._links}/{device}")

    def name(self, device: str) -> str | None:
        """The kernel's name of the device, such as `sda1` or `dm-3`; None if there is no such device.

        Raises:
            OSError: it cannot be told.
        """
        directory = self.directory(device)
        return None if directory is None else last_name(directory)

    def listed(self) -> bool:
        """Whether this sysfs can be seen to list block devices at all: only then has a missing one gone."""
        try:
            with os.scandir(self._links) as entries:
                return next(entries, None) is not None
        except OSError:
            return False
