"""An API server on loopback, a connection to it, and a way to run a part for the length of a block."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from leadsman.kube.api import Api, connect
from leadsman.testing import waiting
from leadsman.testing.kube_api import FakeApi, Object

NODE = "worker-1"


def node(uid: str = "u-1", **labels: str) -> Object:
    """This node's Node object."""
    return {"metadata": {"name": NODE, "uid": uid, "labels": labels}, "status": {"conditions": []}}


def csi_node(*drivers: str, **status: object) -> Object:
    """This node's CSINode object."""
    spec = {"drivers": [{"name": driver, "nodeID": NODE} for driver in drivers]}
    return {"metadata": {"name": NODE}, "spec": spec, **({"status": status} if status else {})}


@contextlib.asynccontextmanager
async def run_part(part) -> AsyncIterator[None]:
    """Run whatever has `run`; it must not end by itself."""
    task = asyncio.create_task(part.run())
    try:
        yield
        assert not task.done(), "it has ended by itself"
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture
def running() -> Callable[..., contextlib.AbstractAsyncContextManager[None]]:
    """See `run_part`."""
    return run_part


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    """An API server that knows the node."""
    async with FakeApi() as running:
        await running.put("nodes", node())
        yield running


@pytest.fixture
async def api(server: FakeApi, tmp_path: Path) -> AsyncIterator[Api]:
    """A connection to it."""
    connected = await connect(server.kubeconfig(tmp_path), user_agent="leadsman-test")
    yield connected
    await connected.close()


@pytest.fixture
def registry() -> CollectorRegistry:
    """Where the part's series are."""
    return CollectorRegistry()


@pytest.fixture
def metric(registry: CollectorRegistry) -> Callable[..., float]:
    """The value of a series of ours."""

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"leadsman_collector_kube_{name}", labels) or 0.0

    return value


@pytest.fixture
def soon() -> Callable[..., object]:
    """Waits, up to 5 s, until a condition holds."""

    async def wait(what: str, condition: Callable[[], object]) -> None:
        await waiting.eventually(what, condition, within_s=5, every_s=0.005)

    return wait
