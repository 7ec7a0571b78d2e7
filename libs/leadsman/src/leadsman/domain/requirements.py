"""What a pod asks for, as far as storage and policy are concerned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leadsman.domain.report import StorageKey


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """One volume's need: a driver, the backend behind it if known (else empty), the volume, and how it is used."""

    driver: str
    backend: str = ""
    volume: str = ""
    read_only: bool = False

    @property
    def key(self) -> StorageKey:
        """The (driver, backend) whose health decides."""
        return StorageKey(self.driver, self.backend)


@dataclass(frozen=True, slots=True)
class Profile:
    """The pod's traits that policy rules may select on."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


def storage_keys(requirements: Iterable[Requirement]) -> tuple[StorageKey, ...]:
    """Every key that the requirements touch, driver levels included, sorted and without repeats.

    A requirement with a backend also depends on the driver itself: a dead plugin blocks every backend behind it.
    """
    keys: set[StorageKey] = set()
    for requirement in requirements:
        keys.add(StorageKey(requirement.driver))
        keys.add(requirement.key)
    return tuple(sorted(keys))
