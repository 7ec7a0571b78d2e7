"""The collector's configuration file: endpoints that nobody announces on the bus."""

from pathlib import Path
from typing import Literal

import msgspec

from leadsman.config import load_document
from leadsman.domain.report import StorageKey
from leadsman_health_collector.endpoints import Endpoint, parse_endpoint


class EndpointEntry(msgspec.Struct, frozen=True):
    """One address (`host:port`) that must be reachable for `backend` of `driver` to work."""

    driver: str
    backend: str
    address: str

    def __post_init__(self) -> None:
        if not self.driver or not self.backend:
            raise ValueError("driver and backend must not be empty")
        if self.endpoint() is None:
            raise ValueError(f"address {self.address!r} is not host:port, for example 10.0.0.9:2049 or [fd00::9]:2049")

    def endpoint(self) -> Endpoint | None:
        """The endpoint meant; None if the address is not one, which a loaded file cannot hold."""
        return parse_endpoint(StorageKey(self.driver, self.backend), self.address)


class HealthCollectorConfiguration(msgspec.Struct, frozen=True):
    """The whole file."""

    api_version: Literal["leadsman.dev/v1alpha1"] = msgspec.field(name="apiVersion")
    kind: Literal["HealthCollectorConfiguration"]
    endpoints: list[EndpointEntry] = []


def load_endpoints(path: Path | None) -> tuple[Endpoint, ...]:
    """The endpoints of the file `path`; none without a file.

    Raises:
        DocumentError: the file cannot be used.
    """
    if path is None:
        return ()
    entries = load_document(path, HealthCollectorConfiguration).endpoints
    return tuple(endpoint for endpoint in (entry.endpoint() for entry in entries) if endpoint is not None)
