"""A catalogue that a test fills by hand, and records in short form."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from leadsman_gateway.volumes.catalogue import StoredCatalogue
from leadsman_gateway.volumes.records import ObjectRef, Record


class HandFilled(StoredCatalogue):
    """Holds what the test puts in; has no source to read from."""

    synced = True

    def add(self, *records: Record) -> HandFilled:
        """Put `records` in."""
        for record in records:
            self._store.put(record)
        return self

    async def fetch(self, refs: Iterable[ObjectRef]) -> bool:
        """There is nothing to read."""
        return False

    async def run(self) -> None:
        """There is nothing to follow."""

    def describe(self) -> tuple[bool, str]:
        """Always fine."""
        return True, ""


@pytest.fixture
def catalogue() -> HandFilled:
    """An empty catalogue."""
    return HandFilled()
