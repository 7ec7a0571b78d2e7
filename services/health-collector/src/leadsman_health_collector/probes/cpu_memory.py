"""How much CPU and memory the node has, and how much of it is free: facts for scores and rules, never a verdict.

Source: `/proc/stat`, `/proc/loadavg`, `/proc/meminfo`; the clock rate from cpufreq in sysfs or else `/proc/cpuinfo`,
read once because it does not change and asking is dear. All of them are the host's, also in a container.
Period: the collector's. Deadline: none, the kernel answers from memory.
Thresholds: none. Evidence: none, it judges no storage.

What it cannot tell: CPU sets and cgroup limits; how fast a CPU is beside its clock rate.
"""

from collections.abc import Mapping
from pathlib import Path

from leadsman_health_collector.kernel_files import number, read_kernel_file
from leadsman_health_collector.moving_average import MovingAverage
from leadsman_health_collector.probes.probe import FactValue

CPU_COUNT = "cpu.count"
CPU_IDLE = "cpu.idle"
CPU_MHZ = "cpu.mhz"
LOAD_1M = "load.1m"
LOAD_5M = "load.5m"
MEMORY_TOTAL = "memory.totalBytes"
MEMORY_AVAILABLE = "memory.availableBytes"
MEMORY_SHARE = "memory.availableShare"

FACTS = frozenset({CPU_COUNT, CPU_IDLE, CPU_MHZ, LOAD_1M, LOAD_5M, MEMORY_TOTAL, MEMORY_AVAILABLE, MEMORY_SHARE})
"""Every fact that this probe can give."""

_DIGITS = 4
_MEMINFO_LINES = 8
"""MemTotal and MemAvailable are among the first three of some sixty."""

_IDLE, _IOWAIT, _STEAL = 3, 4, 7
"""Places in the `cpu` line of /proc/stat (proc_stat(5)); what follows `steal` is counted in the fields before."""


class CpuMemoryProbe:
    """Reads what is below `proc` and `sys`, the roots of procfs and sysfs."""

    name = "cpu_memory"
    period = 1.0

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc = proc
        self._sys = sys
        self._ticks: list[float] = []
        self._idle = MovingAverage()
        self._cpus = 0
        self._mhz: float | None = None

    async def read(self) -> Mapping[str, FactValue]:
        """See `FactProbe.read`; a part that cannot be read is left out, and only nothing at all is an error."""
        facts: dict[str, FactValue] = {}
        trouble: list[Exception] = []
        for part in (self._cpu, self._clock_rate, self._load, self._memory):
            try:
                facts |= part()
            except (OSError, ValueError) as error:
                trouble.append(error)
        if not facts:
            raise OSError(f"neither CPU nor load nor memory can be read in {self._proc}: {trouble}")
        return facts

    def _cpu(self) -> dict[str, float]:
        lines = read_kernel_file(f"{self._proc}/stat").splitlines()
        self._cpus = sum(line.startswith("cpu") for line in lines) - 1  # the first is their sum
        if self._cpus < 1:
            raise ValueError("/proc/stat lists no CPU")
        ticks = [number(word) for word in lines[0].split()[1 : _STEAL + 2]]
        past = [now - then for now, then in zip(ticks, self._ticks, strict=False)]
        self._ticks = ticks
        if len(past) > _STEAL and sum(past) > 0:
            self._idle.add(min(1.0, max(0.0, (past[_IDLE] + past[_IOWAIT]) / sum(past))))
        idle = {} if self._idle.value is None else {CPU_IDLE: round(self._idle.value, _DIGITS)}
        return {CPU_COUNT: float(self._cpus)} | idle

    def _load(self) -> dict[str, float]:
        words = read_kernel_file(f"{self._proc}/loadavg").split()
        if len(words) < 2:
            raise ValueError("/proc/loadavg is too short")
        cpus = max(1, self._cpus)
        return {LOAD_1M: round(number(words[0]) / cpus, _DIGITS), LOAD_5M: round(number(words[1]) / cpus, _DIGITS)}

    def _memory(self) -> dict[str, float]:
        lines = read_kernel_file(f"{self._proc}/meminfo").splitlines()[:_MEMINFO_LINES]
        sizes = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
        total = _kib(sizes, "MemTotal")
        available = min(total, _kib(sizes, "MemAvailable"))
        return {MEMORY_TOTAL: total, MEMORY_AVAILABLE: available, MEMORY_SHARE: round(available / total, _DIGITS)}

    def _clock_rate(self) -> dict[str, float]:
        """The highest clock rate of any CPU; asked for once."""
        if self._mhz is None:
            self._mhz = 0.0
            files = self._sys.glob("devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq")
            rates = [number(read_kernel_file(str(file))) / 1000 for file in files] or self._cpuinfo_rates()
            self._mhz = float(round(max(rates, default=0.0)))
        return {CPU_MHZ: self._mhz} if self._mhz > 0 else {}

    def _cpuinfo_rates(self) -> list[float]:
        lines = read_kernel_file(f"{self._proc}/cpuinfo").splitlines()
        return [number(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]


def _kib(sizes: Mapping[str, str], name: str) -> float:
    """The size called `name` in bytes, which is above zero."""
    size = number((sizes.get(name, "").split() or [""])[0]) * 1024
    if size <= 0:
        raise ValueError(f"{name} in /proc/meminfo is not above zero")
    return size
