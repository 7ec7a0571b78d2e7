"""From a block device down to the disks it is made of, and to the ways that lead to them."""

from collections.abc import Iterator

from leadsman_health_collector.kernel_files import read_attribute
from leadsman_health_collector.sysfs.links import exists, follow, last_name, names_in
from leadsman_health_collector.sysfs.nvme import nvme_ways
from leadsman_health_collector.sysfs.scsi import scsi_way
from leadsman_health_collector.sysfs.ways import Way

MAX_DEPTH = 8
"""Layers of device mapper and MD that are followed: LVM on crypt on multipath is four."""

MAX_WAYS = 64
"""Ways of one device that are looked at; the kernel and multipathd are used with eight or so."""

_MULTIPATH = "mpath-"
"""Prefix of the device-mapper UUID of a multipath map (multipath-tools, `UUID_PREFIX`)."""


def ways_to(device: str) -> tuple[Way, ...]:
    """The ways to the block device in directory `device`, by name; empty if nothing tells of ways to it.

    Raises:
        OSError: sysfs cannot be read; that must not pass for ways that have gone.
    """
    found: dict[str, Way] = {}
    for way in _ways(device, MAX_DEPTH, set()):
        found.setdefault(way.name, way)
        if len(found) == MAX_WAYS:
            break
    return tuple(found[name] for name in sorted(found))


def _ways(device: str, depth: int, passed: set[str]) -> Iterator[Way]:
    disk = device.rpartition("/")[0] if exists(f"{device}/partition") else device
    if disk in passed:
        return  # two layers share it, or links lead in a circle
    passed.add(disk)
    below = [follow(f"{disk}/slaves/{name}") for name in names_in(f"{disk}/slaves")]
    if not below:
        yield from _leaf(disk)
    elif depth > 0:
        for slave in filter(None, below):
            yield from _ways(slave, depth - 1, passed)


def _leaf(disk: str) -> list[Way]:
    if _is_multipath(disk):
        return [Way(last_name(disk), ())]  # a map from which every way has been removed
    scsi = scsi_way(disk)
    return [scsi] if scsi else nvme_ways(disk)


def _is_multipath(disk: str) -> bool:
    try:
        return read_attribute(f"{disk}/dm/uuid").startswith(_MULTIPATH)
    except (FileNotFoundError, NotADirectoryError):
        return False  # not device mapper
