"""What an error code from a filesystem says about the storage behind it."""

import errno
import os

from leadsman.domain.reasons import Reason
from leadsman_health_collector.observation import Observation, Outcome, not_run

_REASONS = {
    errno.ESTALE: Reason.STALE_FILE_HANDLE,
    errno.ENOTCONN: Reason.MOUNT_DISCONNECTED,
    errno.ECONNABORTED: Reason.MOUNT_DISCONNECTED,
    errno.ESHUTDOWN: Reason.MOUNT_DISCONNECTED,
    errno.EHOSTDOWN: Reason.MOUNT_DISCONNECTED,
    errno.EROFS: Reason.READ_ONLY_FILESYSTEM,
}
"""All others are IO errors; among them ETIMEDOUT, with which a soft mount gives up."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.ENOKEY, errno.EKEYEXPIRED, errno.EKEYREVOKED})

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})

_OWN_FAULT = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR})
"""The path or this machine is the trouble, not the storage."""

CEPH_FSTYPES = frozenset({"ceph", "fuse.ceph", "fuse.ceph-fuse"})
"""Here ESHUTDOWN is what the kernel calls EBLOCKLISTED (include/linux/ceph/rados.h)."""

LOCAL_FSTYPES = frozenset(
    {
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "jfs", "reiserfs", "zfs", "nilfs2", "ntfs3"),
        *("vfat", "msdos", "exfat", "udf", "iso9660", "squashfs", "erofs", "tmpfs", "ramfs", "overlay"),
    }
)
"""Filesystems that ask no server for permission. One that is not listed is taken for a network filesystem."""


def failed(number: str, call: str, *, fstype: str = "", answered: bool = False) -> Observation:
    """What to make of errno `number` (decimal digits) from `call` on a filesystem of `fstype` (empty: unknown).

    `answered`: whether it has done for us before what it fails at now. A denial means nothing otherwise.
    """
    if not number.isdecimal() or len(number) > 4:
        return not_run(f"the worker answered what is no error code: {number[:20]!r}")
    code = int(number)
    words = f"{call}: {os.strerror(code)}"
    if code in _GONE:  # the path has gone, which is no word on the filesystem
        return not_run(f"there is nothing to look at now ({words})")
    if code in _OWN_FAULT:
        return not_run(f"the look itself failed ({words})")
    if code in _FULL:
        return Observation(Outcome.IMPAIRED, Reason.CAPACITY_LOW, words)
    if code in _DENIED and not _is_revocation(fstype, answered=answered):
        return not_run(f"the collector may not look there and never could ({words})")
    return Observation(Outcome.ERROR, _reason(code, fstype), words)


def _is_revocation(fstype: str, *, answered: bool) -> bool:
    return fstype in CEPH_FSTYPES or (fstype not in LOCAL_FSTYPES and answered)


def _reason(code: int, fstype: str) -> Reason:
    if code in _DENIED or (code == errno.ESHUTDOWN and fstype in CEPH_FSTYPES):
        return Reason.ACCESS_REVOKED
    return _REASONS.get(code, Reason.MOUNT_IO_ERROR)
