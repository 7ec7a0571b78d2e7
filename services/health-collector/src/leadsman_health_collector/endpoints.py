"""Which addresses to reach: those configured, those announced on the bus, and those that mounts are using. Pure."""

import ipaddress
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from leadsman.domain.report import StorageKey
from leadsman_health_collector.combine import IN_TREE

MAX_ENDPOINTS = 200
"""More than a report can list; what is over is not looked at, which is logged and counted."""

TCP_ONLY = ""
NFS = "nfs"
CEPH = "ceph"
SMB = "smb"
HTTP = "http"
HTTPS = "https"
"""Protocols by which a server can be asked whether it answers; without one only the TCP connection is tried."""

_PROTOCOL_OF_DRIVER = {
    "nfs.csi.k8s.io": NFS,
    "kubernetes.io/nfs": NFS,
    "nfs.csi.ceph.com": NFS,
    "cephfs.csi.ceph.com": CEPH,
    "rbd.csi.ceph.com": CEPH,
    "smb.csi.k8s.io": SMB,
}
_ROOK = re.compile(r".+\.(?=[a-z]+\.csi\.ceph\.com$)")
"""Rook puts its namespace before the names of ceph-csi's drivers."""

_ADDRESS = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]{1,15})?)\]"
    r"|(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))):(?P<port>[0-9]{1,5})"
)


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """An address that must be reachable for one (driver, backend), and the protocol spoken there if we know it.

    With `from_mount` it is what a mount was made with, which the storage may have left behind since: monitors of a
    Ceph cluster move, and the mount follows them unseen.
    """

    key: StorageKey
    host: str
    port: int
    protocol: str = TCP_ONLY
    from_mount: bool = False

    @property
    def address(self) -> str:
        """`host:port` for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def name(self) -> str:
        """Unique text for logs and messages."""
        return f"{self.key}@{self.host}:{self.port}"

    @property
    def quorum(self) -> bool:
        """Whether a majority of its like must be reached: Ceph works without a minority of its monitors."""
        return self.protocol == CEPH


def protocol_of(driver: str) -> str:
    """The protocol that the backends of `driver` speak, TCP_ONLY if that is not known."""
    return _PROTOCOL_OF_DRIVER.get(_ROOK.sub("", driver), TCP_ONLY)


def parse_endpoint(key: StorageKey, address: str, protocol: str | None = None) -> Endpoint | None:
    """`host:port` or `[ipv6]:port`; None if it is neither. Without `protocol` it is the driver's."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) <= 65535:
        return None
    spoken = protocol_of(key.driver) if protocol is None else protocol
    return Endpoint(key, match["ipv6"] or match["host"], int(match["port"]), spoken)


def is_ip(host: str) -> bool:
    """Whether `host` is an IP address, so that nobody needs to resolve it."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def choose_endpoints(
    configured: Collection[Endpoint],
    announced: Iterable[Endpoint],
    mounted: Collection[Endpoint],
    drivers_here: Collection[str],
) -> tuple[dict[str, Endpoint], int]:
    """The endpoints to look at, by name, and how many were left out for MAX_ENDPOINTS.

    Configured ones always count, and they replace all others of the same backend: whoever writes an address knows
    better than a guess from volume attributes. Announced ones come next, because volumes to come will use them, while
    a mount tells what was true when it was made. An announced one counts if its driver is on this node or has no
    plugin: the list is for the whole cluster, and a node that can never use a backend should not knock at its door.
    """
    here = [one for one in announced if one.key.driver in drivers_here or one.key.driver.startswith(IN_TREE)]
    wanted: dict[str, Endpoint] = {}
    for origin in (configured, here, mounted):
        settled = {endpoint.key for endpoint in wanted.values()}
        wanted |= {endpoint.name: endpoint for endpoint in sorted(origin) if endpoint.key not in settled}
    in_use = {endpoint.key for endpoint in (*configured, *mounted)}
    ranked = sorted(wanted.items(), key=lambda item: item[1].key not in in_use)  # what is in use here is left out last
    return dict(ranked[:MAX_ENDPOINTS]), max(0, len(ranked) - MAX_ENDPOINTS)
