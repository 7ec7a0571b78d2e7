"""Objects that the watch has not brought yet are read by name, within bounds."""

from __future__ import annotations

import time

import pytest
from prometheus_client import CollectorRegistry

from leadsman.kube.api import Api
from leadsman.testing.clock import FakeClock
from leadsman.testing.kube_api import Failure, FakeApi
from leadsman_gateway.volumes import ApiServerCatalogue, ObjectRef

from .volume_objects import pv, pvc

pytestmark = pytest.mark.integration

CLAIM = ObjectRef("PersistentVolumeClaim", "shop", "data")


@pytest.fixture
def clock() -> FakeClock:
    """Time under control."""
    return FakeClock()


@pytest.fixture
def registry() -> CollectorRegistry:
    """Where the catalogue counts."""
    return CollectorRegistry()


@pytest.fixture
def catalogue(api: Api, clock: FakeClock, registry: CollectorRegistry) -> ApiServerCatalogue:
    """A catalogue that is not running, so that only reading through brings anything."""
    return ApiServerCatalogue(api, clock=clock, registry=registry)


def reads(registry: CollectorRegistry, result: str) -> float:
    return registry.get_sample_value("leadsman_catalogue_read_throughs_total", {"result": result}) or 0.0


async def test_claim_brings_its_volume_and_class(
    server: FakeApi, catalogue: ApiServerCatalogue, registry: CollectorRegistry
) -> None:
    """One fetch of a claim is enough to resolve a pod."""
    await server.put("persistentvolumeclaims", pvc("data", volumeName="pv-1", storageClassName="fast"))
    await server.put("persistentvolumes", pv("pv-1"))
    await server.put("storageclasses", {"metadata": {"name": "fast"}, "provisioner": "nfs.csi.k8s.io"})

    assert await catalogue.fetch([CLAIM])
    assert catalogue.claim("shop", "data") is not None
    assert catalogue.volume("pv-1") is not None
    assert catalogue.storage_class("fast") is not None
    assert reads(registry, "found") == 3


async def test_absent_object_is_not_asked_for_again_at_once(
    server: FakeApi, catalogue: ApiServerCatalogue, clock: FakeClock, registry: CollectorRegistry
) -> None:
    """A missing claim costs one request a second, however often its pod is tried."""
    for _ in range(5):
        assert not await catalogue.fetch([CLAIM, CLAIM])
    assert server.count("GET") == 1
    assert reads(registry, "absent") == 1
    clock.advance(1.1)
    await server.put("persistentvolumeclaims", pvc("data"))
    assert await catalogue.fetch([CLAIM])


async def test_silent_server_costs_one_deadline(
    server: FakeApi, catalogue: ApiServerCatalogue, clock: FakeClock, registry: CollectorRegistry
) -> None:
    """A fetch ends at its deadline, and for a second nothing else is tried."""
    server.delay_s = 2.0
    started = time.monotonic()
    assert not await catalogue.fetch([CLAIM])
    assert 0.25 < time.monotonic() - started < 1.0
    assert not await catalogue.fetch([ObjectRef("PersistentVolume", "", "pv-1")])
    assert server.count("GET") == 1
    assert reads(registry, "failed") >= 1
    server.delay_s = 0.0
    clock.advance(1.1)
    await server.put("persistentvolumes", pv("pv-1"))
    assert await catalogue.fetch([ObjectRef("PersistentVolume", "", "pv-1")])


async def test_many_slow_reads_share_one_deadline(server: FakeApi, catalogue: ApiServerCatalogue) -> None:
    """However many objects are asked for, and however they follow from one another, the caller waits 0.3 s."""
    server.delay_s = 0.2
    started = time.monotonic()
    await catalogue.fetch([ObjectRef("PersistentVolumeClaim", "shop", f"c-{number}") for number in range(32)])
    assert time.monotonic() - started < 0.6


async def test_refusal_is_a_failure_not_an_absence(
    server: FakeApi, catalogue: ApiServerCatalogue, registry: CollectorRegistry
) -> None:
    """403 says nothing about the object."""
    server.failures.append(Failure(403))
    assert not await catalogue.fetch([CLAIM])
    assert reads(registry, "failed") == 1
    assert reads(registry, "absent") == 0


async def test_names_that_are_none_are_never_sent(server: FakeApi, catalogue: ApiServerCatalogue) -> None:
    """A pod cannot make us read another path."""
    names = ["..", "a/b", "", "A", "a?watch=true", "x" * 300, "a%2fb"]
    assert not await catalogue.fetch([ObjectRef("PersistentVolumeClaim", "shop", name) for name in names])
    assert not await catalogue.fetch([ObjectRef("PersistentVolumeClaim", "..", "data")])
    assert server.requests == []


async def test_number_of_reads_is_bounded(server: FakeApi, catalogue: ApiServerCatalogue) -> None:
    """A pod with a thousand unknown claims costs 32 requests."""
    await catalogue.fetch([ObjectRef("PersistentVolumeClaim", "shop", f"c-{number}") for number in range(1000)])
    assert server.count("GET") == 32


async def test_unchanged_object_is_nothing_new(
    server: FakeApi, catalogue: ApiServerCatalogue, clock: FakeClock
) -> None:
    """Reading what is known already must not cause another round."""
    await server.put("persistentvolumeclaims", pvc("data"))
    assert await catalogue.fetch([CLAIM])
    clock.advance(1.1)
    assert not await catalogue.fetch([CLAIM])
