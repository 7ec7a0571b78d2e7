"""What a pod asks for, as far as storage and policy are concerned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from leadsman.domain.report import StorageKey

NEAR_ZONE = "leadsman.dev/near-zone"
NEAR_REGION = "leadsman.dev/near-region"
"""Pod annotations that say where its data is, instead of its volumes' topology."""


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


class Near(NamedTuple):
    """Where a pod's data is: zones and regions by their topology labels, sorted. Both empty: nowhere in particular."""

    zones: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()


NOWHERE = Near()
"""A pod without data, or whose data may be reached from everywhere alike."""

Needs = tuple[StorageKey, ...]
"""The (driver, backend) pairs that a pod needs, sorted and without repeats."""


class Question(NamedTuple):
    """All that an answer of filter or scorer depends on: pods that ask the same get the same.

    `rules` are positions among the rules of the service (those that require, or those that prefer), ascending.
    """

    needs: Needs
    rules: tuple[int, ...] = ()
    near: Near = NOWHERE
