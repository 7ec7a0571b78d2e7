"""What a pod asks for, as far as storage and policy are concerned."""

from collections.abc import Mapping
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
