"""Killable processes that look at mounts, in limited number, and are never waited for without a deadline.

A process that waits for a dead filesystem may ignore SIGKILL (measured with FUSE), so a worker that is overdue is
killed once and left alone; nobody looks at its superblock until it is gone (facts: storage-health 0.6, 3.2).
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from leadsman.domain.clock import Clock
from leadsman_health_collector.orphans import end_orphan, find_orphans, still_out, worker_arguments

WORKER = Path(__file__).with_name("mount_worker.py")
MAX_STUCK = 16
MAX_RUNNING = 4
MAX_SUSPECT = 3
"""Of those running, how many may be at mounts that did not answer last time: the others must not wait for them."""

_LAST_CHANCE_S = 0.2


@dataclass(frozen=True, slots=True)
class Finished:
    """The worker came back in time; `answer` is its line, empty if it failed to say anything."""

    answer: str


@dataclass(frozen=True, slots=True)
class Overdue:
    """The worker has not come back, for `seconds` so far."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """No worker was started, for a reason that says nothing about the mount."""

    why: str


@dataclass(eq=False, slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    handle: int
    since: float
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    overdue: bool = False
    answer: str = ""


class WorkerPool:
    """Workers by superblock (`major:minor`), at most one each.

    At most `MAX_RUNNING` are within their deadline and `MAX_STUCK` beyond it. Workers that an earlier run of `node`'s
    collector left behind are killed once and count as stuck until they are gone.
    """

    def __init__(self, node: str, boot_id: str, clock: Clock) -> None:
        self._node = node
        self._boot_id = boot_id
        self._clock = clock
        self._out: dict[str, _Worker] = {}
        self._orphans = {orphan.device: orphan for orphan in find_orphans(node, boot_id)}
        self._orphans_since = clock.monotonic()
        self._turns = asyncio.Semaphore(MAX_RUNNING)
        self._suspect_turns = asyncio.Semaphore(MAX_SUSPECT)
        self._suspects: set[str] = set()
        for orphan in self._orphans.values():
            end_orphan(orphan, node, boot_id)

    @property
    def stuck(self) -> int:
        """Workers beyond their deadline, those of an earlier run included."""
        return sum(worker.overdue for worker in self._out.values()) + len(self._orphans)

    @property
    def running(self) -> int:
        """Workers within their deadline."""
        return sum(not worker.overdue for worker in self._out.values())

    async def look(self, device: str, path: str, deadline_s: float) -> Finished | Overdue | Refused:
        """Have a worker look at `path` on superblock `device`; returns within the deadline once it has its turn."""
        out = self._still_out(device)
        if out is not None:
            return out
        async with contextlib.AsyncExitStack() as turn:
            if device in self._suspects:
                await turn.enter_async_context(self._suspect_turns)
            await turn.enter_async_context(self._turns)
            if self.stuck >= MAX_STUCK:
                return Refused(f"{self.stuck} mount workers are stuck already, so no other is started")
            result = self._still_out(device) or await self._run(device, path, deadline_s)
            (self._suspects.add if isinstance(result, Overdue) else self._suspects.discard)(device)
            return result

    def keep(self, devices: Collection[str]) -> None:
        """These superblocks exist; what was noted of others, and of orphans that have ended, is dropped."""
        self._suspects &= set(devices)
        self._orphans = {
            device: orphan for device, orphan in self._orphans.items() if still_out(orphan, self._node, self._boot_id)
        }

    async def close(self) -> None:
        """Kill what still runs; what cannot be killed is left behind, and the next run finds it."""
        for worker in self._out.values():
            _kill(worker.process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_CHANCE_S):
                for worker in list(self._out.values()):
                    await worker.gone.wait()
        for device, worker in list(self._out.items()):
            self._forget(device)
            worker.process.returncode = -signal.SIGKILL  # else Popen complains at exit about what we know
            _answer(worker.process)

    def _still_out(self, device: str) -> Overdue | None:
        worker = self._out.get(device)
        if worker is not None:
            return Overdue(self._clock.monotonic() - worker.since)
        orphan = self._orphans.get(device)
        if orphan is not None and still_out(orphan, self._node, self._boot_id):
            return Overdue(self._clock.monotonic() - self._orphans_since)
        self._orphans.pop(device, None)
        return None

    async def _run(self, device: str, path: str, deadline_s: float) -> Finished | Overdue | Refused:
        try:
            worker = self._start(device, path)
        except OSError as error:
            return Refused(f"cannot start a mount worker: {error.strerror}")
        try:
            async with asyncio.timeout(deadline_s):
                await worker.gone.wait()
        except TimeoutError:
            worker.overdue = True
            _kill(worker.process)
            return Overdue(deadline_s)
        except asyncio.CancelledError:
            _kill(worker.process)
            raise
        return Finished(worker.answer)

    def _start(self, device: str, path: str) -> _Worker:
        arguments = worker_arguments(self._node, self._boot_id, device, path)
        process = subprocess.Popen(  # noqa: S603 - our own file, no shell
            [sys.executable, "-I", "-S", str(WORKER), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        worker = self._out[device] = _Worker(process, os.pidfd_open(process.pid), self._clock.monotonic())
        asyncio.get_running_loop().add_reader(worker.handle, self._on_exit, device)
        return worker

    def _on_exit(self, device: str) -> None:
        worker = self._out[device]
        worker.process.poll()  # reaps it; it has ended, so this does not wait
        worker.answer = _answer(worker.process)
        self._forget(device)
        worker.gone.set()

    def _forget(self, device: str) -> None:
        worker = self._out.pop(device)
        asyncio.get_running_loop().remove_reader(worker.handle)
        os.close(worker.handle)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)


def _answer(process: subprocess.Popen[bytes]) -> str:
    """What an ended process wrote; closes its pipe."""
    if process.stdout is None:
        return ""
    with process.stdout as pipe:
        return pipe.read(256).decode("ascii", "replace") if process.returncode == 0 else ""
