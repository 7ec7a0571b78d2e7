"""What every probe offers to the rounds that drive it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from leadsman.domain.report import StorageKey
from leadsman_health_collector.observation import Kind, Observation
from leadsman_health_collector.strikes import Thresholds

FactValue = float | str


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a probe looks and how many looks decide.

    `period` is in multiples of the collector's `--period` (10 s as shipped). `second_look` asks for a confirmation
    of a first definite failure after half a period.
    """

    period: float = 1.0
    thresholds: Thresholds = field(default_factory=Thresholds)
    second_look: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """One thing to look at: whom it belongs to, and what people call it.

    `volumes` are the PersistentVolumes that stand or fall with it (a block volume's filesystem, not a share of many);
    they are listed as bad beside the state of the key. `place` is a path or address for people. With `quorum` the key
    works as long as a majority of its endpoints does (Ceph monitors), else as long as one does. An address `from_mount`
    is what a mount was made with, perhaps long ago.
    """

    key: StorageKey
    volumes: tuple[str, ...] = ()
    place: str = ""
    quorum: bool = False
    from_mount: bool = False


class Probe(Protocol):
    """A way to look at storage. Sources are known by name: a socket, an address, a superblock (`major:minor`)."""

    kind: Kind
    schedule: Schedule

    def discover(self) -> Collection[str]:
        """Names of all sources there are now; must not wait for storage.

        Raises:
            OSError: it cannot be told; the sources of before stand, but were not looked at.
        """
        ...

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """Which of the discovered sources to look at in this round; `suspects` must be among them."""
        ...

    def sources(self) -> Mapping[str, Source]:
        """Whom each source belongs to, as far as known."""
        ...

    async def look(self, name: str) -> Observation:
        """Look once, within the probe's own deadline, and say what was found; never raises for bad storage."""
        ...


class FactProbe(Protocol):
    """A way to learn facts about the node that scores and rules use; it never judges storage.

    `name` is its metric label, `period` in multiples of the collector's `--period`.
    """

    name: str
    period: float

    async def read(self) -> Mapping[str, FactValue]:
        """The facts of now by name (`docs/facts.md`); empty if this machine has nothing of the kind.

        Must not wait for storage, and for anything else only within its own deadline.

        Raises:
            OSError: they cannot be read now; what was known before counts for three periods more.
        """
        ...
