"""Can a small file be written, synced, read back and removed? Only where the configuration says so.

Source: a file of 4 KiB in a directory that belongs to the collector, made and removed by a killable worker
(facts: storage-health 3.1 P10). No other file is touched, no symbolic link followed; what a killed run has left behind
goes after ten minutes.
Period: 6 x the collector's. Deadline: 10/3 x that of the collector.
Thresholds: down after 2 failures of any kind in a row, up after 2 good looks; slow from 2 s on average.
Evidence: data path.

The directory should lie below the mount point, not be it: while the volume is not mounted there is then no directory,
and the look counts as not had, instead of praising the disk below.

It sees what `statvfs` and `stat` do not: a filesystem shut down or read-only without a flag, a full pool behind a thin
volume, an MTU black hole (row 33b). A full filesystem may still take root's writes (`capacity` tells), so ENOSPC here
only degrades.

What it cannot tell: anything of other directories, volumes or files.
"""

import hashlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.mount_errors import failed
from leadsman_health_collector.mount_worker import canary_job
from leadsman_health_collector.mountinfo import printable
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.strikes import Thresholds
from leadsman_health_collector.workers import Finished, Overdue, Refused, WorkerPool

PREFIX = ".leadsman-canary-"
"""Begins the names of canary files; twelve digits for the node and sixteen for the look follow."""


class CanaryIoProbe:
    """Writes to the directories of `canaries` in the name of `node`; `deadline_s` is its own, in seconds."""

    kind = Kind.CANARY
    schedule = Schedule(period=6.0, thresholds=Thresholds(definite=2, failures=2, up=2, slow_s=2.0))

    def __init__(
        self, canaries: Sequence[tuple[StorageKey, Path]], workers: WorkerPool, deadline_s: float, node: str
    ) -> None:
        self._sources = {str(path): Source(key, place=printable(str(path))) for key, path in canaries}
        self._workers = workers
        self._deadline_s = deadline_s
        self._prefix = f"{PREFIX}{_digits(node, 12)}-"
        self._answered: set[str] = set()

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: directories."""
        return self._sources.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: all."""
        del suspects
        return self._sources.keys()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return self._sources

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        job = canary_job(name, self._prefix, secrets.token_hex(8))
        match await self._workers.run(f"io-{_digits(name, 8)}", job, self._deadline_s):
            case Overdue(seconds):
                words = f"writing and reading a small file has not ended for {seconds:.0f} s"
                return Observation(Outcome.TIMEOUT, Reason.MOUNT_HUNG, words)
            case Refused(why):
                return not_run(why)
            case Finished(answer):
                return self._read(answer, name)

    def _read(self, answer: str, name: str) -> Observation:
        match answer.split():
            case ["ok", seconds] if _is_number(seconds):
                self._answered.add(name)
                return Observation(Outcome.GOOD, latency_s=float(seconds))
            case ["differs"]:
                return Observation(Outcome.ERROR, Reason.MOUNT_IO_ERROR, "a file came back other than it was written")
            case ["error", number, call]:
                return failed(number, call, answered=name in self._answered)
            case _:
                return not_run("the worker ended without an answer")


def _digits(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:length]


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
