"""What an ext4 filesystem has counted of its own errors (Documentation/ABI/testing/sysfs-fs-ext4)."""

from dataclasses import dataclass
from pathlib import Path

from leadsman_health_collector.kernel_files import number, read_attribute


@dataclass(frozen=True, slots=True)
class Ext4Errors:
    """Errors since the last fsck: how many, and when the last one was (seconds since 1970, by this node's clock).

    The count is kept on the disk: it survives unmounting, and only e2fsck sets it to zero.
    """

    count: int
    last_epoch_s: float


NO_ERRORS = Ext4Errors(0, 0.0)


def read_ext4_errors(sys: Path, name: str) -> Ext4Errors | None:
    """The errors of the filesystem on block device `name` (`sda1`); None if there is no such ext4 filesystem.

    Raises:
        OSError: the files cannot be read.
        ValueError: they hold no numbers.
    """
    folder = f"{sys}/fs/ext4/{name}"
    try:
        count = int(number(read_attribute(f"{folder}/errors_count")))
    except FileNotFoundError:
        return None
    return Ext4Errors(count, number(read_attribute(f"{folder}/last_error_time"))) if count > 0 else NO_ERRORS
