"""Which addresses to reach: those of the configuration file and those that the gateway announces on the bus. Pure."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from leadsman.domain.report import StorageKey
from leadsman_health_collector.combine import IN_TREE

MAX_ENDPOINTS = 200
"""More than a report can list; what is over is not looked at, which is logged and counted."""

_ADDRESS = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))):(?P<port>\d{1,5})"
)


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """An address that must be reachable for one (driver, backend)."""

    key: StorageKey
    host: str
    port: int

    @property
    def name(self) -> str:
        """Unique text for logs and messages."""
        return f"{self.key}@{self.host}:{self.port}"


def parse_endpoint(key: StorageKey, address: str) -> Endpoint | None:
    """`host:port` or `[ipv6]:port`; None if it is neither."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) <= 65535:
        return None
    return Endpoint(key, match["ipv6"] or match["host"], int(match["port"]))


def choose_endpoints(
    configured: Iterable[Endpoint], announced: Iterable[Endpoint], drivers_here: Collection[str]
) -> tuple[dict[str, Endpoint], int]:
    """The endpoints to look at, by name, and how many were left out for MAX_ENDPOINTS.

    Configured ones always count, and they replace what is announced for the same backend: whoever writes an address
    knows better than a guess from volume attributes. An announced one counts if its driver is on this node or has no
    plugin: the list is for the whole cluster, and a node that can never use a backend should not knock at its door.
    """
    wanted = {endpoint.name: endpoint for endpoint in sorted(configured)}
    settled = {endpoint.key for endpoint in wanted.values()}
    for endpoint in sorted(announced):
        here = endpoint.key.driver in drivers_here or endpoint.key.driver.startswith(IN_TREE)
        if here and endpoint.key not in settled:
            wanted[endpoint.name] = endpoint
    kept = dict(list(wanted.items())[:MAX_ENDPOINTS])
    return kept, len(wanted) - len(kept)
