"""A real nats-server, the real filter and scorer as processes, and gateways that speak real gRPC to them."""

import asyncio
import contextlib
import functools
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import grpc
import nats
import nats.js.errors
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from nats.aio.client import Client

from leadsman.bus.streams import STATUS_STREAM, ensure_streams
from leadsman.bus.subjects import status_subject
from leadsman.domain.report import NodeReport
from leadsman.testing.nats import NatsServer
from leadsman.testing.pages import page
from leadsman.testing.process import Process
from leadsman.v1 import filter_pb2, filter_pb2_grpc, requirements_pb2, scorer_pb2, scorer_pb2_grpc
from leadsman.wire.report import encode_report

Q = TypeVar("Q")
R = TypeVar("R")


async def eventually(check: Callable[[], Awaitable[Any]], what: str, within_s: float = 10.0) -> Any:
    """`leadsman.testing.waiting.eventually` for a check that must itself be awaited."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        result = await check()
        if result:
            return result
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {within_s:g} s: {what}")


class Stream(Generic[Q, R]):
    """A gateway's stream. Questions are numbered from 1; replies come one by one."""

    def __init__(self, call: "grpc.aio.StreamStreamCall[Any, R]", make: Callable[..., Q]) -> None:
        self.call = call
        self.make = make
        self.asked = 0
        self.policy = ""

    async def ask(self, *storages: str, known: int = 0) -> R:
        """The reply to a question about `driver`, `driver/backend` or `driver/backend/volume` storages.

        Like a gateway, it says which policy the answer that it knows belongs to.
        """
        await self.send(*storages, known=known)
        reply = await self.read()
        self.policy = reply.policy  # type: ignore[attr-defined]
        return reply

    async def send(self, *storages: str, known: int = 0) -> None:
        self.asked += 1
        needs = [
            requirements_pb2.Requirement(driver=driver, backend=backend, volume=volume)
            for driver, backend, volume in ((*storage.split("/"), "", "")[:3] for storage in storages)
        ]
        await self.call.write(self.make(id=self.asked, requirements=needs, known_generation=known, policy=self.policy))

    async def read(self) -> R:
        async with asyncio.timeout(10):
            reply = await self.call.read()
        assert reply is not grpc.aio.EOF, "the service ended the stream"
        return reply  # type: ignore[return-value]


class Watch:
    """A client of grpc.health.v1 that is told of changes."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def read(self) -> int:
        async with asyncio.timeout(10):
            return int((await self.call.read()).status)

    async def last(self) -> int:
        """The last status told before the server ended the call."""
        status = -1
        with contextlib.suppress(grpc.aio.AioRpcError):
            while (reply := await self.call.read()) is not grpc.aio.EOF:
                status = int(reply.status)
        return status


@dataclass
class Service:
    """One service process."""

    process: Process
    ports: dict[str, int]
    channels: list[grpc.aio.Channel] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.process.log

    def channel(self) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.ports['grpc']}")
        self.channels.append(channel)
        return channel

    def filter(self) -> Stream[filter_pb2.FilterRequest, filter_pb2.FilterResponse]:
        return Stream(filter_pb2_grpc.FilterServiceStub(self.channel()).Filter(), filter_pb2.FilterRequest)

    def score(self) -> Stream[scorer_pb2.ScoreRequest, scorer_pb2.ScoreResponse]:
        return Stream(scorer_pb2_grpc.ScorerServiceStub(self.channel()).Score(), scorer_pb2.ScoreRequest)

    async def health(self) -> int:
        reply = await health_pb2_grpc.HealthStub(self.channel()).Check(health_pb2.HealthCheckRequest())
        return int(reply.status)

    def watch_health(self) -> Watch:
        return Watch(health_pb2_grpc.HealthStub(self.channel()).Watch(health_pb2.HealthCheckRequest()))

    async def get(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(page, self.ports["admin"], path)

    async def metric(self, line: str) -> float | None:
        """The value of the sample that begins with `line`."""
        _, text = await self.get("/metrics")
        found = [sample.rsplit(" ", 1)[1] for sample in text.splitlines() if sample.startswith(f"{line} ")]
        return float(found[0]) if found else None

    async def ready(self) -> None:
        async def is_ready() -> bool:
            return (await self.get("/readyz"))[0] == 200

        await eventually(is_ready, f"ready; its log:\n{self.log.read_text()}")

    async def end(self) -> int:
        """Exit code after SIGTERM."""
        self.process.send(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, 10)

    async def close(self) -> None:
        for channel in self.channels:
            await channel.close()
        self.channels.clear()


class Fleet:
    """Starts services against one NATS and plays collectors."""

    def __init__(self, server: NatsServer, directory: Path) -> None:
        self.server = server
        self._directory = directory
        self._services: list[Service] = []
        self._client: Client | None = None
        self.eventually = eventually

    async def start(self, component: str, *options: str) -> Service:
        name = f"{component}-{len(self._services)}"
        ports = self._directory / f"{name}.json"
        command = [
            *(sys.executable, "-m", f"leadsman_{component}", "--nats-url", self.server.url),
            *("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--port-file", str(ports)),
            *("--stream-settle", "0s", *options),
        ]
        service = Service(Process.start(name, command, self._directory / f"{name}.log"), {})
        self._services.append(service)

        async def listening() -> bool:
            assert service.process.alive, service.process.log_tail()
            return ports.exists()

        await eventually(listening, f"{component} listens")
        service.ports = json.loads(ports.read_bytes())
        return service

    def policy(self, **default: str) -> Path:
        """A policy file with `default` as treatment of every driver."""
        path = self._directory / "policy.yaml"
        document = {
            "apiVersion": "leadsman.dev/v1alpha1",
            "kind": "SchedulingPolicy",
            "storage": {"default": default},
        }
        path.write_text(json.dumps(document))  # JSON is YAML
        return path

    async def client(self) -> Client:
        if self._client is None or not self._client.is_connected:
            self._client = await nats.connect(self.server.url)
        return self._client

    async def publish(self, *reports: NodeReport) -> None:
        """Publish and wait until every report is stored: neither a publish without ack nor a flush says that it is."""
        client = await self.client()
        for one in reports:
            await client.publish(status_subject(one.node, one.scope), encode_report(one))
        for one in reports:
            await eventually(functools.partial(self._stored, one), f"the report of {one.reporter} is stored")

    async def _stored(self, one: NodeReport) -> bool:
        stream = (await self.client()).jetstream()
        with contextlib.suppress(nats.js.errors.NotFoundError):
            stored = await stream.get_last_msg(STATUS_STREAM, status_subject(one.node, one.scope), direct=True)
            return stored.data == encode_report(one)
        return False

    async def stop(self) -> None:
        for service in self._services:
            await service.close()
            service.process.kill()
        if self._client is not None:
            with contextlib.suppress(Exception):
                await self._client.close()


@pytest.fixture
def nats_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
async def fleet(nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[Fleet]:
    """A fleet whose streams exist already."""
    await ensure_streams((nats_server.url,))
    fleet = Fleet(nats_server, tmp_path)
    yield fleet
    nats_server.resume()
    await fleet.stop()
