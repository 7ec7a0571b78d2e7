"""A gateway on a real port, real gRPC replicas whose answers a test sets, and a client that can misbehave."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from leadsman.bus.connect import BusSettings
from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.verdicts import Rejection
from leadsman.runtime.app import Shutdown
from leadsman.runtime.options import Address
from leadsman.testing.waiting import eventually
from leadsman_gateway.service import Gateway
from leadsman_gateway.settings import GatewaySettings
from leadsman_gateway.volumes import ManifestCatalogue

from .replica import Replica

DRIVER = "nfs.csi.k8s.io"
BROKEN = Rejection(Reason.MOUNT_HUNG, DRIVER)
RESOLVABLE = Rejection(Reason.RULE_NOT_MET, "idle-nodes", resolvable=True)
TEXT = BROKEN.text
NOWHERE = "nats://127.0.0.1:1"


async def poll(condition: Callable[[], Any], within_s: float = 5.0) -> Any:
    """The first true value of `condition`, polled until a deadline."""
    return await eventually("what the test waits for", condition, within_s=within_s, every_s=0.005)


@pytest.fixture
async def replica() -> AsyncIterator[Callable[..., Any]]:
    """Starts replicas; all are stopped at the end."""
    started: list[Replica] = []

    async def start(**script: Any) -> Replica:
        started.append(await Replica(**script).start())
        return started[-1]

    yield start
    for one in started:
        await one.stop()


class Answer:
    """Status, headers and body of one HTTP answer."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One keep-alive connection, used byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Answer(int(status.split()[1]), headers, await self.reader.readexactly(int(headers["content-length"])))

    async def post(self, path: str, body: bytes, *headers: str) -> Answer:
        lines = [f"POST {path} HTTP/1.1", "Host: gateway", f"Content-Length: {len(body)}", *headers]
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return await self.answer()

    async def get(self, path: str) -> Answer:
        await self.send(f"GET {path} HTTP/1.1\r\nHost: gateway\r\n\r\n".encode())
        return await self.answer()


@dataclass
class Running:
    """A gateway that serves, and its insides as far as tests look at them."""

    gateway: Gateway
    registry: CollectorRegistry
    port: int
    clients: list[Client] = field(default_factory=list)

    def value(self, name: str, **labels: str) -> float:
        """A metric's value, 0 if it has none yet."""
        return self.registry.get_sample_value(name, labels) or 0.0

    async def linked(self, hop: str = "filter", replicas: int = 1) -> None:
        await poll(lambda: self.value("leadsman_gateway_hop_links_ready", hop=hop) == replicas)

    async def works_by(self, policy: str) -> None:
        """Wait until every replica has said that it works by `policy`."""
        client, words = await self.connect(), f"every replica works by {policy}".encode()
        async with asyncio.timeout(5):
            while words not in (await client.get("/readyz/policy")).body:  # noqa: ASYNC110 - there is no event to await
                await asyncio.sleep(0.005)

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 27))
        self.clients.append(client)
        return client

    async def post(self, path: str, body: bytes, *headers: str) -> Answer:
        """One call on a connection of its own."""
        return await (await self.connect()).post(path, body, *headers)

    async def get(self, path: str) -> Answer:
        """One question on a connection of its own."""
        return await (await self.connect()).get(path)

    async def hang_up(self) -> None:
        """Close every connection."""
        for client in self.clients:
            client.writer.close()
            with contextlib.suppress(OSError):
                await client.writer.wait_closed()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts gateways; all are drained at the end."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*replicas: Replica, writer: Any = None, nats_url: str = NOWHERE, **changes: Any) -> Running:
            addresses = tuple(Address("127.0.0.1", one.port) for one in replicas)
            given: dict[str, Any] = {
                "listen": Address("127.0.0.1", 0),
                "url_prefix": "",
                "filters": addresses,
                "scorers": addresses,
                "deadline_s": 0.8,
                "on_failure": "allow",
                "max_body": 64 << 20,
                "kubeconfig": None,
                "in_cluster": False,
                "manifests": tmp_path,
                "namespace": "leadsman-system",
                "wake": True,
                "backend_attributes": {},
                "bus": BusSettings.for_service((nats_url,), "gateway"),
                "port_file": tmp_path / f"port-{id(replicas)}",
                **changes,
            }
            settings, registry = GatewaySettings(**given), CollectorRegistry()
            catalogue = ManifestCatalogue(tmp_path, registry=registry)
            built = Gateway(settings, catalogue, writer, clock=SystemClock(), registry=registry)
            shutdown = Shutdown()
            running = asyncio.create_task(built.run(shutdown))

            async def stop() -> None:
                shutdown.request()
                await running

            stack.push_async_callback(stop)
            port_file = Path(given["port_file"])
            port = await poll(lambda: take_port(port_file))
            await poll(lambda: catalogue.synced)
            one = Running(built, registry, port)
            stack.push_async_callback(one.hang_up)
            return one

        yield start


def take_port(file: Path) -> int | None:
    """The port that a gateway has written to `file`, once it has."""
    if not file.exists():
        return None
    port: int = json.loads(file.read_bytes())["http"]
    file.unlink()
    return port


def call(*names: str, volumes: Any = None, labels: Any = None, annotations: Any = None, **members: Any) -> bytes:
    """The body of a filter or prioritize call, by default of a pod with one inline CSI volume."""
    volumes = [{"name": "data", "csi": {"driver": DRIVER}}] if volumes is None else volumes
    metadata = {"name": "db-0", "namespace": "shop", "uid": "u-1", "labels": labels, "annotations": annotations}
    pod = {"metadata": metadata, "spec": {"volumes": volumes}}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(names), **members}).encode()


@pytest.fixture
def body() -> Callable[..., bytes]:
    """Makes the body of a call, see `call`."""
    return call


@pytest.fixture
def broken() -> Rejection:
    """Why nodes are rejected in these tests."""
    return BROKEN


@pytest.fixture
def resolvable() -> Rejection:
    """A rejection that evictions could resolve."""
    return RESOLVABLE


@pytest.fixture
def until() -> Callable[..., Any]:
    """Waits for a condition, see `poll`."""
    return poll
