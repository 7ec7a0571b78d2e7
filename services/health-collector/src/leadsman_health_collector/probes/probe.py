"""What every probe offers to the rounds that drive it."""

from collections.abc import Collection, Mapping
from typing import Protocol

from leadsman.domain.report import StorageKey
from leadsman_health_collector.observation import Kind, Observation


class Probe(Protocol):
    """A way to look at storage. Sources are known by name: a socket, an address, a superblock."""

    kind: Kind

    def discover(self) -> Collection[str]:
        """Names of all sources there are now; must not wait for storage.

        Raises:
            OSError: it cannot be told; the sources of before stand, but were not looked at.
        """
        ...

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """Which of the discovered sources to look at in this round; `suspects` must be among them."""
        ...

    def keys(self) -> Mapping[str, StorageKey]:
        """Whom each source belongs to, as far as known."""
        ...

    async def look(self, name: str) -> Observation:
        """Look once, within the probe's own deadline, and say what was found; never raises for bad storage."""
        ...
