"""The ways to an NVMe namespace: the controllers of its subsystem, local or over fabrics."""

import re

from leadsman_health_collector.sysfs.links import follow, last_name, names_in
from leadsman_health_collector.sysfs.ways import Part, Way, Words

_NAMESPACE = re.compile(r"nvme\d+n\d+")
_CONTROLLER = re.compile(r"nvme\d+")

CONTROLLER_WORDS = Words(
    up=frozenset({"live"}),
    down=frozenset({"new", "resetting", "connecting", "deleting", "deleting (no IO)", "dead"}),
)
"""drivers/nvme/host/sysfs.c, `nvme_sysfs_show_state`."""


def nvme_ways(disk: str) -> list[Way]:
    """One way per controller that leads to the block device in directory `disk`; empty if it is no NVMe namespace.

    With native multipath the namespace lies below its subsystem, beside links to all controllers of it; without, below
    its only controller.

    Raises:
        OSError: sysfs cannot be read.
    """
    above = follow(f"{disk}/device") if _NAMESPACE.fullmatch(last_name(disk)) else None
    if above is None:
        return []
    if _CONTROLLER.fullmatch(last_name(above)):
        return [_way(above)]
    return [_way(f"{above}/{name}") for name in names_in(above) if _CONTROLLER.fullmatch(name)]


def _way(controller: str) -> Way:
    name = last_name(controller)
    return Way(name, (Part(name, f"{controller}/state", CONTROLLER_WORDS),))
