"""Drivers that the kubelet does not know, or no longer (facts: storage-health 2 rows 17 to 20), and their own word."""

from collections.abc import AsyncIterator

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults.node import Node
from leadsman_faults.row import MINUTE_UP_S, UP_S, Act, Row, Rows, Subject, expect

ROWS = Rows("registration")

NOTICED_S = 20.0
ABSENT_S = 50.0
MINUTE_S = 75.0
"""Asked once a minute, with ten seconds to answer."""


def _driver(name: str) -> str:
    return f"{name}.faults.example"


def entry_gone(name: str, back_after_s: float | None = None) -> Act:
    """The driver vanishes from CSINode while its plugin is well; it comes back by itself after `back_after_s`."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        driver = _driver(name)
        csi_node = await node.csi_node()
        plugin = node.plugin(driver)
        await plugin.start()
        await plugin.start_registrar()
        await csi_node.register(driver)
        while True:
            yield Subject(StorageKey(driver))
            await csi_node.unregister(driver)
            if back_after_s is not None:
                await node.lapse(back_after_s)
                await csi_node.register(driver)
            yield Subject(StorageKey(driver))
            await csi_node.register(driver)

    return act


async def kubelets_word(node: Node) -> AsyncIterator[Subject]:
    """The kubelet has heard from the driver that its storage cannot be reached."""
    driver = _driver("kubelet-says")
    csi_node = await node.csi_node()
    await node.plugin(driver).start()
    await csi_node.register(driver)
    while True:
        yield Subject(StorageKey(driver))
        await csi_node.set_storage_health(driver, "StorageUnreachable")
        yield Subject(StorageKey(driver))
        await csi_node.set_storage_health(driver, "")


ROWS.add(
    Row(
        "not-in-csinode",
        "driver gone from CSINode, its plugin is well",
        ROWS.group,
        entry_gone("not-in-csinode"),
        expects=(
            expect(State.DEGRADED, Reason.DRIVER_NOT_REGISTERED, within_s=NOTICED_S),
            expect(State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED, within_s=ABSENT_S),
        ),
        recover_s=UP_S,
    )
)
ROWS.add(
    Row(
        "csinode-blinks",
        "driver gone from CSINode for 25 s (restart)",
        ROWS.group,
        entry_gone("csinode-blinks", back_after_s=25.0),
        expects=(expect(State.DEGRADED, Reason.DRIVER_NOT_REGISTERED, within_s=NOTICED_S),),
        passing=True,
        worst=State.DEGRADED,
        hold_s=45.0,
    )
)
ROWS.add(
    Row(
        "kubelet-says",
        "CSINode.status.storageHealth says StorageUnreachable",
        ROWS.group,
        kubelets_word,
        expects=(expect(State.UNHEALTHY, Reason.STORAGE_UNREACHABLE, within_s=MINUTE_S),),
        recover_s=MINUTE_UP_S,
    )
)
