"""How full filesystems are, by the numbers that statvfs gave. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from leadsman.domain.report import StorageKey
from leadsman_health_collector.volumes import VolumeMount

_NEGATIVE = 1 << 63
"""What is free can be less than nothing where root has used its reserve; some servers send that as a huge number."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Space (bytes) and inodes of one filesystem, those available being without root's reserve (statvfs(3)).

    A total of 0 means that the filesystem does not tell, as btrfs for inodes.
    """

    total_bytes: int
    available_bytes: int
    inodes: int
    inodes_available: int

    @property
    def used(self) -> float | None:
        """Share of the space (0-1) that others than root can no longer use; None if unknown.

        By what is available, not by what is free: root's reserve hides a full filesystem (facts: storage-health 2,
        row 26). It is also what the kubelet's eviction and its volume metrics go by.
        """
        return _used(self.total_bytes, self.available_bytes)

    @property
    def inodes_used(self) -> float | None:
        """The same of inodes."""
        return _used(self.inodes, self.inodes_available)


def is_writable(mount: VolumeMount) -> bool:
    """Whether anyone can write to it: a volume that is mounted read-only, or a squashfs, is meant to be full."""
    if not mount.mounts:
        return True
    return any("ro" not in one.options and "ro" not in one.super_options for one in mount.mounts)


def shares(
    capacities: Mapping[str, Capacity], mounts: Mapping[str, VolumeMount]
) -> dict[StorageKey, tuple[float | None, float | None]]:
    """The shares (0-1) of space and of inodes in use on the fullest filesystem of each key; None if unknown.

    Both mappings are by superblock; those that nobody can write to are left out.
    """
    by_key: dict[StorageKey, list[Capacity]] = {}
    for device, capacity in capacities.items():
        mount = mounts.get(device)
        if mount is not None and is_writable(mount):
            by_key.setdefault(mount.key, []).append(capacity)
    return {
        key: (_highest(one.used for one in known), _highest(one.inodes_used for one in known))
        for key, known in by_key.items()
    }


def _used(total: int, available: int) -> float | None:
    if available >= _NEGATIVE:
        available = 0
    if total <= 0 or available > total:
        return None
    return (total - available) / total


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
