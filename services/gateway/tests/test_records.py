"""Records tell what was decided and why, in bounded size, and never hold anything up."""

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.reasons import Reason
from leadsman.domain.verdicts import FilterAnswer, Rejection
from leadsman.testing.clock import FakeClock
from leadsman.wire.decision import MAX_NODES, decode_decision
from leadsman.wire.pod import ObjectMeta, Pod
from leadsman_gateway import records
from leadsman_gateway.decider import Ruling
from leadsman_gateway.extender import Decision
from leadsman_gateway.hop.answers import FilterTable, none_pass
from leadsman_gateway.metrics import GatewayMetrics
from leadsman_gateway.records import DecisionRecorder

POD = Pod(ObjectMeta(name="db-0", namespace="shop", uid="u-1"))
NODES = [f"node-{number}" for number in range(MAX_NODES * 2)]
HUNG = Rejection(Reason.MOUNT_HUNG, "a.csi")


def decision(table: FilterTable) -> Decision:
    """A filter call about NODES."""
    return Decision("filter", POD, len(NODES), verdicts=Ruling("decided", table), failed=table.failed(NODES).all)


class Publisher:
    """Keeps bodies, and in which turn of the event loop each came."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self.came_in: list[int] = []
        self.turn = 0

    async def publish(self, subject: str, body: bytes) -> bool:
        self.bodies.append((subject, body))
        self.came_in.append(self.turn)
        return True

    async def count_turns(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not done():
                self.turn += 1
                await asyncio.sleep(0)


@pytest.fixture
def recorder():
    """Makes a recorder and its registry."""

    def make(publisher: Publisher, capacity: int = 10):
        registry = CollectorRegistry()
        metrics = GatewayMetrics(registry)
        made = DecisionRecorder(publisher, clock=FakeClock(), metrics=metrics, registry=registry, capacity=capacity)
        return made, registry

    return make


async def test_full_queue_drops_and_counts(recorder):
    """A flood of decisions costs records, not memory."""
    one, registry = recorder(Publisher(), capacity=2)
    for _ in range(5):
        one.record(decision(none_pass(HUNG)))

    dropped = registry.get_sample_value("leadsman_gateway_decision_records_dropped_total", {"cause": "queue_full"})
    assert dropped == 3


async def test_records_are_made_a_few_at_a_time_and_sent_together(recorder, monkeypatch):
    """One write carries many, and no request waits for more than a few; later records begin a new batch."""
    monkeypatch.setattr(records, "COLLECT_S", 0.01)
    publisher = Publisher()
    one, registry = recorder(publisher, capacity=100)
    running = asyncio.create_task(one.run())
    for expected in (20, 40):
        for _ in range(20):
            one.record(decision(FilterTable(FilterAnswer({}))))
        await publisher.count_turns(lambda expected=expected: len(publisher.bodies) == expected)
    running.cancel()

    first, second = set(publisher.came_in[:20]), set(publisher.came_in[20:])
    assert (len(first), len(second), len(first | second)) == (1, 1, 2)
    assert min(first) > 20 / records.SLICE
    assert registry.get_sample_value("leadsman_gateway_decision_records_published_total") == 40


async def test_large_records_are_sent_in_several_writes(recorder):
    """What a bus lets wait is bounded; a batch must stay far below."""
    publisher = Publisher()
    one, _ = recorder(publisher, capacity=100)
    running = asyncio.create_task(one.run())
    for _ in range(60):
        one.record(decision(none_pass(HUNG)))
    await asyncio.gather(one.flush(), publisher.count_turns(lambda: len(publisher.bodies) == 60))
    running.cancel()

    assert len(set(publisher.came_in)) > 1


async def test_crowd_is_not_kept_waiting(recorder, monkeypatch):
    """Waiting decisions hold memory, so many of them are published at once."""
    monkeypatch.setattr(records, "COLLECT_S", 60)
    publisher = Publisher()
    one, _ = recorder(publisher, capacity=100)
    running = asyncio.create_task(one.run())
    for _ in range(64):
        one.record(decision(none_pass(HUNG)))
    await publisher.count_turns(lambda: len(publisher.bodies) == 64)
    running.cancel()


async def test_queued_records_are_published_before_the_end(recorder):
    """`flush` waits for them; reasons are counted per node on the way."""
    publisher = Publisher()
    one, registry = recorder(publisher)
    running = asyncio.create_task(one.run())
    for _ in range(3):
        one.record(decision(none_pass(HUNG)))
    await one.flush()
    running.cancel()
    await asyncio.wait({running})

    assert [subject for subject, _ in publisher.bodies] == ["leadsman.v1.decision.filter"] * 3
    assert decode_decision(publisher.bodies[0][1]).pod == "db-0"
    rejected = {"verb": "filter", "reason": "MountHung"}
    assert registry.get_sample_value("leadsman_gateway_rejected_nodes_total", rejected) == 3 * len(NODES)
