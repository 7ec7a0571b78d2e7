"""The catalogue follows an API server through everything that lists and watches go through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from leadsman.kube.api import Api
from leadsman.kube.watched import WatchSettings
from leadsman.testing.clock import FakeClock
from leadsman.testing.kube_api import Failure, FakeApi
from leadsman_gateway.volumes import ApiServerCatalogue

from .volume_objects import pv, pvc

pytestmark = pytest.mark.integration

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]
QUICK = WatchSettings(page_size=2, backoff_s=0.02, backoff_limit_s=0.1)


class Rig:
    """A catalogue on the fake server, running."""

    def __init__(self, api: Api, settings: WatchSettings = QUICK) -> None:
        self.clock = FakeClock()
        self.registry = CollectorRegistry()
        self.catalogue = ApiServerCatalogue(api, clock=self.clock, registry=self.registry, settings=settings)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[ApiServerCatalogue]:
        task = asyncio.create_task(self.catalogue.run())
        try:
            yield self.catalogue
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"leadsman_catalogue_{name}", labels) or 0.0


async def test_list_is_read_page_by_page(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """Five claims in pages of two are all there at once, with everything else."""
    for number in range(5):
        await server.put("persistentvolumeclaims", pvc(f"c-{number}", volumeName="pv-1"))
    await server.put("persistentvolumes", pv("pv-1"))
    await server.put("storageclasses", {"metadata": {"name": "fast"}, "provisioner": "kubernetes.io/aws-ebs"})
    rig = Rig(api)
    assert not rig.catalogue.synced
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.synced)

        assert all(catalogue.claim("shop", f"c-{number}") for number in range(5))
        assert len(catalogue.volumes()) == 1
        found = catalogue.storage_class("fast")
        assert found is not None
        assert found.driver == "ebs.csi.aws.com"
    assert server.count("limit=2&continue=") == 2
    assert rig.metric("objects", kind="PersistentVolumeClaim") == 5


async def test_changes_arrive_by_watch(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """Added, modified and deleted objects are seen, and listeners are called, without another list."""
    rig = Rig(api)
    calls: list[int] = []
    rig.catalogue.on_change(lambda: calls.append(1))
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.describe()[0])
        await server.put("persistentvolumeclaims", pvc("c"))
        await eventually(lambda: catalogue.claim("shop", "c") is not None)
        await server.put("persistentvolumeclaims", pvc("c", volumeName="pv-1"))
        await eventually(lambda: getattr(catalogue.claim("shop", "c"), "volume", "") == "pv-1")
        await server.delete("persistentvolumeclaims", "c", "shop")
        await eventually(lambda: catalogue.claim("shop", "c") is None)
    assert len(calls) == 3
    assert server.count("persistentvolumeclaims?limit") == 1


async def test_cut_watch_resumes_where_it_was(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """After a cut the watch continues from the last version: nothing is missed and nothing is listed again."""
    await server.put("persistentvolumes", pv("pv-1"))
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: server.count("watch=true") == 4)
        await server.put("persistentvolumes", pv("pv-2"))
        await eventually(lambda: catalogue.volume("pv-2") is not None)
        seen = server.version
        await server.cut()
        await server.put("persistentvolumes", pv("pv-3"))
        await eventually(lambda: catalogue.volume("pv-3") is not None)
    assert server.count(f"persistentvolumes?watch=true&allowWatchBookmarks=true&resourceVersion={seen}&") == 1
    assert server.count("persistentvolumes?limit") == 1
    assert rig.metric("watch_restarts_total", kind="PersistentVolume", reason="failed") == 1


async def test_bookmark_moves_the_version_on(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """A quiet watch survives compaction thanks to bookmarks."""
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: server.count("watch=true") == 4)
        rig.clock.advance(10)
        await server.bookmark("persistentvolumeclaims")
        await eventually(lambda: rig.metric("last_event_age_seconds", kind="PersistentVolumeClaim") == 0)
        server.compact()
        await server.cut()
        await eventually(lambda: server.count("persistentvolumeclaims?watch") == 2)
        await server.put("persistentvolumeclaims", pvc("late"))
        await eventually(lambda: catalogue.claim("shop", "late") is not None)
    assert server.count("persistentvolumeclaims?limit") == 1


async def test_expired_version_is_listed_again(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """After 410 a fresh list replaces everything; what was deleted meanwhile is gone."""
    await server.put("persistentvolumes", pv("pv-1"))
    await server.put("persistentvolumes", pv("pv-2"))
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.describe()[0])
        server.muted = True
        await server.delete("persistentvolumes", "pv-1")
        await server.put("persistentvolumes", pv("pv-3"))
        server.compact()
        server.muted = False
        await server.cut()
        await eventually(lambda: catalogue.volume("pv-3") is not None)
        assert catalogue.volume("pv-1") is None
        assert catalogue.volume("pv-2") is not None
    assert rig.metric("watch_restarts_total", kind="PersistentVolume", reason="expired") == 1
    assert rig.metric("relists_total", kind="PersistentVolume") == 2


async def test_error_event_is_listed_again(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """410 may also come inside the stream."""
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: server.count("watch=true") == 4)
        await server.error("persistentvolumes", 410)
        await eventually(lambda: server.count("persistentvolumes?limit") == 2)
        await server.put("persistentvolumes", pv("pv-1"))
        await eventually(lambda: catalogue.volume("pv-1") is not None)


async def test_expired_page_starts_the_list_over(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """A continue token that has expired costs another list, not the catalogue."""
    for number in range(5):
        await server.put("persistentvolumes", pv(f"pv-{number}"))
    server.expired_pages = 1
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.synced)
        assert len(catalogue.volumes()) == 5


async def test_silent_watch_is_taken_for_half_open(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """A connection over which nothing comes is given up, and what it held back arrives over the next."""
    rig = Rig(api, replace(QUICK, idle_s=0.3))
    async with rig.running() as catalogue:
        await eventually(lambda: server.count("watch=true") == 4)
        server.muted = True
        await server.put("persistentvolumes", pv("pv-1"))
        await eventually(lambda: rig.metric("watch_failures_total", kind="PersistentVolume", cause="unreachable") > 0)
        assert catalogue.volume("pv-1") is None
        server.muted = False
        await eventually(lambda: catalogue.volume("pv-1") is not None)
    assert server.count("persistentvolumes?limit") == 1


async def test_lost_server_leaves_the_last_known_objects(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """While the API server is away its last state stands and /readyz says so; afterwards all is well again."""
    await server.put("persistentvolumes", pv("pv-1"))
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.describe()[0])
        await server.stop()
        await eventually(lambda: rig.metric("watch_up", kind="PersistentVolume") == 0)
        assert catalogue.describe()[0], "a short loss is no degradation"
        rig.clock.advance(31)
        fine, words = catalogue.describe()
        assert not fine
        assert "PersistentVolume not watched for 31 s, using what is known" in words
        assert catalogue.synced
        assert catalogue.volume("pv-1") is not None
        await server.start()
        await server.put("persistentvolumes", pv("pv-2"))
        await eventually(lambda: catalogue.volume("pv-2") is not None)
        await eventually(lambda: catalogue.describe()[0])
    assert rig.metric("last_event_age_seconds", kind="PersistentVolume") == 0


async def test_unreadable_object_hides_no_other(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """One object of a shape we do not know is counted and skipped, in a list and in a watch."""
    await server.put("persistentvolumes", {"metadata": {"name": "odd"}, "spec": {"csi": {"driver": 7}}})
    await server.put("persistentvolumes", pv("pv-1"))
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.volume("pv-1") is not None)
        await eventually(lambda: server.count("watch=true") == 4)
        await server.put("persistentvolumes", {"metadata": {"name": "odd"}, "spec": {"csi": {"driver": 8}}})
        await server.put("persistentvolumes", pv("pv-2"))
        await eventually(lambda: catalogue.volume("pv-2") is not None)
    assert rig.metric("bad_objects_total", kind="PersistentVolume") == 2


async def test_watch_that_ends_at_once_is_not_hammered(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """A proxy that closes every watch costs a handful of requests, not thousands."""
    server.ending_at_once = True
    rig = Rig(api, replace(QUICK, backoff_s=0.1, backoff_limit_s=10.0))
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.synced)
        await asyncio.sleep(0.5)
        assert server.count("persistentvolumes?watch") <= 6
        rig.clock.advance(31)
        assert "the watch ended at once without an event" in catalogue.describe()[1]
        server.ending_at_once = False
        await server.put("persistentvolumes", pv("pv-1"))
        await eventually(lambda: catalogue.volume("pv-1") is not None)


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_drivers_are_not_waited_for(server: FakeApi, api: Api, eventually: Eventually, status: int) -> None:
    """CSIDrivers decide nothing: without the right to list them the catalogue is synced, and says what is missing."""
    server.failures.append(Failure(status, "csidrivers"))
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.synced)
        await eventually(lambda: f"csidrivers: {status} told to fail" in catalogue.describe()[1])
        assert not catalogue.describe()[0]


async def test_missing_right_keeps_the_catalogue_unsynced(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """Without claims nothing can be decided, and the reason is told."""
    server.failures.append(Failure(403, "persistentvolumeclaims"))
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(
            lambda: rig.metric("watch_failures_total", kind="PersistentVolumeClaim", cause="forbidden") > 1
        )
        assert not catalogue.synced
        assert "PersistentVolumeClaim not read yet" in catalogue.describe()[1]


async def test_throttling_is_obeyed(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """Retry-After holds the next request back."""
    server.failures.append(Failure(429, "persistentvolumes", times=1, headers={"Retry-After": "1"}))
    rig = Rig(api, replace(QUICK, backoff_limit_s=30.0))
    async with rig.running() as catalogue:
        await eventually(lambda: server.count("persistentvolumes?limit") == 1)
        started = asyncio.get_running_loop().time()
        await eventually(lambda: catalogue.synced)
        assert asyncio.get_running_loop().time() - started > 0.9


async def test_long_watch_is_checked_by_a_fresh_list(server: FakeApi, api: Api, eventually: Eventually) -> None:
    """Once an hour everything is listed again, which heals whatever drift there may be."""
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: server.count("watch=true") == 4)
        rig.clock.advance(3601)
        await server.cut()
        await eventually(lambda: server.count("persistentvolumes?limit") == 2)
        await eventually(lambda: catalogue.describe()[0])


async def test_rotated_token_is_read_again(server: FakeApi, api: Api, eventually: Eventually, tmp_path: Path) -> None:
    """When the old token is refused, the kubeconfig is read again, and the same call goes through."""
    rig = Rig(api)
    async with rig.running() as catalogue:
        await eventually(lambda: catalogue.describe()[0])
        server.token = "second"
        server.kubeconfig(tmp_path)
        await server.put("persistentvolumes", pv("pv-1"))
        await server.cut()
        await server.put("persistentvolumes", pv("pv-2"))
        await eventually(lambda: catalogue.volume("pv-2") is not None)
        await eventually(lambda: catalogue.describe()[0])
