"""Reading small files of /proc and /sys, whose text the kernel makes at the moment of reading."""

import math
import os

MAX_BYTES = 1 << 20
"""Of a longer file only this much is read."""

_ATTRIBUTE_BYTES = 4096
"""A sysfs attribute is at most one page (Documentation/filesystems/sysfs.rst)."""


def read_kernel_file(path: str) -> str:
    """The text of `path`, blanks at both ends removed; what is not ASCII is replaced.

    Raises:
        OSError: it cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = [os.read(handle, MAX_BYTES)]
        size = len(chunks[0])
        while chunks[-1] and size < MAX_BYTES:  # a short read is not the end: the kernel hands out pages
            chunks.append(os.read(handle, MAX_BYTES - size))
            size += len(chunks[-1])
    finally:
        os.close(handle)
    return _text(b"".join(chunks))


def read_attribute(path: str) -> str:
    """The text of the sysfs attribute `path`, as `read_kernel_file` but in one read; hundreds are read every round.

    Raises:
        OSError: it cannot be read (ENOENT and ENODEV: the object it belongs to has gone).
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _text(os.read(handle, _ATTRIBUTE_BYTES))
    finally:
        os.close(handle)


def number(word: str) -> float:
    """The number that `word` spells.

    Raises:
        ValueError: it spells none, or one that is not finite.
    """
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"{word[:32]!r} is not a finite number")
    return value


def _text(content: bytes) -> str:
    return content.decode("ascii", "replace").strip()
