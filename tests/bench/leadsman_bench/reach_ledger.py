"""Who uses the processor time of a collector: `python -m leadsman_bench.reach_ledger FOLDER run ...` runs it and notes.

Every step of every task is timed with the thread's own clock and put down to the probe or part that started the task;
what some functions take is put down to them instead. The rest is told too, so that the whole adds up: callbacks of
sockets and the event loop itself, and other threads (gRPC has its own).

On SIGUSR1 it writes the sums so far to FOLDER/ledger-N.json, N counting from 1. Its own cost is in the figures: about
a microsecond per step.
"""

import asyncio
import functools
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from leadsman.bus import publish
from leadsman.bus.connect import Bus
from leadsman.runtime.http import HttpServer
from leadsman_health_collector import reporter, state_file
from leadsman_health_collector.__main__ import main as collector_main
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.fact_rounds import FactRounds
from leadsman_health_collector.kube.cluster_watch import ClusterWatch
from leadsman_health_collector.kube.event_recorder import EventRecorder
from leadsman_health_collector.metrics import CollectorMetrics
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.refresher import Refresher
from leadsman_health_collector.rounds import Rounds
from leadsman_health_collector.state_file import StateFile

T = TypeVar("T")

_owner: ContextVar[str] = ContextVar("owner", default="other tasks")

LOOP = "event loop, callbacks of sockets"
THREADS = "other threads (gRPC)"


class Ledger:
    """Seconds of the main thread by who used them, each second counted once."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._within = 0.0

    def timed(self, owner: str, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call `work` and put down what it takes to `owner`, but for what it has put down itself."""
        outside, self._within = self._within, 0.0
        begin = time.thread_time()
        try:
            return work(*arguments, **named)
        finally:
            took = time.thread_time() - begin
            self.spent[owner] += took - self._within
            self._within = outside + took


ledger = Ledger()


class _Timed(Coroutine[Any, Any, T]):
    """A coroutine whose steps are timed."""

    def __init__(self, inner: Coroutine[Any, Any, T]) -> None:
        self._inner = inner

    def send(self, value: Any) -> Any:
        return ledger.timed(_owner.get(), self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        return ledger.timed(_owner.get(), self._inner.throw, *error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._inner.__await__()


def new_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> asyncio.Task[Any]:
    """A task factory whose tasks are timed."""
    return asyncio.Task(_Timed(coroutine), loop=loop, **named)


def put_down_function(owner: str, place: Any, name: str) -> None:
    """Have what the function `name` of a class or module takes put down to `owner`."""
    inner = getattr(place, name)

    @functools.wraps(inner)
    def timed(*arguments: Any, **named: Any) -> Any:
        return ledger.timed(owner, inner, *arguments, **named)

    setattr(place, name, timed)


def put_down_tasks(name_of: Callable[[Any], str], place: type, name: str) -> None:
    """Have all that the coroutine method `name` does, and every task that it starts, put down to `name_of(self)`."""
    inner: Callable[..., Awaitable[Any]] = getattr(place, name)

    @functools.wraps(inner)
    async def labelled(self: Any, *arguments: Any) -> Any:
        _owner.set(name_of(self))
        return await inner(self, *arguments)

    setattr(place, name, labelled)


def _put_down_all() -> None:
    put_down_tasks(lambda rounds: f"probe {rounds.kind.value}", Rounds, "run")
    put_down_tasks(lambda rounds: f"facts {rounds.name}", FactRounds, "run")
    for owner, place, method in (
        ("refresh: other", Refresher, "run"),
        ("publish", publish.ReportPublisher, "run"),
        ("bus connection", Bus, "run"),
        ("admin server", HttpServer, "run_forever"),
        ("watches of the API server", ClusterWatch, "run"),
        ("events", EventRecorder, "run"),
    ):
        put_down_tasks(lambda _, owner=owner: owner, place, method)  # type: ignore[misc]
    for owner, where, name in (
        ("refresh: evaluate", HealthBook, "evaluate"),
        ("refresh: state file", StateFile, "save"),
        ("refresh: metrics", CollectorMetrics, "show"),
        ("book: watch", HealthBook, "watch"),
        ("book: record", HealthBook, "record"),
        ("mount table", MountTable, "current"),
        ("encode reports", reporter, "encode_report"),
        ("encode reports", state_file, "encode_report"),
        ("encode reports", publish, "encode_report"),
    ):
        put_down_function(owner, where, name)


def _write(folder: Path, number: int) -> None:
    main = time.thread_time()
    sums = {
        **ledger.spent,
        LOOP: main - sum(ledger.spent.values()),
        THREADS: time.process_time() - main,
    }
    beside = folder / "ledger.part"
    beside.write_text(json.dumps(sums), encoding="utf-8")
    beside.replace(folder / f"ledger-{number}.json")


def main() -> None:
    """Run the collector with everything that follows the folder."""
    folder = Path(sys.argv[1])
    numbers = iter(range(1, 1000))
    run = uvloop.run

    async def noting(work: Coroutine[Any, Any, T]) -> T:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(new_task)
        loop.add_signal_handler(signal.SIGUSR1, lambda: _write(folder, next(numbers)))
        return await asyncio.create_task(work)

    uvloop.run = lambda work, **named: run(noting(work), **named)
    _put_down_all()
    collector_main(sys.argv[2:])


if __name__ == "__main__":
    main()
