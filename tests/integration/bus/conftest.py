"""A real nats-server per test, and replicas, buses and publishers that end with the test."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus, BusSettings
from leadsman.bus.replica import Replica
from leadsman.bus.streams import ensure_streams
from leadsman.bus.subjects import status_subject
from leadsman.domain.report import NodeReport, Sequence, StorageStatus
from leadsman.testing import waiting
from leadsman.testing.nats import NatsServer
from leadsman.wire.report import encode_report

EPOCH = int(time.time() * 1000)


class Recorder:
    """A listener that remembers every report and whether any reporter ever went back."""

    def __init__(self) -> None:
        self.news: list[tuple[str, Sequence, float]] = []
        self.newest: dict[str, Sequence] = {}
        self.went_back: list[str] = []

    def on_report(self, report: NodeReport, age_s: float) -> None:
        self.news.append((report.reporter, report.sequence, age_s))
        if report.sequence <= self.newest.get(report.reporter, Sequence(0, 0)):
            self.went_back.append(report.reporter)
        self.newest[report.reporter] = report.sequence


class Replication:
    """One replica on a bus of its own, with everything a test wants to look at."""

    def __init__(self, url: str, bus_settings: dict[str, Any], **options: Any) -> None:
        self.registry = CollectorRegistry()
        self.listener = Recorder()
        self.tasks: list[asyncio.Task[None]] = []
        settings = BusSettings((url,), "filter/test", **{"reconnect_jitter_s": 0.05, **bus_settings})
        self.bus = Bus(settings, self.registry)
        self.replica = Replica(self.bus, registry=self.registry, listener=self.listener, **options)

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def dropped(self, reason: str) -> float:
        return self.count("leadsman_replica_dropped_reports_total", reason=reason)


@pytest.fixture
def bare_server() -> Iterator[NatsServer]:
    """A nats-server without streams."""
    with NatsServer() as server:
        yield server


@pytest.fixture
async def server(bare_server: NatsServer) -> NatsServer:
    """A nats-server with both streams."""
    await ensure_streams((bare_server.url,))
    return bare_server


@pytest.fixture
async def run() -> AsyncIterator[Callable[[Awaitable[None]], asyncio.Task[None]]]:
    """Run something until the test ends; a task that failed fails the test."""
    tasks: list[asyncio.Task[None]] = []

    def start(work: Awaitable[None]) -> asyncio.Task[None]:
        tasks.append(asyncio.ensure_future(work))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


@pytest.fixture
def replicate(run) -> Callable[..., Replication]:
    """Start a replica."""

    def start(url: str, bus_settings: dict[str, float] | None = None, **options: object) -> Replication:
        made = Replication(url, bus_settings or {}, **options)
        made.tasks = [run(made.bus.run()), run(made.replica.run())]
        return made

    return start


@pytest.fixture
async def raw(server: NatsServer) -> AsyncIterator[Client]:
    """A plain client, for what no well-behaved collector does."""
    async with await nats.connect(server.url, allow_reconnect=False) as client:
        yield client


@pytest.fixture
def eventually() -> Callable[..., Awaitable[None]]:
    """Wait until a condition holds; fail with its words when it does not in time."""

    async def wait(
        condition: Callable[[], object], *, within: float = 5.0, what: str = "what the test waits for"
    ) -> None:
        await waiting.eventually(what, condition, within_s=within, every_s=0.005)

    return wait


@pytest.fixture
def body() -> Callable[..., bytes]:
    """The bytes of a small report."""

    def make(
        node: str,
        seq: int = 1,
        epoch: int = EPOCH,
        storages: tuple[StorageStatus, ...] = (),
        sent: float = 0.0,
        scope: str = "",
    ) -> bytes:
        return encode_report(NodeReport(node, Sequence(epoch, seq), 10.0, storages, sent_epoch_s=sent, scope=scope))

    return make


@pytest.fixture
def send(raw: Client, body) -> Callable[..., Awaitable[None]]:
    """Publish a report as its node's agent would, or as the sidecar of the driver `scope`."""

    async def publish(node: str, seq: int = 1, scope: str = "", **more: object) -> None:
        await raw.publish(status_subject(node, scope), body(node, seq, scope=scope, **more))

    return publish


@pytest.fixture
def stored(raw: Client) -> Callable[[int], Awaitable[None]]:
    """Wait until the stream holds so many reports; neither a publish nor a flush tells."""

    async def wait(reports: int) -> None:
        async with asyncio.timeout(10):
            while True:
                if (await raw.jsm().stream_info("LEADSMAN_STATUS")).state.messages == reports:
                    return
                await asyncio.sleep(0.005)

    return wait
