"""The volume catalogue of a cluster: four watches, and reading through on a miss."""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import Clock
from leadsman.kube.api import Api
from leadsman.kube.watch import Reflector
from leadsman.kube.watched import Decoded, Key, Watched, WatchSettings
from leadsman_gateway.volumes.catalogue import Store, StoredCatalogue
from leadsman_gateway.volumes.metrics import CatalogueMetrics
from leadsman_gateway.volumes.objects import RESOURCES, Resource, record_of
from leadsman_gateway.volumes.read_through import ReadThrough
from leadsman_gateway.volumes.records import Kind, ObjectRef, Record

DEGRADED_AFTER_S = 30.0
"""A watch that has been down for this long shows on /readyz; what it brought before keeps being used."""


class _OneKind:
    """The part of `store` that one watch fills."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._kind = kind

    def replace(self, records: Mapping[Key, Record]) -> None:
        self._store.replace(self._kind, records)

    def put(self, _: Key, record: Record) -> None:
        self._store.put(record)

    def drop(self, key: Key) -> None:
        self._store.drop(self._kind, key)

    def __len__(self) -> int:
        return self._store.count(self._kind)


def watched(resource: Resource) -> Watched[Record]:
    """All objects of `resource`, in every namespace."""

    def decode(body: msgspec.Raw) -> Decoded[Record]:
        record, version = record_of(resource.kind, body)
        return Decoded(record.key, record, version)

    return Watched(resource.kind, resource.collection, decode)


class ApiServerCatalogue(StoredCatalogue):
    """PersistentVolumeClaims, PersistentVolumes, StorageClasses and CSIDrivers as the API server has them.

    When the API server is lost, the last known objects stand. CSIDrivers decide nothing, so nothing waits for them.
    """

    def __init__(
        self,
        api: Api,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        settings: WatchSettings | None = None,
        fetch_deadline_s: float = 0.3,
    ) -> None:
        super().__init__()
        metrics = CatalogueMetrics(registry)
        self._through = ReadThrough(api, self._store, clock=clock, metrics=metrics, deadline_s=fetch_deadline_s)
        self._reflectors = {
            kind: Reflector(
                watched(resource),
                api,
                _OneKind(self._store, kind),
                clock=clock,
                metrics=metrics,
                settings=settings or WatchSettings(),
            )
            for kind, resource in RESOURCES.items()
        }

    @property
    def synced(self) -> bool:
        """See `Catalogue.synced`."""
        return all(one.synced for kind, one in self._reflectors.items() if RESOURCES[kind].essential)

    async def fetch(self, refs: Iterable[ObjectRef]) -> bool:
        """See `Catalogue.fetch`."""
        return await self._through.fetch(refs)

    async def run(self) -> None:
        """See `Catalogue.run`."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"watch {kind}")

    def describe(self) -> tuple[bool, str]:
        """See `Catalogue.describe`."""
        unread = [f"{kind} not read yet: {one.last_error}" for kind, one in self._reflectors.items() if not one.synced]
        lost = [
            f"{kind} not watched for {one.down_for_s:.0f} s, using what is known: {one.last_error}"
            for kind, one in self._reflectors.items()
            if one.synced and one.down_for_s > DEGRADED_AFTER_S
        ]
        if unread or lost:
            return False, "; ".join(unread + lost)
        counts = ", ".join(f"{self._store.count(kind)} {resource.plural}" for kind, resource in RESOURCES.items())
        return True, counts
