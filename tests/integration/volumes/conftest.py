"""The fake API server, a connection to it, and waiting for what must become true."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from leadsman.kube.api import Api, connect
from leadsman.testing import waiting
from leadsman.testing.kube_api import FakeApi

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    """An empty API server."""
    async with FakeApi() as running:
        yield running


@pytest.fixture
async def api(server: FakeApi, tmp_path: Path) -> AsyncIterator[Api]:
    """A connection through a kubeconfig."""
    connected = await connect(server.kubeconfig(tmp_path), user_agent="leadsman-test")
    yield connected
    await connected.close()


@pytest.fixture
def eventually() -> Eventually:
    """Waits, up to 5 s, until a condition holds."""

    async def wait(condition: Callable[[], bool]) -> None:
        await waiting.eventually("what the test waits for", condition, within_s=5, every_s=0.005)

    return wait
