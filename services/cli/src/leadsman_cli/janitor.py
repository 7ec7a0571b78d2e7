"""Remove everything a `leadsman up` has made, once that process is gone: `janitor.py DIRECTORY STATE_FILE`.

Its standard input is a pipe that `leadsman up` holds open; end of file means that the process has ended, however it
ended. Standard library only, so that it starts at once and needs nothing that may be in use.
"""

import ctypes
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

MARKER = "LEADSMAN_UP_DIRECTORY"
"""Environment variable that every process of one `leadsman up` carries; its value is the temporary directory."""

_MNT_DETACH = 2
_KILL_TIME_S = 5.0


def mounts_below(directory: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> list[Path]:
    """Mount points inside `directory`, deepest first. Reads the kernel's table only: a hung mount is never touched."""
    try:
        lines = mountinfo.read_bytes().splitlines()
    except OSError:  # no /proc: then nothing was mounted either
        return []
    points = [os.fsdecode(_unescape(line.split(b" ")[4])) for line in lines]
    inside = [point for point in points if point.startswith(f"{directory}/")]
    return [Path(point) for point in sorted(inside, key=len, reverse=True)]


def _unescape(field: bytes) -> bytes:
    return re.sub(rb"\\(\d{3})", lambda match: bytes([int(match[1], 8)]), field)


def marked_processes(directory: Path) -> list[int]:
    """Ids of the processes, ours excepted, that carry the marker of `directory`."""
    wanted = f"{MARKER}={directory}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:  # ended meanwhile, or another user's
            continue
        if wanted in environ.split(b"\0"):
            found.append(int(entry.name))
    return found


def kill_marked(directory: Path, within_s: float = _KILL_TIME_S) -> list[int]:
    """Kill every marked process and wait for their end; returns those that are still there after `within_s`."""
    deadline = time.monotonic() + within_s
    while (left := marked_processes(directory)) and time.monotonic() < deadline:
        for pid in left:
            _kill(pid)
        time.sleep(0.02)  # processes of others cannot be waited for
    return left


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def unmount_below(directory: Path) -> list[Path]:
    """Detach every mount inside `directory`, hung ones included; returns those that stay."""
    libc = ctypes.CDLL(None, use_errno=True)
    for point in mounts_below(directory):
        libc.umount2(os.fsencode(point), _MNT_DETACH)
    return mounts_below(directory)


def clean(directory: Path, state_file: Path) -> None:
    """Kill, unmount, delete; say on stderr what could not be removed."""
    if left := kill_marked(directory):
        print(f"leadsman: processes that cannot be killed: {left}", file=sys.stderr)
    if stuck := unmount_below(directory):  # deleting across a mount would delete somebody's data
        print(f"leadsman: cannot unmount {', '.join(map(str, stuck))}; {directory} stays", file=sys.stderr)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    state_file.unlink(missing_ok=True)
    try:
        state_file.parent.rmdir()
    except OSError:  # another `leadsman up` has its state there
        return


def main() -> None:
    """Wait for the end of standard input, then clean."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clean(Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
