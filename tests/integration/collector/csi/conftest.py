"""CSI drivers with all they have: node service, registrar, and the probes that ask them."""

import asyncio
import contextlib
import json
import socket as sockets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest

from leadsman.csi.v1 import csi_pb2_grpc
from leadsman.domain.clock import SystemClock
from leadsman.testing.clock import FakeClock
from leadsman.testing.csi_driver import Identity
from leadsman.testing.csi_node import Node
from leadsman.testing.csi_registration import Registration, start_registration
from leadsman_health_collector.cluster_view import NOTHING_KNOWN, ClusterView
from leadsman_health_collector.observation import Observation
from leadsman_health_collector.probes.csi_plugin import CsiPluginProbe
from leadsman_health_collector.probes.probe import Probe
from leadsman_health_collector.probes.registration import RegistrationProbe
from leadsman_health_collector.registrars import Registrars

DEADLINE_S = 0.5
"""Long enough for a driver in this process on a busy machine, short enough to wait for several times."""


@dataclass
class Driver:
    """A driver in this process: real gRPC on a real socket."""

    socket: Path
    identity: Identity
    node: Node
    file: Path

    def says(self, **members) -> None:
        """From now on it tells this; see `csi_node`."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(members))
        fresh.replace(self.file)

    def asked(self, method: str) -> int:
        """How often `method` of its node service has been called."""
        return sum(call[0] == method for call in self.node.calls)


class Garbled(grpc.GenericRpcHandler):
    """Answers `methods` with bytes that are no message; all of them if there are none."""

    def __init__(self, *methods: str) -> None:
        self._methods = methods

    def service(self, handler_call_details):
        """See `grpc.GenericRpcHandler`."""
        if self._methods and handler_call_details.method.rpartition("/")[2] not in self._methods:
            return None

        async def answer(request, context) -> bytes:
            return b"\xff"

        return grpc.unary_unary_rpc_method_handler(answer)


class Machine:
    """A node with a kubelet's directory, the API server's view of it, and the probes of the CSI side."""

    def __init__(self, kubelet: Path) -> None:
        self.kubelet = kubelet
        self.view = NOTHING_KNOWN
        self.registrars = Registrars(kubelet, deadline_s=DEADLINE_S)
        self.csi = CsiPluginProbe(
            kubelet, SystemClock(), DEADLINE_S, {}, registrars=self.registrars, view=lambda: self.view
        )
        self.mounted: set[str] = set()
        self.registration = RegistrationProbe(
            lambda: self.view,
            self.csi.plugins,
            self.registrars,
            api=False,
            mounted=lambda: self.mounted,
            sockets_known=lambda: self.csi.complete,
        )

    def cluster(self, *registered: str, drivers: tuple[str, ...] = (), **more) -> None:
        """The API server says this from now on."""
        self.view = ClusterView(registered=frozenset(registered), cluster_drivers=frozenset(drivers), **more)

    @contextlib.asynccontextmanager
    async def driver(
        self, name: str, place: str = "plugins/a/csi.sock", can=(), garbled=(), **traits
    ) -> AsyncIterator[Driver]:
        """A driver that serves at `place` in the kubelet's directory and advertises `can`; see `Garbled`."""
        socket = self.kubelet / place
        socket.parent.mkdir(parents=True, exist_ok=True)
        socket.unlink(missing_ok=True)
        file = socket.with_suffix(".json")
        identity = Identity(name, **{"ready": None, "error": None, "delay_s": 0.0, **traits})
        driver = Driver(socket, identity, Node(can, file), file)
        server = grpc.aio.server(handlers=[Garbled(*garbled)] if garbled else ())
        if garbled:  # what is registered by name would come before them
            server.add_registered_method_handlers = lambda *_: None  # type: ignore[method-assign]
        csi_pb2_grpc.add_IdentityServicer_to_server(identity, server)
        csi_pb2_grpc.add_NodeServicer_to_server(driver.node, server)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield driver
        finally:
            await server.stop(grace=0)

    @contextlib.asynccontextmanager
    async def registrar(
        self, name: str, endpoint: Path | str, file: str = "", kind: str = "CSIPlugin"
    ) -> AsyncIterator[Registration]:
        """A registration socket for the driver `name`, called `file` or as usual."""
        socket = self.kubelet / "plugins_registry" / (file or f"{name}-reg.sock")
        socket.parent.mkdir(exist_ok=True)
        registration = Registration(name, str(endpoint), kind)
        server = await start_registration(socket, registration)
        try:
            yield registration
        finally:
            await server.stop(grace=0)

    @contextlib.asynccontextmanager
    async def garbled_registrar(self, name: str) -> AsyncIterator[None]:
        """A registration socket that gives bytes that are no message."""
        socket = self.kubelet / "plugins_registry" / f"{name}-reg.sock"
        socket.parent.mkdir(exist_ok=True)
        server = grpc.aio.server(handlers=[Garbled()])
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(grace=0)


async def look_round(probe: Probe) -> dict[str, Observation]:
    """One round as the collector holds it: what was seen, of sources that the probe owns to."""
    probe.discover()
    names = list(probe.choose(frozenset()))
    seen = dict(zip(names, await asyncio.gather(*map(probe.look, names)), strict=True))
    return {name: one for name, one in seen.items() if name in probe.sources()}


async def rounds(machine: Machine, number: int = 3) -> None:
    """Time in which nothing changes: three periods are the grace of what may be restarting."""
    for _ in range(number):
        await look_round(machine.csi)
        await look_round(machine.registration)


def leave_behind(machine: Machine, name: str) -> None:
    """What a registrar that was killed leaves: a socket file that refuses."""
    path = machine.kubelet / "plugins_registry" / f"{name}-reg.sock"
    path.parent.mkdir(exist_ok=True)
    with sockets.socket(sockets.AF_UNIX) as dead:
        dead.bind(str(path))


@pytest.fixture
def machine(stage) -> Machine:
    """See `Machine`."""
    return Machine(stage.kubelet)


@pytest.fixture
def look() -> Callable[..., object]:
    """See `look_round`."""
    return look_round


@pytest.fixture
def clock() -> FakeClock:
    """Time under the test's control."""
    return FakeClock()
