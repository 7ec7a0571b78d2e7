"""The fake API server, a connection to it, and waiting for what must become true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from leadsman_gateway.volumes import Api, connect

from .fake_api import FakeApi

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    """An empty API server."""
    async with FakeApi() as running:
        yield running


@pytest.fixture
async def api(server: FakeApi, tmp_path: Path) -> AsyncIterator[Api]:
    """A connection through a kubeconfig."""
    connected = await connect(server.kubeconfig(tmp_path))
    yield connected
    await connected.close()


@pytest.fixture
def eventually() -> Eventually:
    """Waits, up to 5 s, until a condition holds."""

    async def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 5.0
        while not condition():
            assert time.monotonic() < deadline, "not in time"
            await asyncio.sleep(0.005)

    return wait
