"""CSI drivers of this process: real gRPC on real sockets, well or badly, without a process for each."""

import asyncio
import socket
from collections.abc import Collection
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.wrappers_pb2 import BoolValue

from leadsman.csi.v1 import csi_pb2, csi_pb2_grpc
from leadsman.pluginregistration.v1 import registration_pb2, registration_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]
Capability = csi_pb2.NodeServiceCapability.RPC.Type
_RPC = csi_pb2.NodeServiceCapability.RPC


class PluginDouble(
    csi_pb2_grpc.IdentityServicer, csi_pb2_grpc.NodeServicer, registration_pb2_grpc.RegistrationServicer
):
    """A driver called `name` on the socket `path`, and if asked for its registrar on `registrar`.

    What Probe answers is told by `say`; the node service answers by `storage` (what NodeGetStorageHealth finds) and
    `inaccessible` (handles of volumes of which NodeGetVolumeHealth says so), and only while `answering` is set. It
    advertises `capabilities` from the start on.
    """

    def __init__(self, name: str, path: Path, registrar: Path, capabilities: Collection[Capability] = ()) -> None:
        self.name = name
        self.path = path
        self.registrar = registrar
        self.storage: list[csi_pb2.StorageHealthErrorType] = []
        self.inaccessible: set[str] = set()
        self.answering = asyncio.Event()
        self.answering.set()
        self._capabilities = capabilities
        self._servers: dict[Path, grpc.aio.Server] = {}
        self._ready: bool | None = None
        self._error: grpc.StatusCode | None = None
        self._delay_s = 0.0

    def say(self, *, ready: bool | None = None, error: grpc.StatusCode | None = None, delay_s: float = 0.0) -> None:
        """From now on Probe waits `delay_s` seconds, then fails with `error`, or else is `ready` (None: not said)."""
        self._ready, self._error, self._delay_s = ready, error, delay_s

    async def start(self) -> None:
        """Serve the driver, in place of whatever is at its path."""
        server = grpc.aio.server()
        csi_pb2_grpc.add_IdentityServicer_to_server(self, server)
        csi_pb2_grpc.add_NodeServicer_to_server(self, server)
        await self._serve(server, self.path)

    async def start_registrar(self) -> None:
        """Serve the registration socket."""
        server = grpc.aio.server()
        registration_pb2_grpc.add_RegistrationServicer_to_server(self, server)
        await self._serve(server, self.registrar)

    async def stop(self) -> None:
        """Stop serving the driver; its socket goes as well."""
        await self._stop(self.path)

    async def stop_registrar(self) -> None:
        """Stop serving the registration socket, which goes as well."""
        await self._stop(self.registrar)

    async def close(self) -> None:
        """Stop everything."""
        for path in list(self._servers):
            await self._stop(path)

    async def _serve(self, server: grpc.aio.Server, path: Path) -> None:
        _make_way(path)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers[path] = server

    async def _stop(self, path: Path) -> None:
        server = self._servers.pop(path, None)
        if server is not None:
            await server.stop(grace=0)
        _make_way(path)

    # The services, by their names in gRPC.

    async def GetPluginInfo(  # noqa: N802
        self, request: csi_pb2.GetPluginInfoRequest, context: Context
    ) -> csi_pb2.GetPluginInfoResponse:
        """Who it is."""
        del request, context
        return csi_pb2.GetPluginInfoResponse(name=self.name, vendor_version="faults")

    async def GetPluginCapabilities(  # noqa: N802
        self, request: csi_pb2.GetPluginCapabilitiesRequest, context: Context
    ) -> csi_pb2.GetPluginCapabilitiesResponse:
        """What it can do beside that: nothing."""
        del request, context
        return csi_pb2.GetPluginCapabilitiesResponse()

    async def Probe(self, request: csi_pb2.ProbeRequest, context: Context) -> csi_pb2.ProbeResponse:  # noqa: N802
        """How it is said to be."""
        del request
        await asyncio.sleep(self._delay_s)
        if self._error is not None:
            await context.abort(self._error, f"{self._error.name} on request")
        return csi_pb2.ProbeResponse(ready=None if self._ready is None else BoolValue(value=self._ready))

    async def NodeGetCapabilities(  # noqa: N802
        self, request: csi_pb2.NodeGetCapabilitiesRequest, context: Context
    ) -> csi_pb2.NodeGetCapabilitiesResponse:
        """What its node service can do."""
        del request, context
        rpcs = [_RPC(type=capability) for capability in self._capabilities]
        return csi_pb2.NodeGetCapabilitiesResponse(
            capabilities=[csi_pb2.NodeServiceCapability(rpc=rpc) for rpc in rpcs]
        )

    async def NodeGetStorageHealth(  # noqa: N802
        self, request: csi_pb2.NodeGetStorageHealthRequest, context: Context
    ) -> csi_pb2.NodeGetStorageHealthResponse:
        """How it finds its storage."""
        del request, context
        await self.answering.wait()
        found = [
            csi_pb2.NodeGetStorageHealthResponse.StorageBackendHealth(status=status, reason="Faults")
            for status in self.storage
        ]
        return csi_pb2.NodeGetStorageHealthResponse(backend_health=found)

    async def NodeGetVolumeHealth(  # noqa: N802
        self, request: csi_pb2.NodeGetVolumeHealthRequest, context: Context
    ) -> csi_pb2.NodeGetVolumeHealthResponse:
        """How it finds a volume."""
        del context
        await self.answering.wait()
        adverse = csi_pb2.VolumeHealth.VolumeHealthEntry(status=csi_pb2.INACCESSIBLE, reason="Faults")
        found = [adverse] if request.volume_id in self.inaccessible else []
        health = csi_pb2.VolumeHealth(volume_id=request.volume_id, health_statuses=found)
        return csi_pb2.NodeGetVolumeHealthResponse(volume_health=health)

    async def NodeGetVolumeStats(  # noqa: N802
        self, request: csi_pb2.NodeGetVolumeStatsRequest, context: Context
    ) -> csi_pb2.NodeGetVolumeStatsResponse:
        """Nothing."""
        del request, context
        return csi_pb2.NodeGetVolumeStatsResponse()

    async def NodeGetInfo(  # noqa: N802
        self, request: csi_pb2.NodeGetInfoRequest, context: Context
    ) -> csi_pb2.NodeGetInfoResponse:
        """Which node it is on."""
        del request, context
        return csi_pb2.NodeGetInfoResponse(node_id="faults")

    async def GetInfo(  # noqa: N802
        self, request: registration_pb2.InfoRequest, context: Context
    ) -> registration_pb2.PluginInfo:
        """What a registrar tells a kubelet."""
        del request, context
        return registration_pb2.PluginInfo(
            type="CSIPlugin", name=self.name, endpoint=str(self.path), supported_versions=["1.0.0"]
        )


def _make_way(path: Path) -> None:
    """Have nothing at `path`, in a folder that exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def leave_stale(path: Path) -> None:
    """A socket file that nobody listens on, as a killed process leaves it."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
