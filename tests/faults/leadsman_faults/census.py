"""How many processes, threads and descriptors a collector holds, and which of its workers are still out."""

import contextlib
import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


_IDLE = "leadsman-idle"
_AT_WORK = "lm "
"""What the collector's workers are called in /proc; the second is followed by the place where they are."""

_DESCRIPTORS_PER_WORKER = 2
SPARE_WORKERS = 4
"""So many may wait for work: they end a minute later, or stay for ever if it is one."""


@dataclass(frozen=True, slots=True)
class Census:
    """A collector at one moment: `processes` are itself and its children, `idle` the workers among them without work.

    `main_mb` and `workers_mb` are the resident memory of itself and of all its children, in MB.
    """

    processes: int
    threads: int
    descriptors: int
    idle: int
    main_mb: float
    workers_mb: float

    @property
    def words(self) -> str:
        """For people."""
        idle = f" ({self.idle} idle)" if self.idle else ""
        counts = f"{self.processes} processes{idle}, {self.threads} threads, {self.descriptors} descriptors"
        return f"{counts}, {self.main_mb:.1f} + {self.workers_mb:.1f} MB"

    def exceeds(self, before: "Census", spare_descriptors: int) -> bool:
        """Whether there is more of anything than `before`, workers that wait for work left aside.

        So many descriptors more are allowed: connections that are kept for another request.
        """
        processes, threads, descriptors = self._core
        were, had_threads, had_descriptors = before._core
        more = processes > were or threads > had_threads or descriptors > had_descriptors + spare_descriptors
        return more or self.idle > SPARE_WORKERS

    @property
    def _core(self) -> tuple[int, int, int]:
        return self.processes - self.idle, self.threads, self.descriptors - _DESCRIPTORS_PER_WORKER * self.idle


NOTHING = Census(0, 0, 0, 0, 0.0, 0.0)
"""Of a process that has ended."""


def take(pid: int) -> Census:
    """Count what process `pid` holds now."""
    try:
        children = _descendants(pid)
        idle = sum(_name(child) == _IDLE for child in children)
        threads, descriptors = len(_listed(f"/proc/{pid}/task")), len(_listed(f"/proc/{pid}/fd"))
    except OSError:
        return NOTHING
    return Census(1 + len(children), threads, descriptors, idle, _resident_mb(pid), sum(map(_resident_mb, children)))


def calmest(pid: int, seconds: float) -> Census:
    """What process `pid` holds when it holds least within `seconds`: between two looks."""
    samples: list[Census] = []
    deadline = time.monotonic() + seconds
    while not samples or time.monotonic() < deadline:
        samples.append(take(pid))
        time.sleep(0.05)  # the distance of samples, not a wait for something
    return min(samples, key=lambda one: (one.processes - one.idle, one.threads, one.descriptors))


def workers_at(places: Collection[str]) -> list[str]:
    """Workers, also of a collector that has ended, that are at one of `places` (`major:minor`) now: pid and name."""
    wanted = {f"{_AT_WORK}{place}" for place in places}
    everyone = [int(name) for name in _listed("/proc") if name.isdigit()]
    return [f"{pid}: {name}" for pid, name in zip(everyone, map(_name, everyone), strict=True) if name in wanted]


def resident_mb(pid: int) -> tuple[float, float]:
    """Resident memory in MB of `pid` and of all its children."""
    return _resident_mb(pid), sum(map(_resident_mb, _descendants(pid)))


def _descendants(pid: int) -> list[int]:
    """Children, their children and so on. Of /proc, because asking every process on the machine costs too much."""
    found: list[int] = []
    for thread in _listed(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # the thread has just ended
            for child in map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split()):
                found.append(child)
                with contextlib.suppress(OSError):
                    found += _descendants(child)
    return found


def _listed(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:  # it has just ended
        return ""


def _resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_MB
    except (OSError, IndexError):  # it has just ended
        return 0.0
