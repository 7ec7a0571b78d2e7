"""What a collector reads of its machine's CPU, memory and pressure: files of its own for every node.

Otherwise all nodes would be as busy as the one machine that they share, a little differently in every moment.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

QUIET = 0.1
"""Share of its CPU time that a node uses unless a test says otherwise: all nodes are equally well."""

CPUS = 4
_TICKS_PER_S = 100.0
_EVERY_S = 0.1

_FIXED = {
    "loadavg": "0.40 0.40 0.40 1/100 1\n",
    "meminfo": "MemTotal: 16777216 kB\nMemFree: 8388608 kB\nMemAvailable: 12582912 kB\n",
    "cpuinfo": "cpu MHz\t\t: 3000.000\n",
    "diskstats": "",
    "filesystems": "nodev\tnfs4\n",
    "sys/kernel/osrelease": "6.1.0\n",
    **{
        f"pressure/{resource}": "".join(
            f"{kind} avg10=0.00 avg60=0.00 avg300=0.00 total=0\n" for kind in ("some", "full")
        )
        for resource in ("io", "memory", "cpu")
    },
}


class Machine:
    """The `/proc` of one node. `busy` is the share (0-1) of its CPU time that is used from now on."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.busy = QUIET
        self._used = self._idle = 0.0
        files = {**_FIXED, "sys/kernel/random/boot_id": f"{uuid.uuid4()}\n"}
        for name, text in files.items():
            path = proc / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")
        self.advance(1.0)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        ticks = seconds * CPUS * _TICKS_PER_S
        self._used += ticks * self.busy
        self._idle += ticks * (1 - self.busy)
        total = f"cpu {self._used:.0f} 0 0 {self._idle:.0f} 0 0 0 0 0 0\n"
        new = self.proc / "stat.new"
        new.write_text(total + "".join(f"cpu{number} 0\n" for number in range(CPUS)), encoding="ascii")
        new.replace(self.proc / "stat")


class Passage:
    """Lets time pass on `machines`, in a thread of its own, until `stop`."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self._machines = tuple(machines)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Halt. Harmless when already halted."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        then = time.monotonic()
        while not self._stop.wait(_EVERY_S):
            now = time.monotonic()
            for machine in self._machines:
                machine.advance(now - then)
            then = now
