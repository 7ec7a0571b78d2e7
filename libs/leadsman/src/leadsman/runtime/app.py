"""Life of a service process: run its tasks, stop them on SIGTERM or SIGINT, and never let one end unseen."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import click
import uvloop

from leadsman.domain.errors import LeadsmanError
from leadsman.telemetry.logs import get_logger

log = get_logger("runtime")


class TaskEndedError(LeadsmanError):
    """A task that should run for ever has returned; the process must not go on without it."""


class Shutdown:
    """Set once, by a signal or by the service itself; everything that waits for work also waits for this."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def request(self) -> None:
        """Ask the service to drain and stop."""
        self._event.set()

    @property
    def requested(self) -> bool:
        """Whether the service should be stopping."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return when the service should stop."""
        await self._event.wait()


def run_service(main: Callable[[Shutdown], Coroutine[Any, Any, None]]) -> None:
    """Run `main` to its end; the first SIGTERM or SIGINT requests shutdown, a second one ends the process at once.

    A LeadsmanError ends the process with its message and exit code 1, without a traceback.
    """

    async def with_signals() -> None:
        shutdown = Shutdown()
        loop = asyncio.get_running_loop()

        def on_signal(name: str) -> None:
            if shutdown.requested:
                log.info("second signal, leaving at once", signal=name)
                sys.exit(1)
            log.info("stopping", signal=name)
            shutdown.request()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number.name)
        await main(shutdown)

    try:
        uvloop.run(with_signals())
    except* LeadsmanError as group:  # also catches one raised outside any group
        click.echo("error: " + "; ".join(str(error) for error in _leaves(group)), err=True)
        sys.exit(1)


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def start_eternal(group: asyncio.TaskGroup, name: str, task: Awaitable[None]) -> asyncio.Task[None]:
    """Start a task that must not end by itself; if it returns, the whole group fails with TaskEndedError."""

    async def guarded() -> None:
        await task
        raise TaskEndedError(
            f"the task '{name}' ended although it should run for ever; this is a bug, please report it"
        )

    return group.create_task(guarded(), name=name)


async def run_until_shutdown(shutdown: Shutdown, tasks: dict[str, Awaitable[None]]) -> None:
    """Run eternal `tasks` side by side until shutdown is requested, then cancel them all and wait for them.

    Raises:
        ExceptionGroup: a task failed; the others have been cancelled.
    """
    async with asyncio.TaskGroup() as group:
        running = [start_eternal(group, name, task) for name, task in tasks.items()]
        await shutdown.wait()
        for task in running:
            task.cancel()
