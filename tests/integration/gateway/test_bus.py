"""What the gateway says and hears on a real NATS: decision records, the backend list, and wake-ups."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus, BusSettings
from leadsman.bus.subjects import BACKENDS, DECISION, WAKE
from leadsman.domain.verdicts import Column
from leadsman.testing.nats import NatsServer
from leadsman.wire.decision import Breakdown, RejectedNodes, decode_decision
from leadsman.wire.notices import WakeNotice, decode_backends, encode_notice

pytestmark = pytest.mark.integration

NODES = ("node-1", "node-2")
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec: {csi: {driver: nfs.csi.k8s.io, volumeHandle: h, volumeAttributes: {server: nas-a, share: exports}}}
"""


class Writer:
    """Stands in for the object that wakes pods; keeps what is written."""

    def __init__(self) -> None:
        self.values: list[str] = []

    async def write(self, value: str) -> None:
        self.values.append(value)


class Listener:
    """Another service on the bus."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.heard: list[bytes] = []

    async def listen(self, subject: str) -> list[bytes]:
        async def keep(message: Any) -> None:
            self.heard.append(message.data)

        await self.bus.subscribe(subject, keep)
        return self.heard


@pytest.fixture
async def nats() -> AsyncIterator[NatsServer]:
    """A nats-server of this test's own."""
    async with NatsServer() as server:
        yield server


@pytest.fixture
async def listener(nats: Any, until: Any) -> AsyncIterator[Listener]:
    """A connected client beside the gateway."""
    bus = Bus(BusSettings.for_service((nats.url,), "listener"), CollectorRegistry())
    running = asyncio.create_task(bus.run())
    await until(lambda: bus.connected)
    yield Listener(bus)
    await bus.close()
    running.cancel()
    await asyncio.wait({running})


async def connected(running: Any, until: Any) -> None:
    await until(lambda: running.value("leadsman_bus_connected") == 1)


async def test_every_call_leaves_a_record(
    gateway: Any, replica: Any, body: Any, broken: Any, nats: Any, listener: Any, until: Any
) -> None:
    """Who asked, what was answered, for which reason, and by which generation of which replica."""
    records = await listener.listen(f"{DECISION}.*")
    one = await replica(
        instance="filter-1",
        generation=4,
        rejected={"node-2": broken},
        scores={"node-1": 9},
        columns=(Column("cpu", 1.0, bytes([90])),),
        policy="4f2a",
        degraded=("breaker:a.csi",),
    )
    running = await gateway(one, nats_url=nats.url)
    await connected(running, until)
    await running.linked()
    await running.linked("scorer")

    await running.post("/filter", body(*NODES))
    await running.post("/prioritize", body("node-1"))
    await running.post("/filter", body(*NODES, volumes=[]))
    await until(lambda: len(records) == 3)

    filtered, scored, fast = [decode_decision(record) for record in records]
    assert (filtered.verb, filtered.namespace, filtered.pod, filtered.uid) == ("filter", "shop", "db-0", "u-1")
    assert (filtered.outcome, filtered.candidates, filtered.rejected_total) == ("decided", 2, 1)
    assert filtered.rejections == [RejectedNodes("MountHung", "nfs.csi.k8s.io", 1, ["node-2"])]
    assert (filtered.policy, filtered.mode, filtered.degraded) == ("4f2a", "enforce", ["breaker:a.csi"])
    assert (filtered.instance, filtered.generation, filtered.storages) == ("filter-1", 4, ["nfs.csi.k8s.io"])
    assert (scored.verb, scored.scores) == ("prioritize", {"node-1": 9})
    assert scored.breakdown == {"node-1": Breakdown(9, 10, {"cpu": (0.9, 1.0)})}
    assert (fast.outcome, fast.rejected_total) == ("fast-path", 0)


async def test_lost_bus_delays_no_answer(
    gateway: Any, replica: Any, body: Any, broken: Any, nats: Any, until: Any
) -> None:
    """Records are dropped and counted while NATS is away; verdicts go on."""
    running = await gateway(await replica(rejected={"node-2": broken}), nats_url=nats.url)
    await running.linked()
    await connected(running, until)
    nats.kill()
    await until(lambda: running.value("leadsman_bus_connected") == 0)

    assert (await running.post("/filter", body(*NODES))).json["NodeNames"] == ["node-1"]
    await until(lambda: running.value("leadsman_gateway_decision_records_dropped_total", cause="bus") == 1)


