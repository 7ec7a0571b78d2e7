"""What the kernel says about itself: support for filesystems, and pressure (facts: storage-health 2 rows 30, 31)."""

from collections.abc import AsyncIterator

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults.node import Node
from leadsman_faults.row import UP_S, Row, Rows, Subject, expect

ROWS = Rows("kernel")

SUPPORT_S = 310.0
"""Looked at every five minutes."""

PRESSURE_S = 15.0


async def filesystem_unknown(node: Node) -> AsyncIterator[Subject]:
    """The kernel no longer knows the filesystem of a driver, and has no module for it."""
    driver = "smb.csi.k8s.io"
    tree = node.proc_tree()
    tree.set_filesystems("ext4", "cifs")
    await node.plugin(driver).start()
    while True:
        yield Subject(StorageKey(driver))
        tree.set_filesystems("ext4")
        yield Subject(StorageKey(driver))
        tree.set_filesystems("ext4", "cifs")


async def io_pressure(node: Node) -> AsyncIterator[Subject]:
    """Tasks are stalled on IO most of the time."""
    tree = node.proc_tree()
    volume = node.volume("pressed.faults.example", "pressed")
    await node.disk(volume, "ext4", 16)
    subject = Subject(StorageKey(volume.driver))
    while True:
        yield subject
        tree.set_io_pressure(95.0)
        yield subject
        tree.set_io_pressure(0.0)


ROWS.add(
    Row(
        "kernel-support",
        "kernel does not know the filesystem (proc fixture)",
        ROWS.group,
        filesystem_unknown,
        expects=(expect(State.UNHEALTHY, Reason.KERNEL_SUPPORT_MISSING, within_s=SUPPORT_S),),
        recover_s=SUPPORT_S,
        min_period_s=2.0,
    )
)
ROWS.add(
    Row(
        "io-pressure",
        "tasks stalled on IO 95 % of a minute (proc fixture)",
        ROWS.group,
        io_pressure,
        expects=(expect(State.DEGRADED, Reason.IO_PRESSURE, within_s=PRESSURE_S),),
        worst=State.DEGRADED,
        recover_s=UP_S,
        needs=("mkfs.ext4",),
    )
)
