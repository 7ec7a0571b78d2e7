"""Ways to block devices that fail, in a sysfs of our own (facts: storage-health 2 rows 10 to 12)."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults.node import Node
from leadsman_faults.row import UP_S, Act, Row, Rows, Subject, expect_volume
from leadsman_faults.sysfs_tree import SysTree, scsi_state, set_state

ROWS = Rows("devices")

PATHS_S = 20.0

Change = tuple[Path, str, str]
"""A state file, the word for broken, and the word for well."""

Build = Callable[[SysTree], tuple[Path, list[Change]]]
"""Makes a disk and tells what will break it."""


def ways(name: str, build: Build) -> Act:
    """States in sysfs change under a mounted filesystem."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        volume, subject, disk, changes = await _mounted(node, name, build)
        del volume, disk
        while True:
            yield subject
            for file, broken, _ in changes:
                set_state(file, broken)
            yield subject
            for file, _, well in changes:
                set_state(file, well)

    return act


async def _mounted(node: Node, name: str, build: Build) -> tuple[Path, Subject, Path, list[Change]]:
    """A real filesystem, whose device is the disk that `build` makes."""
    tree = node.sys_tree()
    volume = node.volume(f"{name}.faults.example", name)
    image = await node.disk(volume, "ext4", 16)
    disk, changes = build(tree)
    entry = tree.stand_for(disk, image.device)
    return entry, node.subject_of(volume, StorageKey(volume.driver)), disk, changes


async def vanished_disk(node: Node) -> AsyncIterator[Subject]:
    """The disk is removed under its filesystem."""
    entry, subject, disk, _ = await _mounted(node, "disk-vanished", iscsi_session)
    while True:
        yield subject
        entry.unlink()
        yield subject
        node.sys_tree().stand_for(disk, entry.name)


def iscsi_session(tree: SysTree) -> tuple[Path, list[Change]]:
    """The only session of a disk fails."""
    disk, session = tree.iscsi_disk()
    return disk, [(session, "FAILED", "LOGGED_IN")]


def multipath(bad: int) -> Build:
    """`bad` of the two paths of a multipath map go offline."""

    def build(tree: SysTree) -> tuple[Path, list[Change]]:
        disks = [tree.iscsi_disk()[0] for _ in range(2)]
        return tree.multipath(*disks), [(scsi_state(disk), "offline", "running") for disk in disks[:bad]]

    return build


def fibre_channel(bad: int) -> Build:
    """`bad` of the two remote ports that a multipath map hangs on are blocked."""

    def build(tree: SysTree) -> tuple[Path, list[Change]]:
        disks = [tree.fc_disk() for _ in range(2)]
        return tree.multipath(*(disk for disk, _ in disks)), [(port, "Blocked", "Online") for _, port in disks[:bad]]

    return build


def nvme_controller(tree: SysTree) -> tuple[Path, list[Change]]:
    """One of the two controllers of an NVMe-oF namespace loses its connection."""
    namespace, states = tree.nvme_namespace()
    return namespace, [(states[0], "connecting", "live")]


def _add(name: str, fault: str, act: Act, reason: Reason) -> None:
    state = State.UNHEALTHY if reason is Reason.ALL_PATHS_DOWN else State.DEGRADED
    ROWS.add(
        Row(
            name,
            f"{fault} (sysfs fixture)",
            ROWS.group,
            act,
            expects=(expect_volume(reason, within_s=PATHS_S, state=state),),
            worst=State.DEGRADED,
            recover_s=UP_S,
            needs=("mkfs.ext4",),
        )
    )


_add("iscsi-session", "the only iSCSI session failed", ways("iscsi-session", iscsi_session), Reason.ALL_PATHS_DOWN)
_add("multipath-one", "one of two multipath paths offline", ways("multipath-one", multipath(1)), Reason.PATHS_DEGRADED)
_add("multipath-all", "both multipath paths offline", ways("multipath-all", multipath(2)), Reason.ALL_PATHS_DOWN)
_add("fc-one", "one of two FC remote ports blocked", ways("fc-one", fibre_channel(1)), Reason.PATHS_DEGRADED)
_add("fc-all", "both FC remote ports blocked", ways("fc-all", fibre_channel(2)), Reason.ALL_PATHS_DOWN)
_add("nvme-one", "one of two NVMe-oF controllers lost", ways("nvme-one", nvme_controller), Reason.PATHS_DEGRADED)
_add("disk-vanished", "disk removed under its filesystem", vanished_disk, Reason.ALL_PATHS_DOWN)
ROWS.absent("iscsi-real", "real iSCSI session lost", "this kernel has no SCSI and no iSCSI")
ROWS.absent("multipath-real", "real multipath map without paths", "this kernel has no device mapper")
