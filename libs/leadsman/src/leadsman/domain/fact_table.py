"""Every fact about a node: the one table behind policies, documents and the command line.

`docs/facts.md` is checked against it, collectors send these names, and CEL expressions may use them as `node.<name>`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class FactType(StrEnum):
    """What a fact is; NUMBER is a CEL double, COUNT a CEL int, TEXT a CEL string."""

    NUMBER = "number"
    COUNT = "whole number"
    TEXT = "text"


class Fact(NamedTuple):
    """One fact. `age` is how old it is when it is renewed, in multiples of the collector's `--period`, or `start`."""

    name: str
    type: FactType
    unit: str
    source: str
    age: str
    meaning: str


_NUMBER, _COUNT, _TEXT = FactType

_ROWS = (
    Fact("cpu.count", _COUNT, "CPUs", "`/proc/stat`", "1", "CPUs that are online"),
    Fact(
        "cpu.idle",
        _NUMBER,
        "share",
        "`/proc/stat`",
        "1",
        "time in which CPUs had nothing to do or waited for IO; moving average",
    ),
    Fact(
        "cpu.mhz",
        _NUMBER,
        "MHz",
        "cpufreq `cpuinfo_max_freq`, else `/proc/cpuinfo`",
        "start",
        "highest clock rate of any CPU; the present one where cpufreq does not tell, absent where nobody does",
    ),
    Fact(
        "load.1m", _NUMBER, "per CPU", "`/proc/loadavg`", "1", "load average of one minute, divided by the online CPUs"
    ),
    Fact(
        "load.5m",
        _NUMBER,
        "per CPU",
        "`/proc/loadavg`",
        "1",
        "the same of five minutes. Blind to a hung FUSE mount, and raised by hung NFS",
    ),
    Fact("memory.totalBytes", _COUNT, "bytes", "`/proc/meminfo`", "1", "memory that the kernel has"),
    Fact("memory.availableBytes", _COUNT, "bytes", "`/proc/meminfo`", "1", "memory that can be had without swapping"),
    Fact("memory.availableShare", _NUMBER, "share", "`/proc/meminfo`", "1", "the same, of all"),
    Fact(
        "disk.utilizationMax",
        _NUMBER,
        "share",
        "`/proc/diskstats`",
        "1",
        "time in which the busiest of the disks under volumes and the root filesystem had requests; moving average",
    ),
    Fact(
        "disk.awaitMaxSeconds",
        _NUMBER,
        "seconds",
        "`/proc/diskstats`",
        "1",
        "time that a request took on the slowest of them; moving average. Does not show blkio throttling",
    ),
    Fact(
        "disk.queueMax",
        _NUMBER,
        "requests",
        "`/proc/diskstats`",
        "1",
        "requests under way on the one with most of them; moving average",
    ),
    Fact(
        "pressure.io.someAvg10",
        _NUMBER,
        "share",
        "`/proc/pressure/io`",
        "1",
        "time in which some task waited for IO, over 10 s. "
        "Blind to network and FUSE filesystems, as all of `pressure.io`",
    ),
    Fact("pressure.io.someAvg60", _NUMBER, "share", "`/proc/pressure/io`", "1", "the same over 60 s"),
    Fact(
        "pressure.io.someShare", _NUMBER, "share", "`/proc/pressure/io`", "1", "the same since the last read, exactly"
    ),
    Fact(
        "pressure.io.fullAvg10",
        _NUMBER,
        "share",
        "`/proc/pressure/io`",
        "1",
        "time in which CPUs that had work could do none for waiting on IO, over 10 s",
    ),
    Fact(
        "pressure.io.fullAvg60",
        _NUMBER,
        "share",
        "`/proc/pressure/io`",
        "1",
        "the same over 60 s; above 0.4 with `fullAvg10` it makes storage on local disks DEGRADED (`IOPressure`)",
    ),
    Fact(
        "pressure.io.fullShare", _NUMBER, "share", "`/proc/pressure/io`", "1", "the same since the last read, exactly"
    ),
    Fact(
        "pressure.memory.someAvg10",
        _NUMBER,
        "share",
        "`/proc/pressure/memory`",
        "1",
        "time in which some task waited for memory, over 10 s",
    ),
    Fact("pressure.memory.someAvg60", _NUMBER, "share", "`/proc/pressure/memory`", "1", "the same over 60 s"),
    Fact(
        "pressure.memory.someShare",
        _NUMBER,
        "share",
        "`/proc/pressure/memory`",
        "1",
        "the same since the last read, exactly",
    ),
    Fact(
        "pressure.memory.fullAvg10",
        _NUMBER,
        "share",
        "`/proc/pressure/memory`",
        "1",
        "time in which all that could run waited for memory, over 10 s",
    ),
    Fact("pressure.memory.fullAvg60", _NUMBER, "share", "`/proc/pressure/memory`", "1", "the same over 60 s"),
    Fact(
        "pressure.memory.fullShare",
        _NUMBER,
        "share",
        "`/proc/pressure/memory`",
        "1",
        "the same since the last read, exactly",
    ),
    Fact(
        "pressure.cpu.someAvg10",
        _NUMBER,
        "share",
        "`/proc/pressure/cpu`",
        "1",
        "time in which some task waited for a CPU, over 10 s",
    ),
    Fact("pressure.cpu.someAvg60", _NUMBER, "share", "`/proc/pressure/cpu`", "1", "the same over 60 s"),
    Fact(
        "pressure.cpu.someShare", _NUMBER, "share", "`/proc/pressure/cpu`", "1", "the same since the last read, exactly"
    ),
    Fact(
        "gpu.count",
        _COUNT,
        "GPUs",
        "NVML",
        "3",
        "GPUs that answer. All `gpu.` facts are absent on a node without an NVIDIA driver",
    ),
    Fact("gpu.model", _TEXT, "", "NVML", "3", "names of the models, sorted, separated by `, `"),
    Fact("gpu.driverVersion", _TEXT, "", "NVML", "3", "version of the driver, such as `550.54.15`"),
    Fact("gpu.driverMajor", _COUNT, "", "NVML", "3", "its first number, for comparisons"),
    Fact("gpu.memoryTotalBytes", _COUNT, "bytes", "NVML", "3", "memory of all GPUs"),
    Fact("gpu.memoryFreeBytes", _COUNT, "bytes", "NVML", "3", "free memory of all GPUs"),
    Fact(
        "gpu.memoryFreeMaxBytes",
        _COUNT,
        "bytes",
        "NVML",
        "3",
        "free memory of the GPU that has most of it: what one pod can get at once",
    ),
    Fact("gpu.utilization", _NUMBER, "share", "NVML", "3", "time in which the GPUs were busy, averaged over them"),
    Fact(
        "gpu.responding",
        _NUMBER,
        "0 or 1",
        "NVML in a killable worker",
        "3",
        "0 while a call to the driver does not return (then it is the only one of these), 1 otherwise",
    ),
)

