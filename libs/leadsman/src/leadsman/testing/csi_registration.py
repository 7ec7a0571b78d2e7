"""The registration socket of the CSI driver double, as node-driver-registrar serves it beside a driver."""

from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from leadsman.pluginregistration.v1 import registration_pb2, registration_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class Registration(registration_pb2_grpc.RegistrationServicer):
    """Offers the driver `name` at `endpoint`, a path on the host, to a kubelet. `kind` is the plugin's type."""

    def __init__(self, name: str, endpoint: str, kind: str = "CSIPlugin") -> None:
        self.calls = 0
        self._info = registration_pb2.PluginInfo(type=kind, name=name, endpoint=endpoint, supported_versions=["1.0.0"])

    async def GetInfo(  # noqa: N802 - gRPC's name
        self, request: registration_pb2.InfoRequest, context: Context
    ) -> registration_pb2.PluginInfo:
        """What the kubelet is to register."""
        del request, context
        self.calls += 1
        return self._info


async def start_registration(socket: Path, registration: Registration) -> grpc.aio.Server:
    """Serve on `socket`; it is for the caller to make its directory, and to remove what was there before or stays."""
    server = grpc.aio.server()
    registration_pb2_grpc.add_RegistrationServicer_to_server(registration, server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    return server
