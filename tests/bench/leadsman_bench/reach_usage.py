"""What a collector and its workers take of the machine: memory and processor time, read from /proc."""

import contextlib
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

MIB = float(1 << 20)

_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sample:
    """A collector with its workers at one moment (`at_s` is monotonic); memory in bytes, processor time in seconds.

    `rss` counts what processes share once for each, `pss` once in all. `cpu_s` is that of the collector, of its workers
    and of all that it has had; `worker_cpu_s` is the workers' part in it.
    """

    at_s: float
    rss: float
    pss: float
    own_rss: float
    processes: int
    cpu_s: float
    worker_cpu_s: float


def take_sample(pid: int) -> Sample:
    """Look at process `pid` and its children now.

    Raises:
        psutil.NoSuchProcess: it has ended.
    """
    main = psutil.Process(pid)
    own, reaped = _cpu(main)
    own_rss = float(main.memory_info().rss)
    rss, pss, workers, processes = own_rss, _pss(pid), reaped, 1
    for child in main.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):  # it has just ended
            rss += float(child.memory_info().rss)
            pss += _pss(child.pid)
            workers += sum(_cpu(child))
            processes += 1
    return Sample(time.monotonic(), rss, pss, own_rss, processes, own + workers, workers)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run took: memory in MiB, processor time as a share of one core in percent.

    `growth_mib` is how much more resident memory the last tenth of the run shows than the first, on average.
    """

    minutes: float
    samples: int
    processes_max: int
    rss_max_mib: float
    rss_mean_mib: float
    own_rss_max_mib: float
    pss_max_mib: float
    pss_mean_mib: float
    growth_mib: float
    cpu_percent: float
    worker_cpu_percent: float


def summarise(samples: Sequence[Sample]) -> Usage:
    """The figures of a run, from at least two samples in their order."""
    first, last = samples[0], samples[-1]
    wall = last.at_s - first.at_s
    tenth = max(1, len(samples) // 10)
    rss, pss = [one.rss / MIB for one in samples], [one.pss / MIB for one in samples]
    return Usage(
        minutes=wall / 60,
        samples=len(samples),
        processes_max=max(one.processes for one in samples),
        rss_max_mib=max(rss),
        rss_mean_mib=statistics.fmean(rss),
        own_rss_max_mib=max(one.own_rss for one in samples) / MIB,
        pss_max_mib=max(pss),
        pss_mean_mib=statistics.fmean(pss),
        growth_mib=statistics.fmean(rss[-tenth:]) - statistics.fmean(rss[:tenth]),
        cpu_percent=100 * (last.cpu_s - first.cpu_s) / wall,
        worker_cpu_percent=100 * (last.worker_cpu_s - first.worker_cpu_s) / wall,
    )


def _cpu(process: psutil.Process) -> tuple[float, float]:
    """Seconds of the process itself, and of its children that have ended."""
    times = process.cpu_times()
    return times.user + times.system, times.children_user + times.children_system


def _pss(pid: int) -> float:
    """Resident memory in which every shared page counts by the share that the process has in it."""
    found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii"))
    return float(found[1]) * 1024 if found else 0.0
