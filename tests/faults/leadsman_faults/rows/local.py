"""Filesystems on block devices that fail, fill up or lose their backing store (facts: storage-health 2, 6.5)."""

from collections.abc import AsyncIterator

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults.commands import run
from leadsman_faults.node import Node
from leadsman_faults.row import MINUTE_UP_S, MOUNT_UP_S, Act, Row, Rows, Subject, expect, expect_volume
from leadsman_faults.volumes import DiskImage, Volume, publish

ROWS = Rows("local")

FLAG_S = 20.0
ERROR_S = 20.0
CAPACITY_S = 60.0

CANARY_S = 60.0 + 30.0 + 10.0
"""Written once a minute, with a second try after half of it."""

_XFS_MB = 300
"""The smallest that mkfs.xfs makes."""


def _add(name: str, fault: str, act: Act, **how: object) -> None:
    given: dict[str, object] = {"worst": State.DEGRADED, "recover_s": MOUNT_UP_S, "needs": ("mkfs.ext4",), **how}
    ROWS.add(Row(name, fault, ROWS.group, act, **given))  # type: ignore[arg-type]


def _driver(name: str) -> str:
    return f"{name}.faults.example"


async def _disk(
    node: Node, name: str, kind: str, size_mb: int, *options: str, mkfs: tuple[str, ...] = ()
) -> tuple[Volume, DiskImage, Subject]:
    """A volume on a disk of its own, beside a second one of the same driver that stays well."""
    volume, other = node.volume(_driver(name), name), node.volume(_driver(name), f"{name}-beside")
    disk = await node.disk(volume, kind, size_mb, *options, mkfs=mkfs)
    await node.disk(other, "ext4", 16)
    return volume, disk, node.subject_of(volume, StorageKey(volume.driver), (other.name,))


async def filesystem_error(node: Node) -> AsyncIterator[Subject]:
    """ext4 meets an error and turns itself read-only."""
    _, disk, subject = await _disk(node, "ext4-error", "ext4", 16, "errors=remount-ro")
    while True:
        yield subject
        disk.trigger_error()
        yield subject
        await disk.renew()


async def error_goes_on(node: Node) -> AsyncIterator[Subject]:
    """ext4 meets an error and is told to go on: only its counter shows it."""
    _, disk, subject = await _disk(node, "ext4-continues", "ext4", 16, "errors=continue")
    while True:
        yield subject
        disk.trigger_error()
        yield subject
        await disk.renew()


