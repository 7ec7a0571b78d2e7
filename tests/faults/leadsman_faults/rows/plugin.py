"""CSI node plugins that die, freeze, start or update (facts: storage-health 2 rows 16 to 20; 6.4)."""

import shutil
import signal
from collections.abc import AsyncIterator

import grpc

from leadsman.csi.v1 import csi_pb2
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults.node import Node
from leadsman_faults.plugins import PluginDouble, leave_stale
from leadsman_faults.row import MINUTE_UP_S, Act, Expect, Row, Rows, Subject, expect, expect_volume

ROWS = Rows("plugin")

DEFINITE_S = 20.0
SILENT_S = 33.0
MINUTE_S = 75.0
"""Asked once a minute, with ten seconds to answer."""

AWAY_S = 25.0
"""Long enough to be noticed and reported, and within the grace of 30 s."""

ABSENT_S = 50.0
"""Noticed within 20 s, and then 30 s of grace in which it may be restarting."""


def _add(name: str, fault: str, act: Act, **how: object) -> None:
    ROWS.add(Row(name, fault, ROWS.group, act, **how))  # type: ignore[arg-type]


def _driver(name: str) -> str:
    return f"{name}.faults.example"


def _absent(reason: Reason) -> tuple[Expect, ...]:
    return (
        expect(State.DEGRADED, reason, within_s=DEFINITE_S),
        expect(State.UNHEALTHY, reason, within_s=ABSENT_S),
    )


async def _plugin(node: Node, name: str) -> tuple[PluginDouble, Subject]:
    plugin = node.plugin(_driver(name))
    await plugin.start()
    return plugin, Subject(StorageKey(plugin.name))


async def socket_missing(node: Node) -> AsyncIterator[Subject]:
    """The plugin stops and removes its socket."""
    plugin, subject = await _plugin(node, "socket-missing")
    while True:
        yield subject
        await plugin.stop()
        yield subject
        await plugin.start()


async def socket_refused(node: Node) -> AsyncIterator[Subject]:
    """The plugin is killed and leaves its socket."""
    plugin, subject = await _plugin(node, "socket-refused")
    while True:
        yield subject
        await plugin.stop()
        leave_stale(plugin.path)
        yield subject
        await plugin.start()


async def plugin_frozen(node: Node) -> AsyncIterator[Subject]:
    """SIGSTOP: the kernel goes on accepting."""
    process = await node.plugin_process(_driver("plugin-frozen"))
    subject = Subject(StorageKey(_driver("plugin-frozen")))
    while True:
        yield subject
        process.send(signal.SIGSTOP)
        yield subject
        process.send(signal.SIGCONT)


def answers(name: str, *, delay_share: float = 0.0, **traits: object) -> Act:
    """The plugin's Probe answers otherwise from now on; `delay_share` is the share of the deadline that it takes."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        plugin, subject = await _plugin(node, name)
        while True:
            yield subject
            plugin.say(delay_s=delay_share * node.pace.deadline_s, **traits)  # type: ignore[arg-type]
            yield subject
            plugin.say()

    return act


async def rolling_update(node: Node) -> AsyncIterator[Subject]:
    """The old pod ends, and the new one serves the same socket soon after."""
    plugin, subject = await _plugin(node, "rolling-update")
    while True:
        yield subject
        await plugin.stop()
        await node.lapse(AWAY_S)
        await plugin.start()
        yield subject


async def uninstalled(node: Node) -> AsyncIterator[Subject]:
    """The plugin goes with its directory, as when its DaemonSet is deleted."""
    plugin, subject = await _plugin(node, "uninstalled")
    while True:
        yield subject
        await plugin.stop()
        shutil.rmtree(plugin.path.parent)
        yield subject
        await plugin.start()


async def registration_refused(node: Node) -> AsyncIterator[Subject]:
    """The registrar is killed and leaves its socket; nobody but the socket tells whether the driver is registered."""
    plugin, subject = await _plugin(node, "registrar-killed")
    await plugin.start_registrar()
    while True:
        yield subject
        await plugin.stop_registrar()
        leave_stale(plugin.registrar)
        yield subject
        await plugin.start_registrar()


def own_word(name: str, status: csi_pb2.StorageHealthErrorType | None) -> Act:
    """The driver finds its storage so, or with None it never answers when asked about it."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        plugin = node.plugin(_driver(name), csi_pb2.NodeServiceCapability.RPC.GET_STORAGE_HEALTH)
        await plugin.start()
        subject = Subject(StorageKey(plugin.name))
        while True:
            yield subject
            plugin.storage = [] if status is None else [status]
            if status is None:
                plugin.answering.clear()
            yield subject
            plugin.storage = []
            plugin.answering.set()

    return act


