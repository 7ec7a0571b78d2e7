"""Mount workers that an earlier run of the collector left behind because nothing could end them."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leadsman_health_collector.mount_worker import COMM

MARKER = "leadsman-mount-worker"
"""Argument by which a worker is known; node, boot id, device and path follow it."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A worker still out: its process and the superblock (`major:minor`) it looks at."""

    pid: int
    device: str


def worker_arguments(node: str, boot_id: str, device: str, path: str) -> list[str]:
    """What a worker is given on its command line."""
    return [MARKER, node, boot_id, device, path]


def find_orphans(node: str, boot_id: str, proc: Path = Path("/proc")) -> list[Orphan]:
    """Workers of `node`'s collector that were started on this boot and are not our children."""
    head = [os.fsencode(part) for part in (MARKER, node, boot_id)]
    return [orphan for orphan in _workers(head, proc) if not _is_child(orphan.pid, proc)]


def still_out(orphan: Orphan, node: str, boot_id: str, proc: Path = Path("/proc")) -> bool:
    """Whether `orphan` is still the same worker and not ended."""
    head = [os.fsencode(part) for part in (MARKER, node, boot_id, orphan.device)]
    return _matches(_command_line(orphan.pid, proc), head)


def end_orphan(orphan: Orphan, node: str, boot_id: str) -> None:
    """Send SIGKILL to `orphan`, once; it may be deaf to it, and another process never gets it."""
    try:
        handle = os.pidfd_open(orphan.pid)
    except OSError:
        return
    try:
        if still_out(orphan, node, boot_id):  # the handle now holds on to the process that was checked
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _workers(head: list[bytes], proc: Path) -> Iterator[Orphan]:
    for entry in proc.iterdir():
        # Reading the command line of a process that is stuck in a page fault can block, as `ps` does on a node with
        # a dead NFS mount; the name never does, and ours are not stuck in that way.
        if not entry.name.isdigit() or _name(entry) != COMM:
            continue
        line = _command_line(int(entry.name), proc)
        if _matches(line, head):
            yield Orphan(int(entry.name), os.fsdecode(line[line.index(head[0]) + len(head)]))


def _matches(line: list[bytes], head: list[bytes]) -> bool:
    if head[0] not in line:
        return False
    start = line.index(head[0])
    return line[start : start + len(head)] == head and len(line) > start + len(head)


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _command_line(pid: int, proc: Path) -> list[bytes]:
    try:
        return (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _is_child(pid: int, proc: Path) -> bool:
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return False
    return int(stat.rpartition(b")")[2].split()[1]) == os.getpid()
