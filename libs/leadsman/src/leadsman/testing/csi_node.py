"""The Node service of the CSI driver double: it tells what a file says, so that a test can break storage while it runs.

The file is JSON, read anew at every call; every member may be missing:

    {"storage":    [{"status": "STORAGE_UNREACHABLE", "reason": "NoRoute", "message": "...", "volume_capability": {}}],
     "volumes":    {"<handle>": [{"status": "INACCESSIBLE", "reason": "Gone", "message": "..."}]},
     "conditions": {"<handle>": {"abnormal": true, "message": "..."}},
     "hang":       ["NodeGetVolumeHealth"],
     "errors":     {"NodeGetStorageHealth": "INTERNAL"}}

The lists hold CSI messages in the JSON form of protobuf; a status may be a number that no version knows. What is not
listed is well, except that a volume without an entry in `conditions` has no condition at all. A method that hangs
answers when it is no longer listed.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.json_format import ParseDict

from leadsman.csi.v1 import csi_pb2, csi_pb2_grpc
from leadsman.testing.waiting import eventually

Context = grpc.aio.ServicerContext[Any, Any]
Rpc = csi_pb2.NodeServiceCapability.RPC

CAPABILITIES = frozenset(name for name, _ in Rpc.Type.items())
"""What a driver can advertise, by the specification's names."""


class Node(csi_pb2_grpc.NodeServicer):
    """Advertises `capabilities` and answers by `file`.

    `calls` are the calls so far: the method, then the volume and the paths if it is about one.
    """

    def __init__(self, capabilities: Collection[str] = (), file: Path | None = None) -> None:
        self.calls: list[tuple[str, ...]] = []
        self._capabilities = tuple(capabilities)
        self._file = file

    async def NodeGetCapabilities(  # noqa: N802 - gRPC's name
        self, request: csi_pb2.NodeGetCapabilitiesRequest, context: Context
    ) -> csi_pb2.NodeGetCapabilitiesResponse:
        """What it can do."""
        del request
        await self._begin(context, "NodeGetCapabilities")
        can = [csi_pb2.NodeServiceCapability(rpc=Rpc(type=name)) for name in self._capabilities]
        return csi_pb2.NodeGetCapabilitiesResponse(capabilities=can)

    async def NodeGetInfo(  # noqa: N802 - gRPC's name
        self, request: csi_pb2.NodeGetInfoRequest, context: Context
    ) -> csi_pb2.NodeGetInfoResponse:
        """Where it is."""
        del request
        await self._begin(context, "NodeGetInfo")
        return csi_pb2.NodeGetInfoResponse(node_id="test")

    async def NodeGetStorageHealth(  # noqa: N802 - gRPC's name
        self, request: csi_pb2.NodeGetStorageHealthRequest, context: Context
    ) -> csi_pb2.NodeGetStorageHealthResponse:
        """How the storage behind it is said to be."""
        del request
        told = await self._begin(context, "NodeGetStorageHealth")
        return ParseDict({"backend_health": told.get("storage", [])}, csi_pb2.NodeGetStorageHealthResponse())

    async def NodeGetVolumeHealth(  # noqa: N802 - gRPC's name
        self, request: csi_pb2.NodeGetVolumeHealthRequest, context: Context
    ) -> csi_pb2.NodeGetVolumeHealthResponse:
        """How one volume is said to be."""
        paths = (request.volume_publish_path, request.staging_target_path)
        told = await self._begin(context, "NodeGetVolumeHealth", request.volume_id, *paths)
        health = {"volume_id": request.volume_id, "health_statuses": told.get("volumes", {}).get(request.volume_id, [])}
        return ParseDict({"volume_health": health}, csi_pb2.NodeGetVolumeHealthResponse())

    async def NodeGetVolumeStats(  # noqa: N802 - gRPC's name
        self, request: csi_pb2.NodeGetVolumeStatsRequest, context: Context
    ) -> csi_pb2.NodeGetVolumeStatsResponse:
        """The condition of one volume, without any figures."""
        paths = (request.volume_path, request.staging_target_path)
        told = await self._begin(context, "NodeGetVolumeStats", request.volume_id, *paths)
        condition = told.get("conditions", {}).get(request.volume_id)
        return ParseDict({"volume_condition": condition} if condition else {}, csi_pb2.NodeGetVolumeStatsResponse())

    async def _begin(self, context: Context, method: str, *subject: str) -> dict[str, Any]:
        """Note the call, and fail or hang as told; what the file says otherwise."""
        self.calls.append((method, *subject))
        answers = f"the file lets {method} answer"
        await eventually(answers, lambda: method not in self._read().get("hang", ()), within_s=float("inf"))
        told = self._read()
        if code := told.get("errors", {}).get(method):
            await context.abort(grpc.StatusCode[code], f"{code} on request")
        return told

    def _read(self) -> dict[str, Any]:
        """What the file says; nothing if it is not there, or is just being written."""
        try:
            told = json.loads(self._file.read_bytes()) if self._file else {}
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}
