"""Mounts that hang, vanish or return errors: a FUSE filesystem that looks like NFS (facts: storage-health 2, 6)."""

import signal
from collections.abc import AsyncIterator

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults.collector import NFS_PORT
from leadsman_faults.node import Node
from leadsman_faults.row import MINUTE_UP_S, MOUNT_UP_S, Act, Row, Rows, Subject, expect, expect_volume
from leadsman_faults.volumes import fuse_gone

ROWS = Rows("mounts")

NFS = "nfs.csi.k8s.io"
HUNG_S = 35.0
ERROR_S = 20.0
CAPACITY_S = 60.0


def _add(name: str, fault: str, act: Act, **how: object) -> None:
    given: dict[str, object] = {"recover_s": MOUNT_UP_S, "needs": ("/dev/fuse",), **how}
    ROWS.add(Row(name, fault, ROWS.group, act, **given))  # type: ignore[arg-type]


def told(name: str, sent: signal.Signals, *arguments: str) -> Act:
    """A mount that goes bad on a signal, and well on SIGUSR2 or, when frozen, on SIGCONT."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        address = node.network.address()
        await node.nfs_server(address)
        volume = node.volume(NFS, name)
        server = await node.fuse(volume, f"{address}:/export", *arguments)
        subject = node.subject_of(volume, StorageKey(NFS, address))
        while True:
            yield subject
            server.send(sent)
            yield subject
            server.send(signal.SIGCONT if sent is signal.SIGSTOP else signal.SIGUSR2)

    return act


async def killed_fuse_server(node: Node) -> AsyncIterator[Subject]:
    """SIGKILL leaves the mount behind; a new one takes its place."""
    address = node.network.address()
    await node.nfs_server(address)
    volume = node.volume(NFS, "fuse-killed")
    server = await node.fuse(volume, f"{address}:/export")
    subject = node.subject_of(volume, StorageKey(NFS, address))
    while True:
        yield subject
        server.kill()
        yield subject
        await fuse_gone(server, volume.place)
        server = await node.fuse(volume, f"{address}:/export")


async def dead_server_behind_mount(node: Node) -> AsyncIterator[Subject]:
    """The mount asks its server before it answers anything, so one rule hangs both."""
    key = await node.nfs_backend(NFS)
    volume = node.volume(NFS, "nfs-end-to-end")
    await node.fuse(volume, f"{key.backend}:/export", "--through", f"{key.backend}:{NFS_PORT}")
    subject = node.subject_of(volume, key)
    while True:
        yield subject
        await node.network.rule("nfs-end-to-end", f"input ip daddr {key.backend} counter drop")
        yield subject
        await node.network.lift("nfs-end-to-end")


def many(name: str, bad: int, of: int) -> Act:
    """A backend with `of` mounts, of which `bad` turn stale."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        address = node.network.address()
        await node.nfs_server(address)
        volumes = [node.volume(NFS, f"{name}-{number}") for number in range(of)]
        servers = [
            await node.fuse(volume, f"{address}:/export/{volume.name}", "--error", "ESTALE", "--later")
            for volume in volumes
        ]
        well = tuple(volume.name for volume in volumes[bad:])
        subject = node.subject_of(volumes[0], StorageKey(NFS, address), well)
        while True:
            yield subject
            for server in servers[:bad]:
                server.send(signal.SIGHUP)
            yield subject
            for server in servers[:bad]:
                server.send(signal.SIGUSR2)

    return act


def slow(name: str, delay_s: float) -> Act:
    """A mount that answers after `delay_s` at the table's period."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        delay = f"{node.pace.seconds(delay_s):g}"
        async for subject in told(name, signal.Signals(signal.SIGRTMIN), "--delay", delay)(node):
            yield subject

    return act


_HUNG = (expect(State.UNHEALTHY, Reason.MOUNT_HUNG, within_s=HUNG_S),)

_add("mount-hung", "mount hangs, waiters cannot be killed", told("mount-hung", signal.SIGUSR1), expects=_HUNG)
_add(
    "mount-hung-killable",
    "mount hangs, waiters can be killed",
    told("mount-hung-killable", signal.SIGUSR1, "--killable"),
    expects=_HUNG,
)
_add("fuse-frozen", "FUSE server frozen (SIGSTOP)", told("fuse-frozen", signal.SIGSTOP), expects=_HUNG)
_add(
    "nfs-end-to-end",
    "server's packets dropped, its mount hangs with it",
    dead_server_behind_mount,
    expects=(
        expect(State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT, Reason.PROTOCOL_TIMEOUT, Reason.MOUNT_HUNG, within_s=33.0),
    ),
)
_add(
    "fuse-killed",
    "FUSE server killed (ENOTCONN)",
    killed_fuse_server,
    expects=(expect_volume(Reason.MOUNT_DISCONNECTED, within_s=ERROR_S),),
    worst=State.DEGRADED,
)
for _errno, _reason in (
    ("ESTALE", Reason.STALE_FILE_HANDLE),
    ("EIO", Reason.MOUNT_IO_ERROR),
    ("EACCES", Reason.ACCESS_REVOKED),
):
    _add(
        f"mount-{_errno.lower()}",
        f"mount returns {_errno}",
        told(f"mount-{_errno.lower()}", signal.SIGHUP, "--error", _errno, "--later"),
        expects=(expect_volume(_reason, within_s=ERROR_S),),
        worst=State.DEGRADED,
    )
_add(
    "one-bad-volume",
    "one volume of five on a backend turns stale",
    many("one-bad-volume", 1, 5),
    expects=(
        expect_volume(Reason.STALE_FILE_HANDLE, within_s=ERROR_S),
        expect(State.DEGRADED, Reason.STALE_FILE_HANDLE, within_s=ERROR_S),
    ),
    worst=State.DEGRADED,
)
_add(
    "all-volumes-bad",
    "all three volumes of a backend turn stale",
    many("all-volumes-bad", 3, 3),
    expects=(expect(State.UNHEALTHY, Reason.STALE_FILE_HANDLE, within_s=ERROR_S),),
)
_add(
    "mount-slow",
    "mount slower by 0.7 s",
    slow("mount-slow", 0.7),
    worst=State.HEALTHY,
    hold_s=60.0,
    latency_s=0.7,
)
_add(
    "mount-very-slow",
    "mount slower by 3 s",
    slow("mount-very-slow", 3.0),
    expects=(expect(State.DEGRADED, Reason.HIGH_LATENCY, within_s=60.0),),
    worst=State.DEGRADED,
    min_period_s=10.0,
    recover_s=120.0,
)
_add(
    "mount-full",
    "network filesystem full by blocks",
    told("mount-full", signal.Signals(signal.SIGRTMAX)),
    expects=(expect(State.DEGRADED, Reason.CAPACITY_LOW, within_s=CAPACITY_S),),
    worst=State.DEGRADED,
    recover_s=MINUTE_UP_S,
)
ROWS.absent("nfs-kernel", "kernel NFS mount of a dead server", "this kernel has no NFS client; see nfs-end-to-end")
ROWS.absent("cephfs-kernel", "CephFS client evicted", "this kernel has no Ceph client")
