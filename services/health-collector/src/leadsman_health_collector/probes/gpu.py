"""What GPUs are here, and do they answer? Facts for scores and rules.

Source: NVML through `nvidia-ml-py` in a killable process of its own (facts: storage-health 3.1 P15, row 37). It is
started only where an NVIDIA driver shows itself; no driver, no library or no GPU means no facts, and no error.
Period: 3 x the collector's. Deadline: 5/3 x that of the collector, after which the last facts stand.
Thresholds: a process that has not answered by the second read is killed once, and until one answers again
`gpu.responding` = 0 is the only fact. Killing it no sooner allows for the slow first call of a driver.
Evidence: none, it judges no storage.

| fact | meaning |
|---|---|
| `gpu.responding` | 1, or 0 while the driver hangs |
| `gpu.count` | GPUs that answer |
| `gpu.model` | names of the models, sorted, separated by `, ` |
| `gpu.driverVersion`, `gpu.driverMajor` | as text; its first number |
| `gpu.memoryTotalBytes`, `gpu.memoryFreeBytes` | over all GPUs |
| `gpu.memoryFreeMaxBytes` | of the GPU with most |
| `gpu.utilization` | share of time in use (0-1), mean of all GPUs |

What it cannot tell: who uses the GPUs, single MIG instances, errors of the hardware. It is tested against a module that
stands in for NVML's, not on real GPUs.
"""

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from leadsman_health_collector.gpu_worker import COMM
from leadsman_health_collector.mount_worker import AT_WORK
from leadsman_health_collector.orphans import end_orphan, find_orphans, still_out, worker_arguments
from leadsman_health_collector.probes.probe import FactValue
from leadsman_health_collector.worker_process import WorkerProcess

WORKER = Path(__file__).parents[1] / "gpu_worker.py"

HANGS_AFTER = 2
"""Reads in a row without an answer."""

_PLACE = COMM.removeprefix(AT_WORK)
_NOT_RESPONDING: Mapping[str, FactValue] = {"gpu.responding": 0.0}
_decoder = msgspec.json.Decoder(dict[str, float | str] | str)


class GpuProbe:
    """Facts about the GPUs of `node`; `deadline_s` is its own, in seconds.

    `proc` and `dev` are where a driver shows itself, `command` how the worker is started.
    """

    name = "gpu"
    period = 3.0

    def __init__(
        self,
        node: str,
        boot_id: str,
        deadline_s: float,
        *,
        proc: Path = Path("/proc"),
        dev: Path = Path("/dev"),
        command: Sequence[str] = (sys.executable, "-I", str(WORKER)),
    ) -> None:
        self._node = node
        self._boot_id = boot_id
        self._deadline_s = deadline_s
        self._signs = (dev / "nvidiactl", proc / "driver" / "nvidia")
        self._command = [*command, *worker_arguments(node, boot_id)]
        self._worker: WorkerProcess | None = None
        self._missed = 0
        self._orphans = [orphan for orphan in find_orphans(node, boot_id) if orphan.place == _PLACE]
        for orphan in self._orphans:
            end_orphan(orphan, node, boot_id)

    @property
    def processes(self) -> int:
        """Workers that exist, a stuck one of an earlier run included."""
        return len(self._orphans) + (self._worker is not None)

    async def read(self) -> Mapping[str, FactValue]:
        """See `FactProbe.read`."""
        if self._hangs():
            return _NOT_RESPONDING
        if self._worker is None:
            if not any(sign.exists() for sign in self._signs):
                return {}
            self._worker = WorkerProcess(self._command, self._forget)
            self._worker.give("read")
        worker = self._worker
        if await worker.done_within(self._deadline_s):
            return await self._take(worker)
        self._missed += 1
        if self._missed < HANGS_AFTER:
            raise TimeoutError(f"NVML has not answered within {self._deadline_s:.1f} s")
        worker.kill()
        return _NOT_RESPONDING

    def close(self) -> None:
        """End the worker; one that does not obey is left behind, and the next run finds it."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.abandon()
            self._worker = None

    def _hangs(self) -> bool:
        """Whether a process that was killed is still there, this run's or an earlier one's."""
        self._orphans = [one for one in self._orphans if still_out(one, self._node, self._boot_id)]
        return bool(self._orphans) or (self._worker is not None and self._worker.killed)

    async def _take(self, worker: WorkerProcess) -> Mapping[str, FactValue]:
        self._missed = 0
        worker.kill()  # most often it has ended by itself
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._deadline_s):
                await worker.gone.wait()
        facts = _decode(worker.answer)
        return {"gpu.responding": 1.0, **facts} if facts else facts

    def _forget(self, worker: WorkerProcess) -> None:
        if self._worker is worker:
            self._worker = None


def _decode(answer: str) -> Mapping[str, FactValue]:
    try:
        told = _decoder.decode(answer)
    except msgspec.DecodeError as error:
        raise OSError("the GPU worker ended without an answer") from error
    if isinstance(told, str):
        raise OSError(f"NVML: {told}")
    return told
