"""The volume catalogue: what every kind of source of claims, volumes and classes offers, and the memory behind it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from leadsman_gateway.volumes.records import (
    KIND_OF,
    Claim,
    CsiDriver,
    Key,
    Kind,
    ObjectRef,
    Record,
    StorageClass,
    Volume,
)


class Catalogue(Protocol):
    """Claims, volumes and classes of the cluster, in memory, kept current by `run`."""

    @property
    def synced(self) -> bool:
        """Whether everything has been read once."""
        ...

    @property
    def generation(self) -> int:
        """Grows with every change of any record."""
        ...

    def claim(self, namespace: str, name: str) -> Claim | None:
        """The claim, or None when it is not known."""
        ...

    def volume(self, name: str) -> Volume | None:
        """The persistent volume, or None when it is not known."""
        ...

    def storage_class(self, name: str) -> StorageClass | None:
        """The storage class, or None when it is not known."""
        ...

    def volumes(self) -> Collection[Volume]:
        """Every persistent volume."""
        ...

    def storage_classes(self) -> Collection[StorageClass]:
        """Every storage class."""
        ...

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback`, synchronously, after every change of records; it must be quick and must not raise."""
        ...

    async def fetch(self, refs: Iterable[ObjectRef]) -> bool:
        """Read objects from the source now, within a deadline of its own; False when that brought nothing new."""
        ...

    async def run(self) -> None:
        """Keep the catalogue current, for ever."""
        ...

    def describe(self) -> tuple[bool, str]:
        """Whether everything is fine, and words for people, for /readyz."""
        ...


class Store:
    """The records themselves. Lookups are dictionary reads; a record equal to the old one is no change."""

    def __init__(self) -> None:
        self.claims: dict[Key, Claim] = {}
        self.volumes: dict[Key, Volume] = {}
        self.classes: dict[Key, StorageClass] = {}
        self.drivers: dict[Key, CsiDriver] = {}
        self.generation = 0
        self._tables: dict[Kind, dict[Key, Record]] = {
            "PersistentVolumeClaim": self.claims,  # type: ignore[dict-item] # put() keeps kinds and tables together
            "PersistentVolume": self.volumes,  # type: ignore[dict-item]
            "StorageClass": self.classes,  # type: ignore[dict-item]
            "CSIDriver": self.drivers,  # type: ignore[dict-item]
        }
        self._callbacks: list[Callable[[], None]] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        """See `Catalogue.on_change`."""
        self._callbacks.append(callback)

    def count(self, kind: Kind) -> int:
        """Number of records of `kind`."""
        return len(self._tables[kind])

    def put(self, record: Record) -> bool:
        """Add or replace one record; False when an equal one was there."""
        table = self._tables[KIND_OF[type(record)]]
        if table.get(record.key) == record:
            return False
        table[record.key] = record
        self._changed()
        return True

    def drop(self, kind: Kind, key: Key) -> bool:
        """Forget one record; False when there was none."""
        if self._tables[kind].pop(key, None) is None:
            return False
        self._changed()
        return True

    def replace(self, kind: Kind, records: Mapping[Key, Record]) -> bool:
        """Make `records` all that there is of `kind`; False when that changes nothing."""
        table = self._tables[kind]
        if table == records:
            return False
        table.clear()
        table.update(records)
        self._changed()
        return True

    def _changed(self) -> None:
        self.generation += 1
        for callback in self._callbacks:
            callback()


class StoredCatalogue:
    """The reading half of a catalogue, over a `Store`."""

    def __init__(self) -> None:
        self._store = Store()

    @property
    def generation(self) -> int:
        """See `Catalogue.generation`."""
        return self._store.generation

    def claim(self, namespace: str, name: str) -> Claim | None:
        """See `Catalogue.claim`."""
        return self._store.claims.get((namespace, name))

    def volume(self, name: str) -> Volume | None:
        """See `Catalogue.volume`."""
        return self._store.volumes.get(("", name))

    def storage_class(self, name: str) -> StorageClass | None:
        """See `Catalogue.storage_class`."""
        return self._store.classes.get(("", name))

    def volumes(self) -> Collection[Volume]:
        """See `Catalogue.volumes`."""
        return self._store.volumes.values()

    def storage_classes(self) -> Collection[StorageClass]:
        """See `Catalogue.storage_classes`."""
        return self._store.classes.values()

    def on_change(self, callback: Callable[[], None]) -> None:
        """See `Catalogue.on_change`."""
        self._store.on_change(callback)
