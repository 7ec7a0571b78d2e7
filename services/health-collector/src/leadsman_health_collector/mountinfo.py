"""The kernel's list of mounts, without touching any of them (proc_pid_mountinfo(5))."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ESCAPE = re.compile(rb"\\([0-7]{3})")
_SEPARATOR = b" - "


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo.

    `device` is `major:minor`, the superblock. Paths may hold any byte: what is not UTF-8 is kept as surrogates, so
    that `os.fsencode` gives the original back; show them with `printable`.
    """

    mount_id: int
    parent_id: int
    device: str
    root: str
    mount_point: str
    fstype: str
    source: str


def read_mounts(path: Path) -> list[Mount]:
    """All mounts in the file `path`, such as `/proc/self/mountinfo`; reading it never waits for a filesystem.

    Raises:
        OSError: the file cannot be read.
    """
    return parse_mounts(path.read_bytes())


def parse_mounts(text: bytes) -> list[Mount]:
    """The mounts in `text`, in order; lines that are not mountinfo are left out."""
    return [mount for mount in map(_parse_line, text.splitlines()) if mount is not None]


def visible_below(mounts: Iterable[Mount], directory: str) -> list[Mount]:
    """Mounts strictly below `directory`; of several on one mount point only the last, which hides the others."""
    prefix = directory.rstrip("/") + "/"
    by_point = {mount.mount_point: mount for mount in mounts if mount.mount_point.startswith(prefix)}
    return list(by_point.values())


def printable(path: str) -> str:
    """`path` as valid text for logs and messages."""
    return os.fsencode(path).decode("utf-8", "replace")


def _parse_line(line: bytes) -> Mount | None:
    head, separator, tail = line.partition(_SEPARATOR)
    fields, rest = head.split(b" "), tail.split(b" ")
    if not separator or len(fields) < 6 or len(rest) < 2 or not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    return Mount(
        mount_id=int(fields[0]),
        parent_id=int(fields[1]),
        device=_text(fields[2]),
        root=_text(fields[3]),
        mount_point=_text(fields[4]),
        fstype=_text(rest[0]),
        source=_text(rest[1]),
    )


def _text(field: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field))
