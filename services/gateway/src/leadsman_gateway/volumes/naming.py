"""Which storage system stands behind a volume: the backend's name, and the addresses that a node must reach.

The same attribute is looked up in a PV's volumeAttributes, in a StorageClass's parameters and in an inline volume's
attributes. Sources for the attributes: README files of csi-driver-nfs, csi-driver-smb and ceph-csi; democratic-csi
writes `node_attach_driver` beside `server` or `portal` under any driver name.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from leadsman_gateway.volumes.in_tree import ISCSI, NFS

DEFAULT_ATTRIBUTES: dict[str, str] = {
    "nfs.csi.k8s.io": "server",
    NFS: "server",
    "smb.csi.k8s.io": "source",
    "rbd.csi.ceph.com": "clusterID",
    "cephfs.csi.ceph.com": "clusterID",
    "nfs.csi.ceph.com": "clusterID",
    ISCSI: "portal",
}
"""Driver to the attribute that names its backend."""

_ATTACH = "node_attach_driver"
_PORT_OF_PROTOCOL = {"nfs": 2049, "smb": 445, "iscsi": 3260, "nvmeof": 4420}
_PROTOCOL_OF_DRIVER = {"nfs.csi.k8s.io": "nfs", NFS: "nfs", "smb.csi.k8s.io": "smb", ISCSI: "iscsi"}
# Their backend is an identifier, not an address: the monitors are in a ConfigMap of the driver's.
_NO_ADDRESS = frozenset({"rbd.csi.ceph.com", "cephfs.csi.ceph.com", "nfs.csi.ceph.com"})
_HOST_NAME = re.compile(r"(?=.*[a-zA-Z])[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?\.?")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_HOST_PORT = re.compile(r"(?P<host>[^:\[\]]+|\[[^\]]+\]):(?P<port>\d{1,5})")


class BackendNames:
    """Names of backends, by the built-in attributes and the operator's own (`overrides`: driver to attribute)."""

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._attributes = {**DEFAULT_ATTRIBUTES, **overrides}

    def name(self, driver: str, attributes: Mapping[str, str]) -> str:
        """The backend that `attributes` name for `driver`; empty when they name none."""
        attribute = self._attributes.get(driver) or self._attributes.get(_without_prefix(driver))
        if attribute is not None:
            return _host_part(_lookup(attributes, attribute))
        if _ATTACH in attributes:
            return _host_part(attributes.get("server") or attributes.get("portal") or "")
        return ""

    def endpoints(
        self, driver: str, attributes: Mapping[str, str], mount_options: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Addresses `host:port` (IPv6 in brackets) of the backend, sorted; empty when they cannot be derived.

        A wrong address would condemn a healthy backend, so no port is guessed for a driver that we do not know, nor
        for a mount that does not use TCP.
        """
        if _without_prefix(driver) in _NO_ADDRESS:
            return ()
        protocol = _PROTOCOL_OF_DRIVER.get(driver) or attributes.get(_ATTACH, "")
        options = _options(mount_options)
        if options.get("proto", "tcp") not in {"tcp", "tcp6"}:
            return ()
        port = _PORT_OF_PROTOCOL.get(protocol)
        if protocol in {"nfs", "smb"} and options.get("port", "").isdigit():
            port = int(options["port"])
        addresses = [self.name(driver, attributes)]
        if protocol in {"iscsi", "nvmeof"}:
            addresses += _lookup(attributes, "portals").split(",")
        found = (_endpoint(_host_part(address), port) for address in addresses)
        return tuple(sorted({address for address in found if address}))


def _without_prefix(driver: str) -> str:
    """Rook puts its namespace before the names of ceph-csi's drivers: `rook-ceph.rbd.csi.ceph.com`."""
    rest = driver.partition(".")[2]
    return rest if rest in _NO_ADDRESS else driver


def _lookup(attributes: Mapping[str, str], wanted: str) -> str:
    """The value under `wanted`; drivers of the kubernetes-csi family accept their parameters in any case."""
    if wanted in attributes:
        return attributes[wanted].strip()
    folded = wanted.lower()
    return next((value.strip() for key, value in attributes.items() if key.lower() == folded), "")


@lru_cache(maxsize=1024)  # as many backends as a cluster may have; volumes are far more
def _host_part(value: str) -> str:
    """`//host/share`, `host:/export` and URLs name a host and more; anything else is a name already."""
    value = value.strip()
    scheme = _SCHEME.match(value)
    if scheme:
        return value[scheme.end() :].partition("/")[0]
    if value.startswith(("//", "\\\\")):
        return re.split(r"[/\\]", value[2:], maxsplit=1)[0]
    host = value.partition(":/")[0]
    # As the collector names it from a mount: `[fd00::9]` and `fd00::9` are one backend.
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _options(mount_options: Iterable[str]) -> dict[str, str]:
    parts = (part.partition("=") for option in mount_options for part in option.split(","))
    return {key.strip(): value.strip().lower() for key, _, value in parts}


def _endpoint(address: str, default_port: int | None) -> str:
    """`address` with a port, or empty when it is no address or has no port."""
    host, port = _split_port(address)
    port = port or default_port
    if port is None or not 0 < port < 65536:
        return ""
    host = host.strip("[]")
    if _is_ip(host):
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{host}:{port}" if _HOST_NAME.fullmatch(host) else ""


def _split_port(address: str) -> tuple[str, int | None]:
    matched = _HOST_PORT.fullmatch(address)
    return (matched["host"], int(matched["port"])) if matched else (address, None)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
