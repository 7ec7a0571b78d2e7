"""Bursts of load: short ones, in turn on each server, so that the machine's noise falls on both alike."""

import array
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadsman_bench.cases import Case
from leadsman_bench.samples import Figures, figures

REQUEST_LIMIT = 20_000
"""Of one burst; far more than any server here answers in one."""

_GRACE_S = 60.0


class LoadError(Exception):
    """A server gave anything but the right answer; the message says which and what."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server under load: its name, its port, and the processes whose time its answers cost."""

    name: str
    port: int
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long one case takes: `rounds` bursts of `burst_s` seconds on each server, after one of `warm_up_s`."""

    rounds: int
    burst_s: float
    warm_up_s: float

    def for_case(self, case: Case) -> "Plan":
        """This plan with bursts long enough for some ten slow answers of large bodies."""
        factor = (2 if case.body.count <= 500 else 5) if case.body.full else 1
        return Plan(self.rounds, self.burst_s * factor, self.warm_up_s * factor)


@dataclass(slots=True)
class _Pool:
    latencies_ns: "array.array[int]" = field(default_factory=lambda: array.array("q"))
    seconds: float = 0.0
    cpu_s: float = 0.0


class Loader:
    """Runs the load generator; `folder` takes its latency files."""

    def __init__(self, program: Path, bodies: Path, folder: Path) -> None:
        self._program = program
        self._bodies = bodies
        self._latencies = folder / "latencies"

    def compare(
        self, case: Case, targets: Sequence[Target], answer_sizes: dict[str, int], plan: Plan
    ) -> dict[str, Figures]:
        """Measure `case` on every target, bursts in rotating order.

        `answer_sizes` are the sizes of the verified answers: every later answer must have the same.

        Raises:
            LoadError: an answer failed or had another size.
        """
        pools = {target.name: _Pool() for target in targets}
        for target in targets:
            self._burst(case, target, answer_sizes[target.name], plan.warm_up_s, _Pool())
        for number in range(plan.rounds):
            turn = number % len(targets)
            for target in (*targets[turn:], *targets[:turn]):
                self._burst(case, target, answer_sizes[target.name], plan.burst_s, pools[target.name])
        return {name: figures(pool.latencies_ns, pool.seconds, pool.cpu_s) for name, pool in pools.items()}

    def _burst(self, case: Case, target: Target, answer_size: int, seconds: float, pool: _Pool) -> None:
        self._latencies.unlink(missing_ok=True)
        before = cpu_seconds(target.pids)
        summary = self._run(case, target, seconds)
        pool.cpu_s += cpu_seconds(target.pids) - before
        if {summary["smallest"], summary["largest"]} != {answer_size}:
            raise LoadError(
                f"{target.name} changed its answer in '{case.name}': {answer_size} bytes when checked, then "
                f"{summary['smallest']} to {summary['largest']}; look at its metrics for decisions without a verdict"
            )
        pool.seconds += summary["seconds"]
        pool.latencies_ns.frombytes(self._latencies.read_bytes())

    def _run(self, case: Case, target: Target, seconds: float) -> dict[str, float]:
        body = self._bodies / case.body.file_name
        limits = [str(case.connections), str(seconds), str(REQUEST_LIMIT)]
        command = [str(self._program), str(target.port), f"/{case.verb}", str(body), *limits, str(self._latencies)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + _GRACE_S)
        except subprocess.TimeoutExpired as error:
            raise LoadError(f"{target.name} did not come to an end in '{case.name}'") from error
        if done.returncode:
            raise LoadError(f"{target.name} failed in '{case.name}': {done.stderr.strip()}")
        summary: dict[str, float] = json.loads(done.stdout)
        return summary


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time that all threads of `pids` have used so far, from the kernel's nanosecond accounts."""
    return sum(_thread_ns(path) for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def _thread_ns(schedstat: Path) -> int:
    try:
        return int(schedstat.read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
        return 0
