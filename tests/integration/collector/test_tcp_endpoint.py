"""Real TCP backends: refusing, silent, unresolvable."""

import asyncio
import signal
import socket

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.probes.tcp_endpoint import TcpEndpointProbe

pytestmark = pytest.mark.integration

KEY = StorageKey("nfs.csi.k8s.io", "10.0.0.9")
OTHER = StorageKey("nfs.csi.k8s.io", "10.0.0.8")


def probe(*endpoints: Endpoint) -> TcpEndpointProbe:
    return TcpEndpointProbe(lambda: {endpoint.name: endpoint for endpoint in endpoints}, SystemClock(), 0.2)


@pytest.fixture
async def serve():
    """Servers in this process that accept and close."""
    servers: list[asyncio.Server] = []

    async def start() -> tuple[asyncio.Server, int]:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        servers.append(server)
        return server, server.sockets[0].getsockname()[1]

    yield start
    for server in servers:
        server.close()


async def test_a_backend_that_goes_away_refuses_and_heals_when_it_returns(stage, serve, watch):
    """Two strikes down, two good looks up; another backend of the driver is not touched."""
    backend, port = await stage.tcp_backend()
    _, other_port = await serve()
    async with watch(
        probe(Endpoint(KEY, "127.0.0.1", port), Endpoint(OTHER, "127.0.0.1", other_port))
    ).running() as seen:
        await seen.until(KEY, State.HEALTHY)
        backend.kill()
        await seen.until(KEY, State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
        assert seen.brief(OTHER) == (State.HEALTHY, None)
        await stage.tcp_backend(port)
        await seen.until(KEY, State.HEALTHY)


async def test_a_backend_that_takes_no_connection_times_out(stage, watch):
    """Its accept queue is full, so the kernel drops the SYN: the same silence as a dropped packet."""
    backend, port = await stage.tcp_backend()
    async with watch(probe(Endpoint(KEY, "127.0.0.1", port))).running() as seen:
        await seen.until(KEY, State.HEALTHY)
        backend.send(signal.SIGUSR1)
        await seen.until(KEY, State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT)
        backend.send(signal.SIGUSR2)
        await seen.until(KEY, State.HEALTHY)


async def test_a_frozen_server_still_accepts(stage, watch):
    """Known limit of this probe, kept here so that nobody trusts it with more."""
    backend, port = await stage.tcp_backend()
    backend.send(signal.SIGSTOP)
    async with watch(probe(Endpoint(KEY, "127.0.0.1", port))).running() as seen:
        await seen.more_rounds(2)
        assert seen.brief(KEY) == (State.HEALTHY, None)


async def test_one_of_two_addresses_down_is_degraded(serve, watch):
    """The backend still works over the other."""
    first, port = await serve()
    _, other_port = await serve()
    async with watch(probe(Endpoint(KEY, "127.0.0.1", port), Endpoint(KEY, "127.0.0.1", other_port))).running() as seen:
        await seen.until(KEY, State.HEALTHY)
        first.close()
        await seen.until(KEY, State.DEGRADED, Reason.PATHS_DEGRADED)


async def test_a_name_that_cannot_be_resolved_is_told_as_such(watch, monkeypatch):
    """The resolver here is replaced: what it says must not depend on the network under the test."""
    loop = asyncio.get_running_loop()

    async def fail(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(loop, "getaddrinfo", fail)
    async with watch(probe(Endpoint(KEY, "nfs.example.invalid", 2049))).running() as seen:
        await seen.until(KEY, State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)


@pytest.mark.parametrize("failure", ["error", "silence"])
async def test_the_last_known_address_serves_while_the_resolver_fails(serve, watch, monkeypatch, failure):
    """A broken DNS is not a broken storage."""
    _, port = await serve()
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def resolve(*_, **__):
        return await real("127.0.0.1", port, type=socket.SOCK_STREAM)

    async def fail(*_, **__):
        if failure == "silence":
            await asyncio.Event().wait()
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    async with watch(probe(Endpoint(KEY, "nfs.example.invalid", port))).running() as seen:
        await seen.until(KEY, State.HEALTHY)
        monkeypatch.setattr(loop, "getaddrinfo", fail)
        await seen.more_rounds(4)
        assert seen.brief(KEY) == (State.HEALTHY, None)
