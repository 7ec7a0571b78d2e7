"""The administrative pages tell an operator and the kubelet the truth."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry, Counter

from leadsman.runtime.admin import AdminRoutes, Check
from leadsman.runtime.http import HttpServer, ListenError


class Conditions:
    """What the checks of the server under test say."""

    synced = True
    connected = True


@pytest.fixture
async def server() -> AsyncIterator[tuple[int, Conditions]]:
    """A real HTTP server with one required and one informational check."""
    conditions, registry = Conditions(), CollectorRegistry()
    Counter("leadsman_things", "Things.", registry=registry).inc(3)
    routes = AdminRoutes(
        "filter",
        registry,
        [
            Check("cache", lambda: (conditions.synced, "3 nodes" if conditions.synced else "no snapshot yet")),
            Check(
                "bus", lambda: (conditions.connected, "connected" if conditions.connected else "lost"), required=False
            ),
        ],
    )
    http = HttpServer(routes, "127.0.0.1", 0)
    await http.listen()
    async with asyncio.TaskGroup() as group:
        group.create_task(http.run_forever())
        yield http.port, conditions
        http.stop()


async def get(port: int, path: str) -> tuple[int, str]:
    """Status and body of one GET."""

    def fetch() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(fetch)


async def test_ready_means_every_required_check_is_fine(server: tuple[int, Conditions]) -> None:
    """A degraded service stays ready; one without its cache does not."""
    port, conditions = server
    assert await get(port, "/readyz") == (200, "ok")
    conditions.connected = False
    assert await get(port, "/readyz") == (200, "ok")
    conditions.synced = False
    status, text = await get(port, "/readyz")
    assert status == 503
    assert "[-]cache no snapshot yet" in text


async def test_verbose_shows_every_check_and_marks_what_is_degraded(server: tuple[int, Conditions]) -> None:
    """`/readyz?verbose` never hides that we are degraded."""
    port, conditions = server
    conditions.connected = False
    assert await get(port, "/readyz?verbose") == (200, "[+]cache 3 nodes\n[-]bus lost (degraded)\nfilter is ready\n")
    status, text = await get(port, "/readyz/bus")
    assert (status, "[-]bus lost" in text) == (200, True)


async def test_liveness_does_not_depend_on_any_check(server: tuple[int, Conditions]) -> None:
    """A restart would not mend a missing snapshot, so it must not cause one."""
    port, conditions = server
    conditions.synced = conditions.connected = False
    assert await get(port, "/livez") == (200, "ok")


async def test_metrics_version_and_unknown_paths(server: tuple[int, Conditions]) -> None:
    """The registry that was passed in is exported, and a wrong path is answered with the right ones."""
    port, _ = server
    assert "leadsman_things_total 3.0" in (await get(port, "/metrics"))[1]
    assert json.loads((await get(port, "/version"))[1])["component"] == "filter"
    status, text = await get(port, "/nothing")
    assert (status, "/readyz?verbose" in text) == (404, True)
    assert (await get(port, "/readyz/nothing"))[0] == 404


async def test_a_taken_port_is_a_clear_error(server: tuple[int, Conditions]) -> None:
    """Nothing starts on a port that somebody else has."""
    port, _ = server
    second = HttpServer(AdminRoutes("x", CollectorRegistry(), []), "127.0.0.1", port)
    with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}"):
        await second.listen()
