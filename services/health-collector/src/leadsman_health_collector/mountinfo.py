"""The kernel's list of mounts, without touching any of them (proc_pid_mountinfo(5))."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ESCAPE = re.compile(rb"\\([0-7]{3})")
_SEPARATOR = b" - "
_NUMBER = re.compile(rb"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo.

    `device` is `major:minor`, the superblock. `options` are those of the mount point, `super_options` those of the
    superblock; a mount that is meant to be read-only has `ro` in the former. Paths may hold any byte: what is not UTF-8
    is kept as surrogates, so that `os.fsencode` gives the original back; show them with `printable`.
    """

    mount_id: int
    parent_id: int
    device: str
    root: str
    mount_point: str
    fstype: str
    source: str
    options: tuple[str, ...] = ()
    super_options: tuple[str, ...] = ()

    def super_option(self, name: str) -> str | None:
        """The value of the superblock's option `name=value`, None without one."""
        start = f"{name}="
        return next((option[len(start) :] for option in self.super_options if option.startswith(start)), None)


def read_mounts(path: Path) -> list[Mount]:
    """All mounts in the file `path`, such as `/proc/self/mountinfo`; reading it never waits for a filesystem.

    Raises:
        OSError: the file cannot be read.
    """
    return parse_mounts(path.read_bytes())


def parse_mounts(text: bytes) -> list[Mount]:
    """The mounts in `text`, in order; lines that are not mountinfo are left out."""
    # Not `splitlines`: a carriage return in a path is not escaped.
    return [mount for mount in map(_parse_line, text.split(b"\n")) if mount is not None]


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
    fields, rest = head.split(b" "), tail.split(b" ", 2)  # the superblock's options may hold blanks
    if not separator or len(fields) < 6 or len(rest) < 2 or not all(map(_NUMBER.fullmatch, fields[:2])):
        return None
    return Mount(
        mount_id=int(fields[0]),
        parent_id=int(fields[1]),
        device=_text(fields[2]),
        root=_text(fields[3]),
        mount_point=_text(fields[4]),
        fstype=_text(rest[0]),
        source=_text(rest[1]),
        options=_options(fields[5]),
        super_options=_options(rest[2]) if len(rest) > 2 else (),
    )


def _options(field: bytes) -> tuple[str, ...]:
    """Split before unescaping: a comma within a value is escaped, and would make one option two."""
    return tuple(map(_text, field.split(b",")))


def _text(field: bytes) -> str:
    if b"\\" not in field:
        return os.fsdecode(field)
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field))
