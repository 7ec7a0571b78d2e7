"""What fails beside storage and must not be taken for it: the collector itself, the API server (facts: 4, 5.4)."""

import signal
from collections.abc import AsyncIterator

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults.errors import StageError
from leadsman_faults.node import Node
from leadsman_faults.row import MOUNT_UP_S, Row, Rows, Subject, expect

ROWS = Rows("outages")

HUNG_S = 35.0


async def killed_while_hung(node: Node) -> AsyncIterator[Subject]:
    """Its worker is stuck on a mount and is left behind; another collector starts."""
    address = node.network.address()
    await node.nfs_server(address)
    volume = node.volume("nfs.csi.k8s.io", "collector-restart")
    server = await node.fuse(volume, f"{address}:/export")
    subject = node.subject_of(volume, StorageKey("nfs.csi.k8s.io", address))
    while True:
        yield subject
        server.send(signal.SIGUSR1)
        hung = node.pace.limit(2 * HUNG_S)
        await node.watch.until(lambda: node.watch.now(subject.key).state is State.UNHEALTHY, hung)
        await node.collector.restart()
        yield subject
        server.send(signal.SIGUSR2)


async def api_server_gone(node: Node) -> AsyncIterator[Subject]:
    """Nobody tells any more which drivers are registered; what was known stands."""
    csi_node = await node.csi_node()
    plugin = node.plugin("api-gone.faults.example")
    await plugin.start()
    await csi_node.register(plugin.name)
    subject = Subject(StorageKey(plugin.name))
    while True:
        yield subject
        if not csi_node.api.count("csinodes"):
            raise StageError("the collector has never asked the API server, so it cannot miss it")
        await csi_node.api.stop()
        yield subject
        await csi_node.api.start()


ROWS.add(
    Row(
        "collector-restart",
        "collector killed (SIGKILL) while a mount hangs, started again",
        ROWS.group,
        killed_while_hung,
        expects=(expect(State.UNHEALTHY, Reason.MOUNT_HUNG, within_s=HUNG_S),),
        hold_s=60.0,
        recover_s=MOUNT_UP_S,
        needs=("/dev/fuse",),
        soakable=False,
    )
)
ROWS.add(
    Row(
        "api-gone",
        "API server away for a minute",
        ROWS.group,
        api_server_gone,
        worst=State.HEALTHY,
        hold_s=60.0,
    )
)
