"""The collector's configuration file: endpoints and canaries that nobody announces, and what to leave alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from leadsman.config import load_document
from leadsman.domain.durations import parse_duration
from leadsman.domain.errors import ConfigError
from leadsman.domain.report import StorageKey
from leadsman_health_collector.endpoints import TCP_ONLY, Endpoint, parse_endpoint
from leadsman_health_collector.flapping import Damping
from leadsman_health_collector.observation import Kind

_FACTS = ("pressure", "diskstats", "cpu_memory", "gpu")
ProbeName = StrEnum("ProbeName", [(name, name) for name in (*(kind.value for kind in Kind), *_FACTS)])  # type: ignore[misc]
"""Every probe that can be switched off."""

_Share = Annotated[int, msgspec.Meta(ge=2, le=100)]


class EndpointEntry(msgspec.Struct, frozen=True):
    """One address (`host:port`) that must be reachable for `backend` of `driver` to work.

    `protocol` is what is spoken there, `tcp` to only connect; by default that of the driver, if it is known.
    """

    driver: str
    backend: str
    address: str
    protocol: Literal["tcp", "nfs", "ceph", "smb", "http", "https"] | None = None

    def __post_init__(self) -> None:
        if not self.driver or not self.backend:
            raise ValueError("driver and backend must not be empty")
        if self.endpoint() is None:
            raise ValueError(f"address {self.address!r} is not host:port, for example 10.0.0.9:2049 or [fd00::9]:2049")

    def endpoint(self) -> Endpoint | None:
        """The endpoint meant; None if the address is not one, which a loaded file cannot hold."""
        protocol = TCP_ONLY if self.protocol == "tcp" else self.protocol
        return parse_endpoint(StorageKey(self.driver, self.backend), self.address, protocol)


class CanaryEntry(msgspec.Struct, frozen=True):
    """A directory that belongs to the collector, on storage of `backend` of `driver`: small files are written there."""

    driver: str
    path: str
    backend: str = ""

    def __post_init__(self) -> None:
        if not self.driver:
            raise ValueError("driver must not be empty")
        if not self.path.startswith("/"):
            raise ValueError(f"path {self.path!r} is not absolute")


class DriverEntry(msgspec.Struct, frozen=True, rename="camel"):
    """What is special about one driver.

    `kernel_modules` are those of which one must be there or loadable for the driver to mount anything.
    """

    disabled_probes: list[ProbeName] = []
    kernel_modules: list[str] = []


class FlappingEntry(msgspec.Struct, frozen=True, rename="camel"):
    """When storage counts as flapping and how long its recovery is then held back; durations such as `5m`."""

    changes: _Share = 3
    window: str = "10m"
    hold: str = "5m"
    max_hold: str = "30m"

    def __post_init__(self) -> None:
        self.damping()

    def damping(self) -> Damping:
        """The same with seconds.

        Raises:
            ValueError: a duration is not one.
        """
        try:
            times = [parse_duration(text) for text in (self.window, self.hold, self.max_hold)]
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return Damping(self.changes, *times)


class HealthCollectorConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """The whole file."""

    api_version: Literal["leadsman.dev/v1alpha1"]
    kind: Literal["HealthCollectorConfiguration"]
    endpoints: list[EndpointEntry] = []
    canaries: list[CanaryEntry] = []
    disabled_probes: list[ProbeName] = []
    drivers: dict[str, DriverEntry] = {}
    flapping: FlappingEntry = FlappingEntry()


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    """The file in the collector's own terms; by default nothing is added and nothing switched off."""

    endpoints: tuple[Endpoint, ...] = ()
    canaries: tuple[tuple[StorageKey, Path], ...] = ()
    disabled: frozenset[str] = frozenset()
    disabled_for: Mapping[str, frozenset[str]] = field(default_factory=dict)
    kernel_modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    damping: Damping = field(default_factory=Damping)

    def allows(self, probe: str, driver: str = "") -> bool:
        """Whether `probe` may look at sources of `driver`, or at all if that is empty."""
        return probe not in self.disabled and probe not in self.disabled_for.get(driver, ())


def load_config(path: Path | None) -> CollectorConfig:
    """The configuration in the file `path`; the default one without a file.

    Raises:
        DocumentError: the file cannot be used.
    """
    if path is None:
        return CollectorConfig()
    document = load_document(path, HealthCollectorConfiguration)
    return CollectorConfig(
        endpoints=tuple(one for one in (entry.endpoint() for entry in document.endpoints) if one is not None),
        canaries=tuple((StorageKey(one.driver, one.backend), Path(one.path)) for one in document.canaries),
        disabled=frozenset(str(name) for name in document.disabled_probes),
        disabled_for={
            driver: frozenset(str(name) for name in entry.disabled_probes) for driver, entry in document.drivers.items()
        },
        kernel_modules={
            driver: tuple(entry.kernel_modules) for driver, entry in document.drivers.items() if entry.kernel_modules
        },
        damping=document.flapping.damping(),
    )
