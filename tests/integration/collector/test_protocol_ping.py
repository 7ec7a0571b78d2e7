"""Real servers that speak their protocol, something else, or nothing."""

import asyncio
import contextlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
from pathlib import Path

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.observation import Observation, Outcome
from leadsman_health_collector.probes.protocol_ping import PINGS, ProtocolPingProbe
from leadsman_health_collector.probes.protocols.exchange import Exchange
from leadsman_health_collector.resolver import Resolver

pytestmark = pytest.mark.integration

KEY = StorageKey("nfs.csi.k8s.io", "10.0.0.9")
FLOOD = 4 * 1024 * 1024


def probe(*endpoints: Endpoint, deadline_s: float = 0.2) -> ProtocolPingProbe:
    clock = SystemClock()
    wanted = {endpoint.name: endpoint for endpoint in endpoints}
    return ProtocolPingProbe(lambda: wanted, Resolver(clock), clock, deadline_s)


async def look(port: int, protocol: str, host: str = "127.0.0.1", deadline_s: float = 2.0) -> Observation:
    """One look at a server of this machine."""
    looking = probe(Endpoint(KEY, host, port, protocol), deadline_s=deadline_s)
    (name,) = looking.discover()
    return await looking.look(name)


@contextlib.asynccontextmanager
async def serving(answer, **options):
    """A server in this process, and its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except OSError:
            pass  # the client went away
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def double(stage, protocol: str):
    """A server of `protocol` as a process, and its port."""
    process = stage.start("leadsman.testing.tcp_backend", "--listen", "127.0.0.1:0", "--protocol", protocol)
    await process.until(lambda: "listening" in process.log.read_text(), "the backend listens")
    return process, int(process.log.read_text().strip().rpartition(":")[2])


@pytest.mark.parametrize("protocol", ["nfs", "ceph"])
async def test_a_frozen_server_is_found_out_and_heals_when_it_goes_on(stage, watch, protocol):
    """It still accepts connections, which satisfies every mere TCP check."""
    server, port = await double(stage, protocol)
    async with watch(probe(Endpoint(KEY, "127.0.0.1", port, protocol))).running() as seen:
        await seen.until(KEY, State.HEALTHY)
        server.send(signal.SIGSTOP)
        await seen.until(KEY, State.UNHEALTHY, Reason.PROTOCOL_TIMEOUT)
        server.send(signal.SIGCONT)
        await seen.until(KEY, State.HEALTHY)


async def test_what_tcp_tells_is_told_too(stage, watch):
    """Refused, and silent from the handshake on."""
    server, port = await double(stage, "nfs")
    async with watch(probe(Endpoint(KEY, "127.0.0.1", port, "nfs"))).running() as seen:
        await seen.until(KEY, State.HEALTHY)
        server.send(signal.SIGUSR1)
        await seen.until(KEY, State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT)
        server.kill()
        await seen.until(KEY, State.UNHEALTHY, Reason.ENDPOINT_REFUSED)


async def test_servers_of_something_else_are_no_storage(stage):
    """A wrong answer is definite, silence is not; either is told as what it is."""
    _, nfs = await double(stage, "nfs")
    _, ceph = await double(stage, "ceph")
    _, other = await double(stage, "greeting")
    _, silent = await double(stage, "silent")
    pairs = [(protocol, port) for protocol in ("nfs", "ceph", "smb", "http") for port in (nfs, ceph, other, silent)]
    looks = await asyncio.gather(*(look(port, protocol, deadline_s=0.5) for protocol, port in pairs))
    seen = dict(zip(pairs, looks, strict=True))
    assert {one.reason for one in seen.values()} == {None, Reason.PROTOCOL_TIMEOUT}
    well = {pair for pair, one in seen.items() if one.outcome is Outcome.GOOD}
    waiting = {pair for pair, one in seen.items() if one.outcome is Outcome.TIMEOUT}
    assert well == {("nfs", nfs), ("ceph", ceph)}
    assert waiting == {("nfs", silent), ("ceph", silent), ("smb", silent), ("http", silent), ("ceph", nfs)}
    assert seen["nfs", other].message == f"127.0.0.1:{other} answers with something that is not RPC"
    assert seen["nfs", silent].message == f"127.0.0.1:{silent} accepts connections but does not answer within 0.5 s"


async def test_a_good_look_tells_how_long_connection_and_answer_took():
    """So that a slow server can be told from a quick one."""

    async def slowly(_, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        writer.write(b"ceph v2\n")
        await writer.drain()

    async with serving(slowly) as port:
        seen = await look(port, "ceph")
    assert seen.outcome is Outcome.GOOD
    assert seen.latency_s is not None
    assert 0.1 <= seen.latency_s < 2.0


async def test_a_server_is_reached_over_ipv6(stage):
    """Also when only its name is known."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
            port = free.getsockname()[1]
    except OSError as error:
        pytest.skip(f"no IPv6 on the loopback device: {error}")
    server = stage.start("leadsman.testing.tcp_backend", "--listen", f"[::1]:{port}")
    await server.until(lambda: "listening" in server.log.read_text(), "the backend listens")
    assert (await look(port, "nfs", "::1")).outcome is Outcome.GOOD


@pytest.mark.parametrize("protocol", sorted(PINGS))
async def test_a_server_that_sends_without_end_is_read_a_little(protocol, monkeypatch):
    """Neither memory nor time can be taken by whoever listens on a storage port."""
    read = 0
    receive = Exchange.receive_some

    async def count(self, most: int) -> bytes:
        nonlocal read
        data = await receive(self, most)
        read += len(data)
        return data

    monkeypatch.setattr(Exchange, "receive_some", count)

    async def flood(_, writer: asyncio.StreamWriter) -> None:
        for _ in range(FLOOD // 65536):
            writer.write(bytes(65536))
            await writer.drain()

    async with serving(flood) as port:
        seen = await look(port, protocol)
    assert seen.outcome is Outcome.ERROR
    assert 0 < read <= 16 * 1024


@pytest.mark.parametrize("protocol", sorted(PINGS))
async def test_a_server_that_resets_every_connection_is_no_working_one(protocol):
    """Load balancers without a backend behave like that; whether the reset comes before or after our question."""

    async def reset(_, writer: asyncio.StreamWriter) -> None:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with serving(reset) as port:
        for _ in range(20):
            seen = await look(port, protocol)
            assert (seen.outcome, seen.reason) in {
                (Outcome.ERROR, Reason.PROTOCOL_TIMEOUT),
                (Outcome.ERROR, Reason.ENDPOINT_REFUSED),
            }


async def test_a_server_of_https_needs_no_certificate_that_we_know(tmp_path):
    """Who it is is not our question; whether it answers is."""
    if shutil.which("openssl") is None:
        pytest.skip("making a certificate needs the program openssl")
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate")]
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command = [*request, "-subj", "/CN=storage", *files]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        await writer.drain()

    async with serving(answer, ssl=context) as port:
        assert (await look(port, "https")).outcome is Outcome.GOOD
        assert (await look(port, "nfs", deadline_s=0.3)).reason is Reason.PROTOCOL_TIMEOUT


def descriptors() -> int:
    """How many this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_looks_leave_no_descriptor_behind(stage):
    """Whatever came of them."""
    _, nfs = await double(stage, "nfs")
    _, silent = await double(stage, "silent")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing = closed.getsockname()[1]
    before = descriptors()
    for _ in range(5):
        await asyncio.gather(
            *(look(port, protocol, deadline_s=0.1) for port in (nfs, silent, refusing) for protocol in PINGS)
        )
    assert descriptors() == before
