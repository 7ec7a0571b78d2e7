"""Which filesystems are storage, which are network storage, and who serves them. Pure."""

import re

from leadsman_health_collector.mountinfo import Mount

NFS_FSTYPES = frozenset({"nfs", "nfs4"})
CEPH_FSTYPE = "ceph"
SMB_FSTYPES = frozenset({"cifs", "smb3"})

MEMORY_FSTYPES = frozenset({"tmpfs", "devtmpfs", "ramfs", "overlay"})
"""Filesystems that some drivers mount and that cannot lose their storage. `devtmpfs` is also what the kubelet shows for
a volume in block mode: a device node, on which there is no filesystem to look at."""

_NETWORK = NFS_FSTYPES | SMB_FSTYPES | {CEPH_FSTYPE, "9p", "afs", "beegfs", "gfs2", "gpfs", "lustre", "ocfs2"}
_POOLED = frozenset({"zfs", "bcachefs", "virtiofs"})
"""Local storage whose source is not a device's path."""

_IMAGES = frozenset({"squashfs", "erofs", "iso9660", "udf", "cramfs"})
"""Read-only images that are mounted from a device."""

_PSEUDO_FUSE = frozenset(
    {"gvfsd-fuse", "portal", "lxcfs", "snapfuse", "squashfuse", "fuse-overlayfs", "archivemount", "vmware-vmblock"}
)
_HOST_AND_PATH = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\]|(?P<host>[A-Za-z0-9._-]+)):/.*")
_SHARE = re.compile(r"//\[?(?P<host>[A-Za-z0-9._:-]+)\]?/.*")
_CEPH_CLUSTER = re.compile(r"[^@]+@(?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.[^=]*=.*")
_CEPH_MONITOR = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?(?:,[^/]*)?:/.*")


def is_storage(mount: Mount) -> bool:
    """Whether `mount` holds data on a device or a server, not in memory, an image or the kernel's imagination."""
    kind, _, subtype = mount.fstype.partition(".")
    if kind in {"fuse", "fuseblk"}:
        return (subtype or mount.source) not in _PSEUDO_FUSE and not _is_private(mount)
    if mount.fstype in _IMAGES | MEMORY_FSTYPES:
        return False
    return mount.fstype in _NETWORK | _POOLED or mount.source.startswith("/dev/")


def backend_of(mount: Mount) -> str:
    """The backend that the mount itself tells, empty if it tells none.

    That is the host of an NFS-like source `host:/path` (IPv6 without brackets) or of a share `//host/share`, and the
    cluster's id of a CephFS source `user@id.name=/path`, or the first monitor where the source has no id.
    """
    if mount.fstype == CEPH_FSTYPE:
        cluster = _CEPH_CLUSTER.fullmatch(mount.source)
        return cluster["id"] if cluster else _host(_CEPH_MONITOR.fullmatch(mount.source))
    if mount.fstype in SMB_FSTYPES:
        share = _SHARE.fullmatch(mount.source)
        return share["host"] if share else ""
    return _host(_HOST_AND_PATH.fullmatch(mount.source))


def _host(match: re.Match[str] | None) -> str:
    return (match["ipv6"] or match["host"]) if match else ""


def _is_private(mount: Mount) -> bool:
    """Whether a FUSE mount lets only the user in who made it (mount.fuse(8), `allow_other`); not even root gets in."""
    return mount.super_option("user_id") not in {None, "0"} and "allow_other" not in mount.super_options
