"""What a probe remembers of each mounted superblock, and for how long."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from leadsman_health_collector.volumes import VolumeMount

Note = TypeVar("Note")


@dataclass(slots=True)
class _Entry(Generic[Note]):
    mount: VolumeMount
    note: Note


class SuperblockMemory(Generic[Note]):
    """One note per superblock, made by `new` and kept as long as it is mounted.

    The kernel gives the number of an unmounted filesystem to the next one, perhaps between two looks; a superblock
    that has no mount point in common with the one of before is another one and gets a new note.
    """

    def __init__(self, new: Callable[[], Note]) -> None:
        self._new = new
        self._entries: dict[str, _Entry[Note]] = {}

    def keep(self, mounts: Mapping[str, VolumeMount]) -> None:
        """These superblocks are mounted; forget the others."""
        self._entries = {device: entry for device, entry in self._entries.items() if device in mounts}

    def of(self, mount: VolumeMount) -> Note:
        """The note of `mount`, to be read and changed."""
        entry = self._entries.get(mount.device)
        if entry is None or (entry.mount is not mount and _points(entry.mount).isdisjoint(_points(mount))):
            entry = self._entries[mount.device] = _Entry(mount, self._new())
        entry.mount = mount
        return entry.note


def _points(mount: VolumeMount) -> set[str]:
    return {place.mount_point for place in mount.mounts} or {mount.path}
