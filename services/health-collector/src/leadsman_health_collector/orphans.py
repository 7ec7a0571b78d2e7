"""Workers that an earlier run of the collector left behind because nothing could end them."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leadsman_health_collector.mount_worker import AT_WORK

MARKER = "leadsman-worker"
"""Argument by which a worker is known; node, boot id and the collector's process id follow it."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A worker still out: its process and the place it is at (a superblock `major:minor`, or a short name)."""

    pid: int
    place: str


def worker_arguments(node: str, boot_id: str) -> list[str]:
    """What a worker of this process is given on its command line."""
    return [MARKER, node, boot_id, str(os.getpid())]


def find_orphans(node: str, boot_id: str, proc: Path = Path("/proc")) -> list[Orphan]:
    """Workers of `node`'s collectors on this boot that are at a place and whose collector has gone.

    Another collector that lives (a sidecar beside the agent, say) keeps its workers.
    """
    return [orphan for orphan in _at_work(proc) if still_out(orphan, node, boot_id, proc)]


def still_out(orphan: Orphan, node: str, boot_id: str, proc: Path = Path("/proc")) -> bool:
    """Whether `orphan` is still the same worker at the same place."""
    process = proc / str(orphan.pid)
    if _name(process) != AT_WORK + orphan.place:
        return False
    # Reading the command line of a process that is stuck in a page fault can block, as `ps` does on a node with a
    # dead NFS mount; the name never does, and ours are not stuck in that way.
    parent = _parent_by_arguments(_arguments(process), node, boot_id)
    return parent is not None and parent != _parent(process)


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


def _at_work(proc: Path) -> Iterator[Orphan]:
    for entry in proc.iterdir():
        name = _name(entry) if entry.name.isdigit() else ""
        if name.startswith(AT_WORK):
            yield Orphan(int(entry.name), name.removeprefix(AT_WORK))


def _parent_by_arguments(line: list[str], node: str, boot_id: str) -> int | None:
    """The collector that started the worker with this command line; None if that is no worker of ours."""
    if MARKER not in line:
        return None
    match line[line.index(MARKER) + 1 :]:
        case [of_node, of_boot, parent, *_] if (of_node, of_boot) == (node, boot_id) and parent.isdecimal():
            return int(parent)
        case _:
            return None


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    except OSError:
        return ""


def _arguments(process: Path) -> list[str]:
    try:
        return os.fsdecode((process / "cmdline").read_bytes()).split("\0")
    except OSError:
        return []


def _parent(process: Path) -> int | None:
    try:
        stat = (process / "stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None