async def volume_inaccessible(node: Node) -> AsyncIterator[Subject]:
    """The driver says of one volume that it cannot be reached."""
    plugin = node.plugin(_driver("volume-word"), csi_pb2.NodeServiceCapability.RPC.GET_VOLUME_HEALTH)
    await plugin.start()
    volume = node.volume(plugin.name, "volume-word", "the-handle")
    await node.disk(volume, "ext4", 16)
    subject = node.subject_of(volume, StorageKey(plugin.name))
    while True:
        yield subject
        plugin.inaccessible.add("the-handle")
        yield subject
        plugin.inaccessible.clear()


_add("socket-missing", "plugin socket gone", socket_missing, expects=_absent(Reason.DRIVER_SOCKET_MISSING))
_add(
    "socket-refused",
    "plugin socket left behind, nobody listens",
    socket_refused,
    expects=_absent(Reason.DRIVER_NOT_RESPONDING),
)
_add(
    "plugin-frozen",
    "plugin frozen (SIGSTOP)",
    plugin_frozen,
    expects=(expect(State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING, within_s=SILENT_S),),
)
_add(
    "plugin-too-slow",
    "plugin answers after its deadline",
    answers("plugin-too-slow", delay_share=2.0),
    expects=(expect(State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING, within_s=SILENT_S),),
)
_add(
    "plugin-slow",
    "plugin takes a third of its deadline",
    answers("plugin-slow", delay_share=1 / 3),
    worst=State.HEALTHY,
    hold_s=35.0,
    latency_s=1.0,
)
_add(
    "plugin-not-ready",
    "plugin says that it is not ready",
    answers("plugin-not-ready", ready=False),
    expects=(
        expect(State.DEGRADED, Reason.DRIVER_STARTING, within_s=DEFINITE_S),
        expect(State.UNHEALTHY, Reason.DRIVER_STARTING, within_s=140.0),
    ),
)
_add(
    "plugin-fails",
    "plugin's Probe fails",
    answers("plugin-fails", error=grpc.StatusCode.FAILED_PRECONDITION),
    expects=(expect(State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING, within_s=DEFINITE_S),),
)
_add(
    "plugin-unimplemented",
    "plugin does not implement Probe",
    answers("plugin-unimplemented", error=grpc.StatusCode.UNIMPLEMENTED),
    worst=State.HEALTHY,
    hold_s=35.0,
)
_add(
    "rolling-update",
    "plugin away for 25 s (rolling update)",
    rolling_update,
    expects=(expect(State.DEGRADED, Reason.DRIVER_SOCKET_MISSING, within_s=DEFINITE_S),),
    worst=State.DEGRADED,
    hold_s=20.0,
    passing=True,
)
_add(
    "uninstalled",
    "plugin gone with its directory",
    uninstalled,
    expects=(expect(State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING, within_s=ABSENT_S),),
    worst=State.DEGRADED,
)
_add(
    "registrar-killed",
    "registration socket left behind, nobody listens",
    registration_refused,
    expects=_absent(Reason.DRIVER_NOT_REGISTERED),
)
_add(
    "storage-unreachable",
    "driver says that its storage cannot be reached",
    own_word("storage-unreachable", csi_pb2.STORAGE_UNREACHABLE),
    expects=(expect(State.UNHEALTHY, Reason.STORAGE_UNREACHABLE, within_s=MINUTE_S),),
    recover_s=MINUTE_UP_S,
)
_add(
    "storage-degraded",
    "driver says that its storage is degraded",
    own_word("storage-degraded", csi_pb2.STORAGE_DEGRADED),
    expects=(expect(State.DEGRADED, Reason.STORAGE_DEGRADED, within_s=2 * MINUTE_S),),
    worst=State.DEGRADED,
    recover_s=MINUTE_UP_S,
)
_add(
    "storage-word-hangs",
    "driver never answers when asked about its storage",
    own_word("storage-word-hangs", None),
    worst=State.HEALTHY,
    hold_s=150.0,
)
_add(
    "volume-word",
    "driver says that one volume cannot be reached",
    volume_inaccessible,
    expects=(expect_volume(Reason.VOLUME_UNHEALTHY, within_s=MINUTE_S),),
    worst=State.DEGRADED,
    recover_s=MINUTE_UP_S,
    min_period_s=10.0,
    needs=("mkfs.ext4",),
)
ROWS.absent("gpu-hangs", "GPU driver call hangs", "this machine has no GPU")
