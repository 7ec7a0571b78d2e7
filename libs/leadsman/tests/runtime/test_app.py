"""A service process ends when asked, loudly when a task ends, and without a traceback for a user's mistake."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from leadsman.runtime.app import Shutdown, TaskEndedError, run_until_shutdown


async def test_tasks_are_cancelled_when_shutdown_is_requested() -> None:
    """Every eternal task sees its cancellation before `run_until_shutdown` returns."""
    shutdown, ended = Shutdown(), []

    async def eternal(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def stopper() -> None:
        shutdown.request()
        await asyncio.Event().wait()

    await run_until_shutdown(shutdown, {"a": eternal("a"), "b": eternal("b"), "stopper": stopper()})
    assert sorted(ended) == ["a", "b"]


async def test_a_task_that_returns_ends_the_service_loudly() -> None:
    """An eternal task that simply returns is an error that names the task."""

    async def returns() -> None:
        return

    with pytest.raises(ExceptionGroup) as caught:
        await run_until_shutdown(Shutdown(), {"heartbeat": returns()})
    (error,) = caught.value.exceptions
    assert isinstance(error, TaskEndedError)
    assert "heartbeat" in str(error)


SERVICE = """
from leadsman.runtime.app import run_service, run_until_shutdown
from leadsman.domain.errors import ConfigError
import asyncio, sys
from leadsman.telemetry.logs import configure_logs

configure_logs()

async def main(shutdown):
    print("up", flush=True)
    if "fail" in sys.argv:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
    if "stuck" in sys.argv:
        await asyncio.Event().wait()
    await shutdown.wait()
    print("drained", flush=True)

async def fail():
    raise ConfigError("flag --listen: 'x' is not HOST:PORT")

run_service(main)
"""


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The little service above, once it runs; killed at the end if need be."""
    command = [sys.executable, "-c", textwrap.dedent(SERVICE), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_exits_with_0(number: signal.Signals) -> None:
    """SIGTERM and SIGINT both end the process in order."""
    with running() as process:
        os.kill(process.pid, number)
        out, _ = process.communicate(timeout=10)
        assert (out, process.returncode) == ("drained\n", 0)


def test_a_second_signal_ends_a_stuck_service() -> None:
    """A drain that never finishes can be cut short."""
    with running("stuck") as process:
        assert process.stderr is not None
        os.kill(process.pid, signal.SIGTERM)
        assert "stopping" in process.stderr.readline()
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=10)
        assert process.returncode == 1


def test_a_users_mistake_is_one_line_without_a_traceback() -> None:
    """A LeadsmanError raised in a task group is printed as a sentence."""
    with running("fail") as process:
        _, err = process.communicate(timeout=10)
        assert (err, process.returncode) == ("error: flag --listen: 'x' is not HOST:PORT\n", 1)
