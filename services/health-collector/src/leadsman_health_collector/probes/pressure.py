"""How much of the time tasks of this node wait for IO, memory or CPU: facts for scores, never a verdict.

Source: `/proc/pressure/{io,memory,cpu}` (facts: storage-health 3.1, P12).
Period: the collector's. Deadline: none, the kernel answers from memory.
Thresholds: none. Evidence: none, it judges no storage.

`Avg10` and `Avg60` are the kernel's own averages; `Share` is the exact share of the time since the last read. `full` of
the CPU is always zero for a whole machine and left out. A kernel without PSI gives no facts.

What it cannot tell: which device or pod it is about; waits for network and FUSE filesystems, to which PSI is blind
(facts 0.8).
"""

from collections.abc import Mapping
from pathlib import Path

from leadsman.domain.clock import Clock
from leadsman_health_collector.probes.probe import FactValue
from leadsman_health_collector.psi import Stall, read_pressure

_KINDS = {"io": ("some", "full"), "memory": ("some", "full"), "cpu": ("some",)}

FACTS = frozenset(
    f"pressure.{resource}.{kind}{what}"
    for resource, kinds in _KINDS.items()
    for kind in kinds
    for what in ("Avg10", "Avg60", "Share")
)
"""Every fact that this probe can give."""

_DIGITS = 4


class PressureProbe:
    """Reads the pressure files below `proc`, the root of procfs."""

    name = "pressure"
    period = 1.0

    def __init__(self, proc: Path, clock: Clock) -> None:
        self._proc = proc
        self._clock = clock
        self._before: dict[str, tuple[float, float]] = {}

    async def read(self) -> Mapping[str, FactValue]:
        """See `FactProbe.read`."""
        facts: dict[str, FactValue] = {}
        for resource, kinds in _KINDS.items():
            stalls = read_pressure(self._proc, resource) or {}
            for kind in kinds:
                if kind in stalls:
                    self._add(facts, f"pressure.{resource}.{kind}", stalls[kind])
        return facts

    def _add(self, facts: dict[str, FactValue], name: str, stall: Stall) -> None:
        facts[f"{name}Avg10"] = round(stall.avg10, _DIGITS)
        facts[f"{name}Avg60"] = round(stall.avg60, _DIGITS)
        now = self._clock.monotonic()
        then, total = self._before.get(name, (now, stall.total_s))
        self._before[name] = (now, stall.total_s)
        if now > then and stall.total_s >= total:
            facts[f"{name}Share"] = round(min(1.0, (stall.total_s - total) / (now - then)), _DIGITS)
