"""A CSI driver's node plugin as a real process on real unix sockets: `python -m leadsman.testing.csi_driver`.

SIGSTOP freezes it: the kernel still accepts connections, nothing answers (facts: storage-health 6.4). SIGKILL leaves
its socket files behind, which then refuse. SIGTERM stops it and removes the sockets. SIGUSR1 makes `Probe` answer
"not ready", SIGUSR2 "ready".

What it tells of storage and volumes is in a file (`csi_node`), which may change while it runs. With a registration
socket it plays the registrar beside the driver too (`csi_registration`).
"""

import asyncio
import functools
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import BoolValue

from leadsman.csi.v1 import csi_pb2, csi_pb2_grpc
from leadsman.testing.csi_node import CAPABILITIES, Node
from leadsman.testing.csi_registration import Registration, start_registration

Context = grpc.aio.ServicerContext[Any, Any]

_NAMED = {code.name: code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}


class Identity(csi_pb2_grpc.IdentityServicer):
    """Answers as it is told to.

    `ready` None leaves the field out, as most drivers do. `error` and `delay_s` apply to `Probe` only, so that the
    driver can be identified whatever is wrong with it; `name_delay_s` applies to `GetPluginInfo`. `calls` counts the
    calls of each method.
    """

    def __init__(
        self,
        name: str,
        *,
        ready: bool | None,
        error: grpc.StatusCode | None,
        delay_s: float,
        name_delay_s: float = 0.0,
    ) -> None:
        self.name = name
        self.calls: Counter[str] = Counter()
        self._ready = ready
        self._error = error
        self._delay_s = delay_s
        self._name_delay_s = name_delay_s

    def say(self, *, ready: bool) -> None:
        """From now on `Probe` answers this."""
        self._ready = ready

    async def GetPluginInfo(  # noqa: N802 - gRPC's name
        self, request: csi_pb2.GetPluginInfoRequest, context: Context
    ) -> csi_pb2.GetPluginInfoResponse:
        """Who it is."""
        del request, context
        self.calls["GetPluginInfo"] += 1
        await asyncio.sleep(self._name_delay_s)
        return csi_pb2.GetPluginInfoResponse(name=self.name, vendor_version="test")

    async def GetPluginCapabilities(  # noqa: N802 - gRPC's name
        self, request: csi_pb2.GetPluginCapabilitiesRequest, context: Context
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        """What it can do: nothing."""
        del request, context
        return csi_pb2.GetPluginCapabilitiesResponse()

    async def Probe(  # noqa: N802 - gRPC's name
        self, request: csi_pb2.ProbeRequest, context: Context
    ) -> csi_pb2.ProbeResponse:
        """How it is said to be."""
        del request
        self.calls["Probe"] += 1
        await asyncio.sleep(self._delay_s)
        if self._error is not None:
            await _abort(context, self._error)
        return csi_pb2.ProbeResponse(ready=None if self._ready is None else BoolValue(value=self._ready))


@dataclass(frozen=True, slots=True)
class Registrar:
    """A registration socket to serve, and the driver's own socket as the kubelet is to know it."""

    socket: Path
    endpoint: str


async def _abort(context: Context, code: grpc.StatusCode) -> NoReturn:
    await context.abort(code, f"{code.name} on request")
    raise AssertionError("abort returned")


async def serve(socket: Path, identity: Identity, node: Node, registrar: Registrar | None = None) -> None:
    """Answer on `socket`, and as `registrar` on its own, until SIGTERM or SIGINT."""
    server = grpc.aio.server()
    csi_pb2_grpc.add_IdentityServicer_to_server(identity, server)
    csi_pb2_grpc.add_NodeServicer_to_server(node, server)
    server.add_insecure_port(f"unix:{socket}")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, functools.partial(identity.say, ready=False))
    loop.add_signal_handler(signal.SIGUSR2, functools.partial(identity.say, ready=True))
    await server.start()
    servers = [server]
    if registrar:
        servers.append(await start_registration(registrar.socket, Registration(identity.name, registrar.endpoint)))
    await stop.wait()
    for one in servers:
        await one.stop(grace=0)


@click.command(context_settings={"show_default": True})
@click.option("--socket", type=click.Path(path_type=Path), required=True, help="Unix socket to serve on.")
@click.option("--name", required=True, help="Driver name, as GetPluginInfo tells it.")
@click.option("--ready", type=click.Choice(["absent", "true", "false"]), default="absent", help="`ready` of Probe.")
@click.option("--error", type=click.Choice(sorted(_NAMED)), help="gRPC status that Probe fails with.")
@click.option("--delay", type=float, default=0.0, help="Seconds before Probe answers.")
@click.option("--name-delay", type=float, default=0.0, help="Seconds before GetPluginInfo answers.")
@click.option("--capability", type=click.Choice(sorted(CAPABILITIES)), multiple=True, help="What the node plugin can.")
@click.option("--health", type=click.Path(path_type=Path), help="JSON file of what is bad; see csi_node.")
@click.option("--registration-socket", type=click.Path(path_type=Path), help="Offer the driver to a kubelet here.")
@click.option("--registration-endpoint", help="Path of the driver's socket on the host; as --socket by default.")
def main(
    *,
    socket: Path,
    name: str,
    ready: str,
    error: str | None,
    delay: float,
    name_delay: float,
    capability: tuple[str, ...],
    health: Path | None,
    registration_socket: Path | None,
    registration_endpoint: str | None,
) -> None:
    """Serve csi.v1.Identity and csi.v1.Node on a unix socket, well or badly."""
    said = None if ready == "absent" else ready == "true"
    identity = Identity(
        name, ready=said, error=_NAMED[error] if error else None, delay_s=delay, name_delay_s=name_delay
    )
    registrar = None
    if registration_socket:
        registrar = Registrar(registration_socket, registration_endpoint or str(socket))
    sockets = [socket, *([registration_socket] if registration_socket else [])]
    for path in sockets:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    asyncio.run(serve(socket, identity, Node(capability, health), registrar))
    for path in sockets:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