FACTS: Mapping[str, Fact] = {fact.name: fact for fact in _ROWS}
"""By name."""


class StorageFact(NamedTuple):
    """A fact about each storage of a node: in CEL a map `node.storage.<name>` by `driver` or `driver/backend`."""

    name: str
    type: FactType
    unit: str
    source: str
    meaning: str


_STORAGE_ROWS = (
    StorageFact("state", _TEXT, "", "all probes", "`HEALTHY`, `DEGRADED`, `UNHEALTHY`, `UNKNOWN` or `NOT_APPLICABLE`"),
    StorageFact(
        "latencySeconds", _NUMBER, "seconds", "the probe that reaches it best", "how long a look takes; moving average"
    ),
    StorageFact("used", _NUMBER, "share", "statvfs", "space in use on its fullest filesystem on the node"),
    StorageFact("inodesUsed", _NUMBER, "share", "statvfs", "inodes in use on the filesystem with the fewest left"),
    StorageFact("attachLimit", _COUNT, "volumes", "CSINode", "how many volumes the driver can attach to the node"),
    StorageFact("attachFree", _COUNT, "volumes", "CSINode and Node", "how many more it can attach now"),
)

STORAGE_FACTS: Mapping[str, StorageFact] = {fact.name: fact for fact in _STORAGE_ROWS}
"""By name."""