def shut_down(name: str, kind: str, size_mb: int) -> Act:
    """The filesystem refuses all further IO."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        _, disk, subject = await _disk(node, name, kind, size_mb)
        while True:
            yield subject
            disk.shut_down()
            yield subject
            await disk.renew()

    return act


async def remounted_read_only(node: Node) -> AsyncIterator[Subject]:
    """Somebody, or a driver, remounts a volume read-only."""
    volume, _, subject = await _disk(node, "remounted-ro", "ext4", 16)
    while True:
        yield subject
        await run("mount", "-o", "remount,ro", str(volume.place))
        yield subject
        await run("mount", "-o", "remount,rw", str(volume.place))


async def read_only_publish(node: Node) -> AsyncIterator[Subject]:
    """A pod gets a volume read-only, as it asked for: the mount point is `ro`, the filesystem is not."""
    staged, _, subject = await _disk(node, "ro-publish", "ext4", 16)
    while True:
        yield subject
        published = publish(node.kubelet, staged.driver, f"{staged.name}-ro", f"{staged.name}-handle")
        await run("mount", "--bind", str(staged.place), str(published.place))
        await run("mount", "-o", "remount,bind,ro", str(published.place))
        yield subject
        await run("umount", str(published.place))


async def full_by_blocks(node: Node) -> AsyncIterator[Subject]:
    """No space left for users; root could still write."""
    _, disk, subject = await _disk(node, "full-blocks", "ext4", 16)
    while True:
        yield subject
        disk.fill(share=0.985)
        yield subject
        disk.empty()


async def full_by_inodes(node: Node) -> AsyncIterator[Subject]:
    """Space, but no inodes."""
    _, disk, subject = await _disk(node, "full-inodes", "ext4", 16, mkfs=("-N", "128"))
    while True:
        yield subject
        disk.fill_inodes(share=0.98)
        yield subject
        disk.empty()


async def thin_store_full(node: Node) -> AsyncIterator[Subject]:
    """The image's own store is too small: what is written cannot be kept, though the filesystem shows free space."""
    store = node.directory / "thin"
    store.mkdir()
    await run("mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(store))
    volume = node.volume(_driver("thin-full"), "thin-full")
    disk = DiskImage(store / "image", volume.place, "ext4", 64, "errors=remount-ro")
    await disk.make()
    other = node.volume(volume.driver, "thin-full-beside")
    await node.disk(other, "ext4", 16)
    subject = node.subject_of(volume, StorageKey(volume.driver), (other.name,))
    while True:
        yield subject
        await disk.overfill()
        yield subject
        await disk.renew()


async def canary_on_failing_disk(node: Node) -> AsyncIterator[Subject]:
    """A disk that the collector writes its canaries to refuses IO; nothing of it is a volume."""
    key = StorageKey(_driver("canary"))
    place = node.directory / "canary"
    place.mkdir()
    disk = DiskImage(node.directory / "images" / "canary", place, "ext4", 16)
    await disk.make()
    (place / "leadsman").mkdir()
    node.collector.canary(key, place / "leadsman")
    await node.plugin(key.driver).start()  # a canary that is well says nothing by itself
    subject = Subject(key)
    while True:
        yield subject
        disk.shut_down()
        yield subject
        await disk.renew()
        (place / "leadsman").mkdir()


_add(
    "ext4-error",
    "ext4 error, filesystem turns emergency_ro",
    filesystem_error,
    expects=(expect_volume(Reason.READ_ONLY_FILESYSTEM, Reason.FILESYSTEM_ERRORS, within_s=FLAG_S),),
)
_add(
    "ext4-continues",
    "ext4 error, filesystem goes on (errors_count)",
    error_goes_on,
    expects=(expect(State.DEGRADED, Reason.FILESYSTEM_ERRORS, within_s=FLAG_S),),
)
_add(
    "ext4-shutdown",
    "ext4 shut down",
    shut_down("ext4-shutdown", "ext4", 16),
    expects=(
        expect_volume(Reason.MOUNT_IO_ERROR, Reason.READ_ONLY_FILESYSTEM, Reason.FILESYSTEM_ERRORS, within_s=FLAG_S),
    ),
)
_add(
    "xfs-shutdown",
    "XFS shut down",
    shut_down("xfs-shutdown", "xfs", _XFS_MB),
    expects=(expect_volume(Reason.MOUNT_IO_ERROR, within_s=ERROR_S),),
    needs=("mkfs.xfs", "mkfs.ext4", "fs:xfs"),
)
_add(
    "remounted-ro",
    "volume remounted read-only",
    remounted_read_only,
    expects=(expect_volume(Reason.READ_ONLY_FILESYSTEM, within_s=FLAG_S, state=State.DEGRADED),),
)
_add(
    "ro-publish",
    "volume published read-only (bind mount)",
    read_only_publish,
    worst=State.HEALTHY,
    hold_s=45.0,
)
_add(
    "full-blocks",
    "filesystem full by blocks",
    full_by_blocks,
    expects=(expect_volume(Reason.CAPACITY_LOW, within_s=CAPACITY_S, state=State.DEGRADED),),
    worst=State.HEALTHY,
    recover_s=MINUTE_UP_S,
)
_add(
    "full-inodes",
    "filesystem full by inodes",
    full_by_inodes,
    expects=(expect_volume(Reason.CAPACITY_LOW, within_s=CAPACITY_S, state=State.DEGRADED),),
    worst=State.HEALTHY,
    recover_s=MINUTE_UP_S,
)
_add(
    "thin-full",
    "thin backing store full, fsync fails",
    thin_store_full,
    expects=(
        expect_volume(Reason.FILESYSTEM_ERRORS, Reason.READ_ONLY_FILESYSTEM, Reason.MOUNT_IO_ERROR, within_s=FLAG_S),
    ),
)
_add(
    "canary-fails",
    "canary IO on a disk that refuses it",
    canary_on_failing_disk,
    expects=(expect(State.UNHEALTHY, Reason.MOUNT_IO_ERROR, Reason.READ_ONLY_FILESYSTEM, within_s=CANARY_S),),
    worst=State.UNHEALTHY,
    recover_s=MINUTE_UP_S,
)
ROWS.absent("dm-error", "disk with bad sectors", "this kernel has no device mapper (dm-error, dm-flakey)")
