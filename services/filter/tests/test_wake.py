"""Wake notices: one per wave, kept while NATS is away, and silent before the service answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from leadsman.bus.subjects import WAKE
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.testing.reports import report, status, volume
from leadsman.wire.notices import WakeNotice, decode_wake
from leadsman_filter.wake import WakePublisher


class BusAtHand:
    """Takes messages like the real bus, or refuses them like one that is not connected."""

    def __init__(self) -> None:
        self.up = True
        self.sent: asyncio.Queue[WakeNotice] = asyncio.Queue()
        self.refused = asyncio.Event()
        self._callbacks: list[Callable[[], Awaitable[None]]] = []

    def on_connect(self, callback: Callable[[], Awaitable[None]]) -> None:
        self._callbacks.append(callback)

    async def publish(self, subject: str, body: bytes) -> bool:
        assert subject == WAKE
        if not self.up:
            self.refused.set()
            return False
        self.sent.put_nowait(decode_wake(body))
        return True

    async def connect(self) -> None:
        self.up = True
        for callback in self._callbacks:
            await callback()


class Filter:
    """An index with its wake publisher running."""

    def __init__(self) -> None:
        self.bus = BusAtHand()
        self.index = HealthIndex(StoragePolicy())
        self.opened = asyncio.Event()
        self.wake = WakePublisher(self.bus, self.index, "me", CollectorRegistry())  # type: ignore[arg-type]

    def say(self, node: str, state: State) -> None:
        self.index.apply(report(node, status("nfs/a", state)), 0, 0)
        self.wake.changed()

    async def notice(self) -> WakeNotice:
        async with asyncio.timeout(5):
            return await self.bus.sent.get()


@pytest.fixture
async def filter_() -> AsyncIterator[Filter]:
    parts = Filter()
    task = asyncio.create_task(parts.wake.run(parts.opened))
    yield parts
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_the_first_notice_comes_when_the_service_opens(filter_: Filter) -> None:
    """What recovers before is covered by it: pods may have been rejected while this replica was away."""
    filter_.say("n1", State.UNHEALTHY)
    filter_.say("n1", State.HEALTHY)
    await asyncio.sleep(0)
    assert filter_.bus.sent.empty()

    filter_.opened.set()
    assert await filter_.notice() == WakeNotice("me", filter_.index.changes, ["nfs/a"])


async def test_all_recoveries_of_one_turn_make_one_notice(filter_: Filter) -> None:
    """A thousand nodes that heal in one burst cost one message."""
    filter_.opened.set()
    await filter_.notice()
    for number in range(1000):
        filter_.say(f"n{number}", State.UNHEALTHY)
    for number in range(1000):
        filter_.say(f"n{number}", State.HEALTHY)

    assert await filter_.notice() == WakeNotice("me", filter_.index.changes, ["nfs/a"])
    assert filter_.bus.sent.empty()


async def test_a_volume_that_recovers_is_told_like_a_storage(filter_: Filter) -> None:
    """With a generation of its own, or the gateways would take the notice for one that they have seen."""
    filter_.opened.set()
    first = await filter_.notice()
    filter_.index.apply(report("n1", volumes=[volume("nfs/pv-1")]), 0, 0)
    filter_.index.apply(report("n1"), 0, 0)
    filter_.wake.changed()

    second = await filter_.notice()
    assert second.storages == ["nfs volume pv-1"]
    assert second.generation > first.generation


async def test_a_notice_that_nats_does_not_take_is_sent_after_the_next_connect(filter_: Filter) -> None:
    """A recovery during a short outage of the bus still wakes the pods, with everything that recovered meanwhile."""
    filter_.opened.set()
    await filter_.notice()
    filter_.bus.up = False
    filter_.say("n1", State.UNHEALTHY)
    filter_.say("n1", State.HEALTHY)
    async with asyncio.timeout(5):
        await filter_.bus.refused.wait()
    assert filter_.bus.sent.empty()

    await filter_.bus.connect()
    assert (await filter_.notice()).storages == ["nfs/a"]
    await filter_.bus.connect()
    await asyncio.sleep(0)
    assert filter_.bus.sent.empty()
