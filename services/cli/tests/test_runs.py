"""Finding a running pipeline and talking to it."""

import asyncio
import os
from pathlib import Path

import pytest

from leadsman_cli.control import request, serve_control
from leadsman_cli.errors import CommandError
from leadsman_cli.messages import Answer, Request
from leadsman_cli.runs import RunState, find_run, running, state_path, write_state


@pytest.fixture(autouse=True)
def _own_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def _state(tmp_path: Path, port: int) -> RunState:
    return RunState(port=port, pid=os.getpid(), directory=str(tmp_path), control=str(tmp_path / f"{port}.sock"))


async def _answer(wish: Request) -> Answer:
    if wish.node == "node-9":
        raise CommandError("no node is called node-9")
    return Answer(did=[f"{wish.action} {wish.node} {wish.how}"])


async def _serve(group: asyncio.TaskGroup, tmp_path: Path, *ports: int) -> list[asyncio.Task[None]]:
    tasks = []
    for port in ports:
        write_state(_state(tmp_path, port))
        tasks.append(group.create_task(serve_control(tmp_path / f"{port}.sock", _answer)))
    async with asyncio.timeout(5):
        while not all((tmp_path / f"{port}.sock").exists() for port in ports):  # noqa: ASYNC110 - a file sets no event
            await asyncio.sleep(0.01)
    return tasks


async def test_the_only_pipeline_is_found_without_a_port(tmp_path: Path) -> None:
    """A leftover state file of a dead pipeline does not confuse."""
    write_state(_state(tmp_path, 7001))
    async with asyncio.TaskGroup() as group:
        tasks = await _serve(group, tmp_path, 7002)
        assert (await asyncio.to_thread(find_run, None)).port == 7002
        assert running(7001) is None
        with pytest.raises(CommandError, match="no pipeline runs on port 7001"):
            find_run(7001)
        for task in tasks:
            task.cancel()


async def test_with_several_pipelines_the_port_must_be_said(tmp_path: Path) -> None:
    """The message lists the choices."""
    async with asyncio.TaskGroup() as group:
        tasks = await _serve(group, tmp_path, 7001, 7002)
        with pytest.raises(CommandError, match="7001, 7002"):
            await asyncio.to_thread(find_run, None)
        assert (await asyncio.to_thread(find_run, 7001)).port == 7001
        for task in tasks:
            task.cancel()


def test_nothing_running_says_how_to_start() -> None:
    """The message has the command."""
    with pytest.raises(CommandError, match="leadsman up"):
        find_run(None)


async def test_an_order_reaches_the_owner_and_its_refusal_comes_back(tmp_path: Path) -> None:
    """Answers and errors travel in the owner's words."""
    state = _state(tmp_path, 7001)
    async with asyncio.TaskGroup() as group:
        tasks = await _serve(group, tmp_path, 7001)
        answer = await asyncio.to_thread(request, state, Request("break", "node-3", "kill"))
        assert answer.did == ["break node-3 kill"]
        with pytest.raises(CommandError, match="no node is called node-9"):
            await asyncio.to_thread(request, state, Request("heal", "node-9"))
        for task in tasks:
            task.cancel()


def test_the_state_file_is_private(tmp_path: Path) -> None:
    """Its folder belongs to the user alone."""
    write_state(_state(tmp_path, 7001))
    assert state_path(7001).parent.stat().st_mode & 0o077 == 0
