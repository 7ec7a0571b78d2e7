"""Owner of every process of a local pipeline: starts, freezes, kills and restarts them, and notices when one ends."""

import asyncio
import os
import signal
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from leadsman.testing.process import log_tail, with_parent
from leadsman_cli.errors import ChildEndedError
from leadsman_cli.janitor import MARKER
from leadsman_cli.workspace import Workspace

_DRAIN_TIME_S = 5.0
_LOG_TAIL_LINES = 12


class End(Enum):
    """How a child is stopped: SIGTERM and time to drain, SIGKILL at once, or SIGKILL when all others have ended."""

    DRAINED = auto()
    KILLED = auto()
    KILLED_LAST = auto()


@dataclass(eq=False, slots=True)
class Child:
    """One process and how it ends.

    `wanted` is false while its absence is intended; else its
    end is a crash.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    end: End
    process: asyncio.subprocess.Process | None = None
    wanted: bool = False

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self.process.pid if self.process is not None and self.process.returncode is None else None

    @property
    def ended(self) -> bool:
        """Whether it was started and has ended."""
        return self.process is not None and self.process.returncode is not None

    def log_tail(self) -> str:
        """The end of its log, indented."""
        return textwrap.indent(log_tail(self.log, _LOG_TAIL_LINES) or "(it wrote nothing)", "  ")


class Supervisor:
    """Runs the children inside a task group, which fails with ChildEndedError when a wanted one ends."""

    def __init__(self, group: asyncio.TaskGroup, workspace: Workspace) -> None:
        self._group = group
        self._workspace = workspace
        self.children: list[Child] = []

    def plan(self, name: str, command: tuple[str, ...], end: End) -> Child:
        """A child that is not started yet."""
        child = Child(name, command, self._workspace.folder("logs") / f"{name}.log", end)
        self.children.append(child)
        return child

    async def start(self, child: Child, *, optional: bool = False) -> None:
        """Start `child` (again). The end of an `optional` one is no crash."""
        with child.log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *with_parent(child.command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=os.environ | {MARKER: str(self._workspace.directory)},
                cwd=self._workspace.directory,
                start_new_session=True,  # Ctrl-C is for us alone; we end the children in order
            )
        child.process = process
        child.wanted = not optional
        self._group.create_task(self._watch(child, process), name=f"watch {child.name}")

    async def _watch(self, child: Child, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        if child.process is process and child.wanted:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise ChildEndedError(
                f"{child.name} {how}, so everything is stopped; the end of its log:\n{child.log_tail()}"
            )

    async def kill(self, child: Child) -> None:
        """End `child` with SIGKILL, on purpose, and wait for it."""
        child.wanted = False
        send(child, signal.SIGKILL)
        if child.process is not None:
            await child.process.wait()

    async def stop_all(self) -> None:
        """End everything: services drain side by side while doubles are killed, and last what they all need."""
        for child in self.children:
            child.wanted = False
            if child.end is not End.KILLED_LAST:
                send(child, signal.SIGTERM if child.end is End.DRAINED else signal.SIGKILL)
        try:
            async with asyncio.timeout(_DRAIN_TIME_S):
                await _all_ended([child for child in self.children if child.end is not End.KILLED_LAST])
        except TimeoutError:  # it has had its time
            pass
        for child in self.children:
            send(child, signal.SIGKILL)
        await _all_ended(self.children)


async def _all_ended(children: Iterable[Child]) -> None:
    await asyncio.gather(*(child.process.wait() for child in children if child.process is not None))


def send(child: Child, number: signal.Signals) -> None:
    """Send a signal to `child` and what it has started; nothing happens if it has ended."""
    if child.pid is None:
        return
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:  # it ended this moment
        return
