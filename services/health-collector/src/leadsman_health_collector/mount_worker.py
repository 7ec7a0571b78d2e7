"""Touches storage in a process of its own, which may hang for ever. Run as a file: `python -I -S mount_worker.py`.

It imports nothing beyond what is built in, so that it starts in milliseconds and stays small. A job is one message on
stdin (a socket): a place, and what `look_job` or `canary_job` give, with paths in hexadecimal since they may hold any
byte. While at it, the process is called after the place, which anyone can read in /proc without waiting. The
answer is one message back:

    ok <major:minor> <seconds> <f_frsize> <f_blocks> <f_bavail> <f_files> <f_favail>    of look
    ok <seconds>                                                                        of canary
    differs                                         what was read back is not what was written
    error <errno> <call>                            of either

It ends when there is nobody left to answer to.
"""

import os
import stat
import time

TYPE_CHECKING = False  # `typing` takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

AT_WORK = "lm "
"""What the process is called at work (at most 15 bytes), followed by the place."""

IDLE = "leadsman-idle"

CANARY_BYTES = 4096

LEFT_BEHIND_S = 600
"""A canary file this much older than a new one, by the clock of its filesystem, is nobody's any more."""

_MAX_JOB_BYTES = 64 * 1024
_MAX_ENTRIES = 1000
_HEXADECIMAL = frozenset("0123456789abcdef")


def look_job(path: str) -> str:
    """The job to look at the mount at `path`."""
    return f"look {os.fsencode(path).hex()}"


def canary_job(directory: str, prefix: str, suffix: str) -> str:
    """The job to write and read a small file in `directory`; see `canary`."""
    return f"canary {os.fsencode(directory).hex()} {prefix.encode('ascii').hex()} {suffix.encode('ascii').hex()}"


def look(path: bytes) -> str:
    """The answer for the mount at `path`: statvfs and then stat, because each can succeed where the other fails."""
    begin = time.monotonic()
    call = "statvfs"
    try:
        room = os.statvfs(path)
        call = "stat"
        device = os.stat(path).st_dev  # noqa: PTH116 - pathlib takes long to import
    except OSError as error:
        return f"error {error.errno} {call}"
    took = time.monotonic() - begin
    space = f"{room.f_frsize} {room.f_blocks} {room.f_bavail} {room.f_files} {room.f_favail}"
    return f"ok {os.major(device)}:{os.minor(device)} {took:.6f} {space}"


def canary(directory: bytes, prefix: bytes, suffix: bytes) -> str:
    """The answer for a small file in `directory`: made, written, synced, read back and removed.

    Its name is `prefix` and `suffix` (hexadecimal digits). Old files of the same prefix and length are removed; no
    other file is ever touched and no symbolic link followed.
    """
    begin = time.monotonic()
    doing = ["opendir"]
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            same = _write_and_read(folder, prefix.decode("ascii"), suffix.decode("ascii"), doing)
        finally:
            os.close(folder)
    except OSError as error:
        return f"error {error.errno} {doing[-1]}"
    return f"ok {time.monotonic() - begin:.6f}" if same else "differs"


def _write_and_read(folder: int, prefix: str, suffix: str, doing: list[str]) -> bool:
    """Whether the file came back as written; `doing` gets the call that is being made."""
    name = prefix + suffix
    doing.append("create")
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        try:
            _sweep(folder, prefix, len(suffix), os.fstat(file).st_mtime - LEFT_BEHIND_S)
            same = _round_trip(file, doing)
        finally:
            os.close(file)  # NFS may tell only now
    except OSError:
        _remove_if_possible(folder, name)
        raise
    doing.append("unlink")
    os.unlink(name, dir_fd=folder)
    return same


def _round_trip(file: int, doing: list[str]) -> bool:
    written = os.urandom(CANARY_BYTES)
    doing.append("write")
    rest = memoryview(written)
    while rest:
        rest = rest[os.write(file, rest) :]
    doing.append("fsync")
    os.fsync(file)
    doing.append("read")
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  # else it is read from memory
    same = os.pread(file, CANARY_BYTES, 0) == written
    doing.append("close")
    return same


def _remove_if_possible(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:  # what failed before says more
        return


def _sweep(folder: int, prefix: str, digits: int, older_than: float) -> None:
    """Remove what a run that was killed has left behind; what fails here will be met again by the next one."""
    try:
        with os.scandir(folder) as entries:
            some = zip(range(_MAX_ENTRIES), entries, strict=False)
            ours = [entry.name for _, entry in some if _is_canary(entry.name, prefix, digits)]
        for name in ours:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode) and found.st_mtime < older_than:
                os.unlink(name, dir_fd=folder)
    except OSError:
        return


def _is_canary(name: str, prefix: str, digits: int) -> bool:
    end = name[len(prefix) :]
    return name.startswith(prefix) and len(end) == digits and _HEXADECIMAL.issuperset(end)


_JOBS: "dict[str, Callable[..., str]]" = {"look": look, "canary": canary}


def serve() -> None:
    """Do jobs until the other side of stdin has gone.

    Raises:
        OSError: it went in the middle of a job.
    """
    comm = _own_name()
    while job := os.read(0, _MAX_JOB_BYTES):
        place, verb, *arguments = job.decode("ascii").split(" ")
        _take_name(comm, AT_WORK + place)
        answer = _JOBS[verb](*(bytes.fromhex(one) for one in arguments))
        _take_name(comm, IDLE)
        os.write(0, answer.encode("ascii"))


def _own_name() -> int | None:
    try:
        return os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # then it is not found as an orphan, no more
        return None


def _take_name(comm: int | None, name: str) -> None:
    if comm is not None:
        os.write(comm, name.encode("ascii"))  # replaces the whole, wherever the offset is


def main() -> None:
    """Do jobs as long as anyone wants them."""
    try:
        serve()
    except OSError:
        return


if __name__ == "__main__":
    main()
