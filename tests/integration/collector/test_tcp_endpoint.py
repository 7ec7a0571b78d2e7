"""Real TCP servers: refusing, silent, unresolvable."""

import asyncio
import signal
import socket

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.protocol_ping import can_ping
from leadsman_health_collector.probes.tcp_endpoint import TcpEndpointProbe
from leadsman_health_collector.resolver import LookUp, Resolver, first_address

pytestmark = pytest.mark.integration

KEY = StorageKey("csi.example.com", "10.0.0.9")
OTHER = StorageKey("csi.example.com", "10.0.0.8")


def probe(*endpoints: Endpoint, look_up: LookUp = first_address, pings=can_ping) -> TcpEndpointProbe:
    clock = SystemClock()
    wanted = {endpoint.name: endpoint for endpoint in endpoints}
    return TcpEndpointProbe(lambda: wanted, Resolver(clock, look_up), clock, 0.2, pings=pings)


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


def test_who_is_asked_in_its_own_protocol_is_not_looked_at_twice():
    """Unless that is switched off for its driver."""
    nfs, unknown = Endpoint(KEY, "10.0.0.9", 2049, "nfs"), Endpoint(KEY, "10.0.0.8", 2049)
    assert probe(nfs, unknown).discover() == {unknown.name}
    assert probe(nfs, unknown, pings=lambda _: False).discover() == {nfs.name, unknown.name}


def test_monitors_of_a_cluster_are_told_to_need_a_majority():
    """Whoever looks at them."""
    monitor = Endpoint(KEY, "fd00::1", 3300, "ceph")
    looking = probe(monitor, Endpoint(OTHER, "10.0.0.8", 1), pings=lambda _: False)
    looking.discover()
    assert {source.key: (source.quorum, source.place) for source in looking.sources().values()} == {
        KEY: (True, "[fd00::1]:3300"),
        OTHER: (False, "10.0.0.8:1"),
    }


async def test_an_endpoint_that_has_gone_from_the_list_is_not_looked_at():
    """A second look may come late."""
    looking = probe()
    looking.discover()
    assert (await looking.look("gone")).outcome is Outcome.NOT_RUN


async def test_a_name_that_cannot_be_resolved_is_told_as_such(watch):
    """The resolver here is replaced: what it says must not depend on the network under the test."""

    def fail(_: str) -> str:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with watch(probe(Endpoint(KEY, "nfs.example.invalid", 2049), look_up=fail)).running() as seen:
        await seen.until(KEY, State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)


async def test_a_server_that_has_moved_is_found_at_its_new_address(serve):
    """The old address refuses, so the name is looked up again at once, before the second look."""
    gone, port = await serve()
    gone.close()
    await gone.wait_closed()
    addresses = ["127.0.0.1", "127.0.0.2"]
    moved = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    try:
        looking = probe(
            Endpoint(KEY, "nfs.example", port), look_up=lambda _: addresses.pop() if addresses[1:] else addresses[0]
        )
        (name,) = looking.discover()
        assert (await looking.look(name)).reason is Reason.ENDPOINT_REFUSED
        async with asyncio.timeout(5):
            while (await looking.look(name)).outcome is not Outcome.GOOD:
                pass
    finally:
        moved.close()
