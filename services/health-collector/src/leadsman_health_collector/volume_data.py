"""What the kubelet and the driver tell about a volume: the file beside its mount, and the handle in it. Read only.

Source: kubelet, pkg/volume/csi: `vol_data.json` lies in the directory that holds `mount` or `globalmount`.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

DRIVER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
"""CSI specification, GetPluginInfoResponse.name: domain name notation, at most 63 characters."""

VOLUME_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
"""Names of PersistentVolumes: DNS subdomains."""

_MAX_BYTES = 64 * 1024
_MAX_HANDLE = 1024
"""The CSI specification allows 128 bytes; some drivers take more."""

_EPHEMERAL = "Ephemeral"
_CEPH_DRIVERS = re.compile(r"(?:.+\.)?(?:rbd|cephfs|nfs)\.csi\.ceph\.com")
_CEPH_HANDLE = re.compile(r"0001-(?P<length>[0-9a-f]{4})-(?P<rest>.+)")
_CEPH_HANDLE_END = re.compile(r"-[0-9a-f]{16}-[0-9A-Za-z-]{36}")
_NFS_DRIVER = "nfs.csi.k8s.io"
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))")


@dataclass(frozen=True, slots=True)
class VolumeData:
    """Driver, handle and PersistentVolume of one mount; `volume` is empty for an inline volume of a pod."""

    driver: str
    handle: str = ""
    volume: str = ""


class _File(msgspec.Struct):
    driver: str = msgspec.field(name="driverName", default="")
    handle: str = msgspec.field(name="volumeHandle", default="")
    volume: str = msgspec.field(name="specVolID", default="")
    lifecycle: str = msgspec.field(name="volumeLifecycleMode", default="")


_decoder = msgspec.json.Decoder(_File)


def read_volume_data(path: Path) -> VolumeData | None:
    """What the `vol_data.json` at `path` says; None without a usable one. `path` must not lie on a volume itself."""
    try:
        file = _decoder.decode(_read(path))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not DRIVER_NAME.fullmatch(file.driver):
        return None
    handle = file.handle if len(file.handle) <= _MAX_HANDLE and file.handle.isprintable() else ""
    persistent = file.lifecycle != _EPHEMERAL and VOLUME_NAME.fullmatch(file.volume)
    return VolumeData(file.driver, handle, file.volume if persistent else "")


def is_ceph(driver: str) -> bool:
    """Whether `driver` is one of ceph-csi's; Rook puts its namespace before their names."""
    return _CEPH_DRIVERS.fullmatch(driver) is not None


def backend_in_handle(driver: str, handle: str) -> str:
    """The backend that `driver` writes into its volume handles; empty if it writes none or this one is not its own.

    ceph-csi (internal/util/volid.go): `0001-<length of cluster ID, hex>-<cluster ID>-<pool, hex>-<UUID>`.
    csi-driver-nfs (pkg/nfs/controllerserver.go): `server#share#subdirectory#...`. Handles of volumes that people
    write by hand may be anything.
    """
    if is_ceph(driver):
        return _ceph_cluster(handle)
    if driver == _NFS_DRIVER and "#" in handle:
        match = _HOST.fullmatch(handle.partition("#")[0])
        return (match["ipv6"] or match["host"]) if match else ""
    return ""


def _ceph_cluster(handle: str) -> str:
    match = _CEPH_HANDLE.fullmatch(handle)
    if match is None:
        return ""
    length, rest = int(match["length"], 16), match["rest"]
    return rest[:length] if _CEPH_HANDLE_END.fullmatch(rest[length:]) else ""


def _read(path: Path) -> bytes:
    """The file's content; neither a pipe nor a link into a volume can make this wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor has no path)
        return file.read(_MAX_BYTES)
