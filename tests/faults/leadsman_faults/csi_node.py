"""The CSINode object of a node on an API server of our own: what the kubelet says of the drivers there."""

from pathlib import Path
from typing import Any

from leadsman.testing.kube_api import FakeApi


class CsiNode:
    """One node's object; `open` before use. Everything that is set is told to watchers at once."""

    def __init__(self, node: str) -> None:
        self.api = FakeApi()
        self._node = node
        self._drivers: set[str] = set()
        self._health: dict[str, str] = {}

    async def open(self, folder: Path) -> Path:
        """Serve it; the kubeconfig that a collector needs, written to `folder`."""
        await self.api.start()
        await self.api.put("nodes", {"kind": "Node", "metadata": {"name": self._node, "uid": f"{self._node}-uid"}})
        await self._tell()
        return self.api.kubeconfig(folder)

    async def close(self) -> None:
        """Stop serving."""
        await self.api.stop()

    async def register(self, driver: str) -> None:
        """List `driver`."""
        self._drivers.add(driver)
        await self._tell()

    async def unregister(self, driver: str) -> None:
        """Drop `driver` from the list."""
        self._drivers.discard(driver)
        await self._tell()

    async def set_storage_health(self, driver: str, status: str) -> None:
        """Let `status.storageHealth` have this status for `driver`; none if empty."""
        self._health[driver] = status
        await self._tell()

    async def _tell(self) -> None:
        drivers = [{"name": name, "nodeID": self._node, "topologyKeys": []} for name in sorted(self._drivers)]
        health = [
            {"name": name, "healthConditions": [{"status": status, "reason": "Faults", "message": "on request"}]}
            for name, status in self._health.items()
            if status
        ]
        body: dict[str, Any] = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": self._node},
            "spec": {"drivers": drivers},
            "status": {"storageHealth": health},
        }
        await self.api.put("csinodes", body)
