"""Wake notices: one per wave, kept while NATS is away, and silent before the service answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from leadsman.bus.subjects import WAKE
from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.label_test import LabelTest
from leadsman.domain.pod_selectors import Operator, Term
from leadsman.domain.policy import Mode, Rule, SchedulingPolicy
from leadsman.domain.report import NodeReport, Sequence
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.testing.reports import report, status, volume
from leadsman.wire.notices import WakeNotice, decode_wake
from leadsman_filter.view import FilterView
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


GPU_NODES = Rule("gpu-nodes", require=LabelTest((Term("node-type", Operator.IN, ("gpu",)),)))


class Filter:
    """Indices with their wake publisher running."""

    def __init__(self) -> None:
        self.bus = BusAtHand()
        self.changes = ChangeCounter()
        self.index = HealthIndex(StoragePolicy(), self.changes)
        self.facts = FactIndex(StoragePolicy())
        self.view = self.view_of(SchedulingPolicy(rules=(GPU_NODES,), fingerprint="first"))
        self.opened = asyncio.Event()
        self.wake = WakePublisher(
            self.bus,  # type: ignore[arg-type]
            self.index,
            lambda: self.view,
            "me",
            CollectorRegistry(),
        )

    def view_of(self, policy: SchedulingPolicy) -> FilterView:
        return FilterView(self.index, self.facts, self.changes, policy)

    def label(self, node: str, **labels: str) -> None:
        self.facts.apply(NodeReport(node, Sequence(1, self.changes.next()), 10, (), labels=labels), 0, 0)
        self.wake.changed()

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


async def test_a_node_that_begins_to_meet_a_rule_wakes_the_pods(filter_: Filter) -> None:
    """The API server's own event came before its label was in force here."""
    filter_.opened.set()
    first = await filter_.notice()
    filter_.label("n1", role="other")
    await asyncio.sleep(0)
    assert filter_.bus.sent.empty()
    filter_.label("n1", **{"node-type": "gpu"})
    second = await filter_.notice()
    assert second.storages == ["rule gpu-nodes"]
    assert second.generation > first.generation


async def test_a_new_policy_wakes_the_pods(filter_: Filter) -> None:
    """Whom it lets pass is not known, so all that wait are tried; in words that people understand."""
    filter_.opened.set()
    await filter_.notice()
    filter_.view = filter_.view_of(SchedulingPolicy(fingerprint="second"))
    filter_.wake.policy_changed()
    assert (await filter_.notice()).storages == ["policy second"]


async def test_nobody_is_woken_by_a_policy_that_rejects_nobody(filter_: Filter) -> None:
    """In shadow mode no pod waits; the first policy that enforces wakes, and tells nothing of before."""
    filter_.opened.set()
    await filter_.notice()
    filter_.view = filter_.view_of(SchedulingPolicy(mode=Mode.SHADOW, rules=(GPU_NODES,)))
    filter_.say("n1", State.UNHEALTHY)
    filter_.say("n1", State.HEALTHY)
    filter_.label("n1", **{"node-type": "cpu"})
    filter_.label("n1", **{"node-type": "gpu"})
    await asyncio.sleep(0)
    assert filter_.bus.sent.empty()
    filter_.view = filter_.view_of(SchedulingPolicy(fingerprint="second"))
    filter_.wake.policy_changed()
    assert (await filter_.notice()).storages == ["policy second"]


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