async def test_notice_of_a_filter_wakes_pods_once(gateway: Any, nats: Any, listener: Any, until: Any) -> None:
    """Two gateways that hear the same notice write the same value, made of instance and generation."""
    writers = [Writer(), Writer()]
    for writer in writers:
        await connected(await gateway(nats_url=nats.url, writer=writer), until)
    await until(lambda: all(writer.values for writer in writers))  # each wakes once when it has come to the bus

    await listener.bus.publish(WAKE, encode_notice(WakeNotice("filter-1", 41)))
    await listener.bus.publish(WAKE, encode_notice(WakeNotice("filter-1", 42)))
    await until(lambda: all(writer.values[-1] == "filter-1.42" for writer in writers))

    assert [len(writer.values) for writer in writers] == [2, 2]


async def test_pods_rejected_for_want_of_a_verdict_are_woken_when_a_filter_is_back(
    gateway: Any, replica: Any, body: Any, nats: Any, until: Any
) -> None:
    """Nobody else knows that they were rejected; a filter that comes without such answers wakes nobody."""
    one, writer = await replica(instance="back"), Writer()
    running = await gateway(one, nats_url=nats.url, writer=writer, on_failure="reject")
    await connected(running, until)
    await running.linked()
    await one.stop()
    await running.linked(replicas=0)
    await running.post("/filter", body(*NODES))

    await one.start()

    await until(lambda: any(value.startswith("back.answers-") for value in writer.values))


@pytest.mark.parametrize("calls", [0, 1])
async def test_pods_are_woken_when_a_filter_answers_that_was_silent_on_a_link_that_stood(
    calls: int, gateway: Any, replica: Any, body: Any, nats: Any, until: Any, monkeypatch: Any
) -> None:
    """A short silence does not cost the link, so no new Hello tells of its end; also without a further call."""
    monkeypatch.setattr("leadsman_gateway.hop.link.PROBE_S", 30.0 if calls else 0.1)
    one, writer = await replica(instance="paused"), Writer()
    running = await gateway(one, nats_url=nats.url, writer=writer, on_failure="reject", deadline_s=0.15)
    await connected(running, until)
    await running.linked()
    one.going.clear()
    assert (await running.post("/filter", body(*NODES))).json["NodeNames"] == []

    one.going.set()
    for _ in range(calls):
        await running.post("/filter", body(*NODES))

    await until(lambda: any(value.startswith("paused.") for value in writer.values))
    assert one.streams == 2  # one each for filter and scorer


async def test_unreadable_notice_is_counted(gateway: Any, nats: Any, listener: Any, until: Any) -> None:
    """Somebody's test message must not end the gateway."""
    writer = Writer()
    running = await gateway(nats_url=nats.url, writer=writer)
    await connected(running, until)

    await listener.bus.publish(WAKE, b"hello")

    await until(lambda: running.value("leadsman_gateway_wake_notices_bad_total") == 1)


async def test_backends_are_told_when_volumes_change(
    gateway: Any, nats: Any, listener: Any, until: Any, tmp_path: Any
) -> None:
    """A collector that listens learns of a new backend without asking."""
    lists = await listener.listen(BACKENDS)
    await connected(await gateway(nats_url=nats.url), until)
    await until(lambda: lists)
    assert decode_backends(lists[-1]).backends == []

    (tmp_path / "volume.yaml").write_text(VOLUME)

    await until(lambda: decode_backends(lists[-1]).backends)
    assert [(one.driver, one.backend) for one in decode_backends(lists[-1]).backends] == [("nfs.csi.k8s.io", "nas-a")]


async def test_backends_are_told_anew_when_the_policy_names_them_otherwise(
    gateway: Any, replica: Any, nats: Any, listener: Any, until: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    """The first list already is by the policy: one without it would end probes that were going on."""
    monkeypatch.setattr("leadsman_gateway.hop.link.HELLO_S", 1.0)  # longer than the list waits for more changes
    (tmp_path / "volume.yaml").write_text(VOLUME)
    lists = await listener.listen(BACKENDS)
    one = await replica(backend_attributes={"nfs.csi.k8s.io": "share"}, says_hello=False)
    running = await gateway(one, nats_url=nats.url)
    await connected(running, until)
    await until(lambda: running.value("leadsman_gateway_hop_failures_total", hop="filter", cause="no_hello"))
    one.says_hello = True
    await until(lambda: lists)
    assert [each.backend for each in decode_backends(lists[0]).backends] == ["exports"]

    await one.adopt("p2", backend_attributes={})

    await until(lambda: [each.backend for each in decode_backends(lists[-1]).backends] == ["nas-a"])
