"""The killable processes that touch storage: few, used again and again, never waited for without a deadline.

Usually one worker does all jobs one after another. A process that waits for a dead filesystem may ignore SIGKILL
(measured with FUSE), so a worker that is overdue is killed once and left alone; nobody looks at its place until it is
gone, and others go on with another worker (facts: storage-health 0.6, 3.2).
"""

import asyncio
import contextlib
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from leadsman.domain.clock import Clock
from leadsman_health_collector.orphans import end_orphan, find_orphans, still_out, worker_arguments
from leadsman_health_collector.worker_process import WorkerProcess

WORKER = Path(__file__).with_name("mount_worker.py")
MAX_STUCK = 16
MAX_RUNNING = 4
MAX_SUSPECT = 3
"""Of those running, how many may be at places that did not answer last time: the others must not wait for them."""

PATIENCE_S = 0.1
"""For so long the next job waits for the worker; then another worker takes it."""

SPARE_S = 60.0
"""A worker that nobody has needed for so long ends, unless it is the only one."""

_LAST_CHANCE_S = 0.2
_PLACE = re.compile(r"[!-~]{1,12}")  # what a process can be called after AT_WORK


@dataclass(frozen=True, slots=True)
class Finished:
    """The worker came back in time; `answer` is what it said, empty if it ended without a word."""

    answer: str


@dataclass(frozen=True, slots=True)
class Overdue:
    """The worker has not come back, for `seconds` so far."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """No worker took the job, for a reason that says nothing about the place."""

    why: str


@dataclass(slots=True)
class _Job:
    worker: WorkerProcess
    since: float
    overdue: bool = False


class WorkerPool:
    """Workers by the place they are at (a superblock `major:minor`, or a short name), at most one each.

    At most `MAX_RUNNING` are within their deadline and `MAX_STUCK` out in all. Workers that an earlier run of `node`'s
    collector left behind are killed once and count as stuck until they are gone.
    """

    def __init__(self, node: str, boot_id: str, clock: Clock) -> None:
        self._node = node
        self._boot_id = boot_id
        self._clock = clock
        self._all: set[WorkerProcess] = set()
        self._idle: list[tuple[WorkerProcess, float]] = []
        self._out: dict[str, _Job] = {}
        self._orphans = {orphan.place: orphan for orphan in find_orphans(node, boot_id)}
        self._orphans_since = clock.monotonic()
        self._lane = asyncio.Lock()
        self._turns = asyncio.Semaphore(MAX_RUNNING)
        self._suspect_turns = asyncio.Semaphore(MAX_SUSPECT)
        self._suspects: set[str] = set()
        for orphan in self._orphans.values():
            end_orphan(orphan, node, boot_id)

    @property
    def stuck(self) -> int:
        """Workers beyond their deadline, those of an earlier run included."""
        return sum(job.overdue for job in self._out.values()) + len(self._orphans)

    @property
    def running(self) -> int:
        """Workers that are at a place and within their deadline."""
        return sum(not job.overdue for job in self._out.values())

    @property
    def processes(self) -> int:
        """Workers of this run that exist, idle ones included."""
        return len(self._all)

    async def run(self, place: str, job: str, deadline_s: float) -> Finished | Overdue | Refused:
        """Have a worker do `job` (see `mount_worker`) at `place`; returns within `deadline_s` once it has its turn."""
        if not _PLACE.fullmatch(place):
            return Refused(f"{place!r} is not a place that a worker could be called after")
        out = self._still_out(place)
        if out is not None:
            return out
        async with contextlib.AsyncExitStack() as turn:
            if place in self._suspects:
                await turn.enter_async_context(self._suspect_turns)
            await turn.enter_async_context(self._turns)
            result = self._still_out(place) or await self._do(place, job, deadline_s)
            (self._suspects.add if isinstance(result, Overdue) else self._suspects.discard)(place)
            return result

    def is_out(self, place: str) -> bool:
        """Whether a worker is at `place` and has not come back: to run a job there sends no other."""
        return place in self._out or place in self._orphans

    def keep(self, devices: Collection[str]) -> None:
        """These superblocks exist; what was noted of others is dropped, and so are workers that nobody needs."""
        self._suspects = {place for place in self._suspects if ":" not in place or place in devices}
        self._orphans = {
            place: orphan for place, orphan in self._orphans.items() if still_out(orphan, self._node, self._boot_id)
        }
        self._end_spare()

    async def close(self) -> None:
        """Kill all; what cannot be killed is left behind, and the next run finds it."""
        for worker in self._all:
            worker.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_CHANCE_S):
                for worker in list(self._all):
                    await worker.gone.wait()
        for worker in list(self._all):
            worker.abandon()
            self._forget(worker)

    def _still_out(self, place: str) -> Overdue | None:
        job = self._out.get(place)
        if job is not None:
            return Overdue(self._clock.monotonic() - job.since)
        orphan = self._orphans.get(place)
        if orphan is not None and still_out(orphan, self._node, self._boot_id):
            return Overdue(self._clock.monotonic() - self._orphans_since)
        self._orphans.pop(place, None)
        return None

    async def _do(self, place: str, job: str, deadline_s: float) -> Finished | Overdue | Refused:
        at_once = min(PATIENCE_S, deadline_s)
        async with self._lane:
            out = len(self._out) + len(self._orphans)
            if out >= MAX_STUCK:
                return Refused(f"{out} mount workers are stuck or at work already, so no other is sent out")
            try:
                mine = self._send_out(place, job)
            except OSError as error:
                return Refused(f"cannot use a mount worker: {error.strerror}")
            done = await self._done_within(mine, at_once)
        if done or await self._done_within(mine, deadline_s - at_once):
            self._take_back(place, mine)
            return Finished(mine.worker.answer)
        _give_up(mine)
        return Overdue(deadline_s)

    def _send_out(self, place: str, job: str) -> _Job:
        worker = self._idle.pop()[0] if self._idle else self._start()
        try:
            worker.give(f"{place} {job}")
        except OSError:
            worker.kill()
            raise
        mine = self._out[place] = _Job(worker, self._clock.monotonic())
        return mine

    def _start(self) -> WorkerProcess:
        arguments = worker_arguments(self._node, self._boot_id)
        worker = WorkerProcess([sys.executable, "-I", "-S", str(WORKER), *arguments], self._forget)
        self._all.add(worker)
        return worker

    async def _done_within(self, job: _Job, seconds: float) -> bool:
        try:
            return await job.worker.done_within(seconds)
        except asyncio.CancelledError:
            _give_up(job)
            raise

    def _take_back(self, place: str, job: _Job) -> None:
        self._out.pop(place, None)
        if not job.worker.gone.is_set():
            self._idle.append((job.worker, self._clock.monotonic()))
        self._end_spare()

    def _end_spare(self) -> None:
        """The last one that came back is the next to go out, so the first ones are those that nobody needs."""
        long_ago = self._clock.monotonic() - SPARE_S
        for worker, since in self._idle[:-1]:
            if since <= long_ago:
                worker.kill()

    def _forget(self, worker: WorkerProcess) -> None:
        self._all.discard(worker)
        self._idle = [(one, since) for one, since in self._idle if one is not worker]
        self._out = {place: job for place, job in self._out.items() if job.worker is not worker}


def _give_up(job: _Job) -> None:
    job.overdue = True
    job.worker.kill()
