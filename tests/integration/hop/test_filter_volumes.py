"""leadsman-filter as a process: what it says of single volumes, and of nodes with several reporters."""

import asyncio
from typing import Any

import pytest

from leadsman.bus.subjects import WAKE
from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman.domain.verdicts import FilterAnswer, Rejection
from leadsman.testing.reports import report, status, volume
from leadsman.wire.hop import decode_filter_answer, unpack_rejections
from leadsman.wire.notices import WakeNotice, decode_wake

pytestmark = pytest.mark.integration

HUNG = Rejection(Reason.MOUNT_HUNG, "nfs")
STALE_HANDLE = Rejection(Reason.STALE_FILE_HANDLE, "nfs")


async def verdict_of(stream: Any, storage: str, node: str) -> Rejection | None:
    return decode_filter_answer(await stream.ask(storage)).verdict(node)


async def test_a_bad_volume_rejects_for_its_pods_only_and_its_recovery_wakes_them(fleet: Any) -> None:
    """The answers of the storage stay as they are, for thousands of volumes; what is said of one comes beside them."""
    notices: asyncio.Queue[WakeNotice] = asyncio.Queue()
    client = await fleet.client()

    async def heard(msg: Any) -> None:
        notices.put_nowait(decode_wake(msg.data))

    await client.subscribe(WAKE, cb=heard)
    await client.flush()
    await fleet.publish(
        report("node-1", status("nfs/a", State.DEGRADED), volumes=[volume("nfs/pv-1")]),
        report("node-2", status("nfs/a", State.UNHEALTHY)),
    )
    service = await fleet.start("filter")
    stream = service.filter()
    await stream.read()
    async with asyncio.timeout(10):
        await notices.get()

    first = await stream.ask("nfs/a/pv-2")
    assert decode_filter_answer(first) == FilterAnswer({"node-2": HUNG})
    again = await stream.ask("nfs/a/pv-1", known=first.generation)
    assert (again.WhichOneof("answer"), again.generation) == ("unchanged", first.generation)
    assert unpack_rejections(again.volumes) == {"node-1": STALE_HANDLE}
    whole = decode_filter_answer(await stream.ask("nfs/a/pv-1", "nfs/a/pv-2"))
    assert whole.verdict("node-1") == STALE_HANDLE
    assert whole.verdict("node-2") == HUNG
    assert await service.metric("leadsman_filter_answers") == 1
    assert await service.metric('leadsman_filter_volumes_rejected{reason="StaleFileHandle"}') == 1
    assert await service.metric("leadsman_cache_bad_volumes") == 1

    await fleet.publish(report("node-1", status("nfs/a", State.DEGRADED), seq=2))
    async with asyncio.timeout(10):
        notice = await notices.get()
    assert notice.storages == ["nfs volume pv-1"]
    assert await verdict_of(stream, "nfs/a/pv-1", "node-1") is None


async def test_a_sidecar_and_the_agent_of_a_node_are_heard_together(fleet: Any) -> None:
    """A replica that starts later reads both back; neither replaced the other on the bus."""
    await fleet.publish(
        report("node-1", status("smb", State.HEALTHY)),
        report("node-1", status("nfs", State.HEALTHY), status("nfs/a", State.UNHEALTHY), scope="nfs"),
    )
    await fleet.publish(report("node-1", status("smb", State.UNHEALTHY), seq=2))
    service = await fleet.start("filter")
    await service.ready()
    stream = service.filter()
    await stream.read()

    assert await verdict_of(stream, "nfs/a", "node-1") == HUNG
    assert await verdict_of(stream, "smb", "node-1") == Rejection(Reason.MOUNT_HUNG, "smb")
    assert "[+]nodes all 1 report" in (await service.get("/readyz?verbose"))[1]
