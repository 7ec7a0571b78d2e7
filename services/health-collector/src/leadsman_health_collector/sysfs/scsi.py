"""The way to a SCSI disk: the device itself, and the iSCSI session or Fibre Channel ports that it hangs on."""

import re
from collections.abc import Iterator

from leadsman_health_collector.sysfs.links import exists, follow, last_name
from leadsman_health_collector.sysfs.ways import Part, Way, Words

_DEVICE = re.compile(r"\d+:\d+:\d+:\d+")
_SESSION = re.compile(r"session\d+")
_REMOTE_PORT = re.compile(r"rport-\d+:\d+-\d+")
_HOST = re.compile(r"host\d+")

DEVICE_WORDS = Words(
    up=frozenset({"running"}),
    down=frozenset(
        {"created", "cancel", "deleted", "quiesce", "offline", "transport-offline", "blocked", "created-blocked"}
    ),
)
"""drivers/scsi/scsi_sysfs.c, `sdev_states`. Some pass by themselves within a moment: it takes two looks to count."""

SESSION_WORDS = Words(up=frozenset({"LOGGED_IN"}), down=frozenset({"FAILED", "FREE"}))
"""drivers/scsi/scsi_transport_iscsi.c, `iscsi_session_state_names`."""

_PORT_DOWN = frozenset(
    {"Not Present", "Offline", "Blocked", "Bypassed", "Diagnostics", "Linkdown", "Error", "Loopback", "Deleted"}
)

REMOTE_PORT_WORDS = Words(up=frozenset({"Online"}), down=_PORT_DOWN, marginal=frozenset({"Marginal"}))
"""drivers/scsi/scsi_transport_fc.c, `fc_port_state_names`. `Marginal`: the fabric told of congestion or link errors."""

HOST_WORDS = Words(up=frozenset({"Online", "Unknown"}), down=_PORT_DOWN)
"""The same names for our own port. An adapter whose driver cannot tell says `Unknown`; then the other parts decide."""


def scsi_way(disk: str) -> Way | None:
    """The way to the block device in directory `disk`; None if it is no SCSI disk, or nothing tells of it.

    Raises:
        OSError: sysfs cannot be read.
    """
    device = follow(f"{disk}/device")
    if device is None or not _DEVICE.fullmatch(last_name(device)):
        return None
    name = last_name(disk)
    parts = [Part(name, f"{device}/state", DEVICE_WORDS), *_transport(device)]
    told = tuple(part for part in parts if exists(part.file))
    return Way(name, told) if told else None


def _transport(device: str) -> Iterator[Part]:
    """The sessions and ports among the directories above `device`: those of this disk and no others."""
    above, _, name = device.rpartition("/")
    while name:
        if _SESSION.fullmatch(name):
            yield Part(name, f"{above}/{name}/iscsi_session/{name}/state", SESSION_WORDS)
        elif _REMOTE_PORT.fullmatch(name):
            yield Part(name, f"{above}/{name}/fc_remote_ports/{name}/port_state", REMOTE_PORT_WORDS)
        elif _HOST.fullmatch(name):
            yield Part(f"FC {name}", f"{above}/{name}/fc_host/{name}/port_state", HOST_WORDS)
        above, _, name = above.rpartition("/")
