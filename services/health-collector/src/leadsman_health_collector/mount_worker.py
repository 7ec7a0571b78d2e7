"""Looks at one mount, in a process of its own that may hang for ever. Run as a file: `python -I -S mount_worker.py`.

It imports nothing beyond what is built in, so that it starts in milliseconds. Its name in /proc and the arguments
before the last one mark it for `orphans`. Its answer is one line: `ok <major:minor> <seconds>` or
`error <errno> <call>`.
"""

import os
import sys
import time

COMM = "leadsman-mount"
"""The process name (at most 15 bytes), which can be read in /proc without waiting for anyone."""


def look(path: bytes) -> str:
    """The answer for the mount at `path`: statvfs and then stat, because each can succeed where the other fails."""
    begin = time.monotonic()
    call = "statvfs"
    try:
        os.statvfs(path)
        call = "stat"
        device = os.stat(path).st_dev  # noqa: PTH116 - pathlib takes long to import
    except OSError as error:
        return f"error {error.errno} {call}"
    return f"ok {os.major(device)}:{os.minor(device)} {time.monotonic() - begin:.6f}"


def _take_name() -> None:
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as comm:  # noqa: PTH123 - pathlib takes long to import
            comm.write(COMM)
    except OSError:  # then it is not found as an orphan, no more
        return


if __name__ == "__main__":
    _take_name()
    os.write(1, look(os.fsencode(sys.argv[-1])).encode())
