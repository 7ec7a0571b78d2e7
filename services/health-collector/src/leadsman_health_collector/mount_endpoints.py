"""The servers that mounts of network filesystems use, from their source and options. Pure.

Sources: nfs(5), mount.ceph(8) and the kernel's fs/ceph/super.c, mount.cifs(8). What is not understood gives nothing: a
wrong address would condemn a healthy backend.
"""

import re
from collections.abc import Iterable, Iterator

from leadsman_health_collector.endpoints import CEPH, NFS, SMB, Endpoint, parse_endpoint
from leadsman_health_collector.filesystems import CEPH_FSTYPE, NFS_FSTYPES, SMB_FSTYPES, backend_of
from leadsman_health_collector.mountinfo import Mount
from leadsman_health_collector.volumes import VolumeMount

MAX_MONITORS = 16
"""More monitors than any Ceph cluster has."""

_NFS_PORT = "2049"
_SMB_PORT = "445"
_MONITOR_PORT = "6789"
_TCP = frozenset({"tcp", "tcp6"})
_NUMBER = re.compile(r"[0-9]{1,5}")
_WITH_PORT = re.compile(r"(?:\[[^\]]*\]|[^:]*):[0-9]{1,5}")


def endpoints_of_mounts(volumes: Iterable[VolumeMount]) -> tuple[Endpoint, ...]:
    """The addresses of all `volumes`, sorted.

    None for a mount whose backend is not known: its key stands for the driver, and one server must not be taken for
    all that the driver serves.
    """
    return tuple(sorted({one for volume in volumes if volume.key.backend for one in _endpoints(volume)}))


def _endpoints(volume: VolumeMount) -> Iterator[Endpoint]:
    if not volume.mounts:
        return
    mount = volume.mounts[0]
    for address, protocol in _addresses(mount):
        endpoint = parse_endpoint(volume.key, address, protocol)
        if endpoint is not None:
            yield Endpoint(endpoint.key, endpoint.host, endpoint.port, endpoint.protocol, from_mount=True)


def _addresses(mount: Mount) -> Iterator[tuple[str, str]]:
    """Address and protocol of each server of `mount`."""
    if mount.fstype in NFS_FSTYPES:
        if (mount.super_option("proto") or "tcp") in _TCP:
            yield _server(mount, _NFS_PORT), NFS
    elif mount.fstype in SMB_FSTYPES:
        if "rdma" not in mount.super_options:
            yield _server(mount, _SMB_PORT), SMB
    elif mount.fstype == CEPH_FSTYPE:
        for monitor in _monitors(mount)[:MAX_MONITORS]:
            yield monitor, CEPH


def _server(mount: Mount, default_port: str) -> str:
    """The address in use, which is surer than the name that it was made with; empty if there is neither."""
    host = mount.super_option("addr") or backend_of(mount)
    port = mount.super_option("port") or default_port
    if port == "0":  # as older kernels show NFSv4's usual port
        port = default_port
    if not host or not _NUMBER.fullmatch(port):
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _monitors(mount: Mount) -> list[str]:
    """`mon_addr=a:3300/b:3300` of the new syntax, or the source `a:6789,b:6789:/path` of the old one."""
    told = mount.super_option("mon_addr")
    if told is not None:
        addresses = told.split("/")
    elif "@" in mount.source.partition(":/")[0] or ":/" not in mount.source:
        return []
    else:
        addresses = mount.source.partition(":/")[0].split(",")
    return [address if _WITH_PORT.fullmatch(address) else f"{address}:{_MONITOR_PORT}" for address in addresses]
