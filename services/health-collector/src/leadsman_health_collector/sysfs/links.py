"""Following the links of sysfs.

A link in sysfs is relative and leads to a device's own directory in one step, so it is enough to read it. Plain strings
and no `Path.resolve`, which asks for every directory on the way and made a walk five times as long.
"""

import errno
import os

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EINVAL})
"""EINVAL: there is something, but no link."""


def follow(link: str) -> str | None:
    """Where `link` leads; None if there is no such link. Its directory must be free of links itself.

    Raises:
        OSError: it cannot be told whether there is one; that must not pass for a device that has gone.
    """
    try:
        target = os.readlink(link)  # noqa: PTH115
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise
    return os.path.normpath(os.path.join(os.path.dirname(link), target))  # noqa: PTH118, PTH120


def exists(path: str) -> bool:
    """Whether there is such a file or directory."""
    return os.path.exists(path)  # noqa: PTH110


def names_in(directory: str) -> list[str]:
    """Names in `directory`, sorted; none if there is no such directory.

    Raises:
        OSError: it cannot be listed.
    """
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def last_name(path: str) -> str:
    """The last part of `path`."""
    return path.rpartition("/")[2]
