"""What `leadsman up` shows while it runs: a live picture on a terminal, else one line per event."""

import asyncio
import os
import sys

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from leadsman.domain.clock import Clock
from leadsman.runtime.app import Shutdown
from leadsman_cli.board import Board, Change
from leadsman_cli.invocation import typed
from leadsman_cli.messages import DecisionView
from leadsman_cli.pipeline import Pipeline
from leadsman_cli.tables import clock_time, decision_words, decisions_table, status_table

_REFRESH_S = 0.25


def on_terminal() -> bool:
    """Whether a live picture can be drawn."""
    return sys.stdout.isatty()


async def show_live(pipeline: Pipeline) -> None:
    """Draw the picture four times a second, for ever, once the pipeline is ready."""
    await pipeline.ready.wait()
    with Live(_picture(pipeline), console=Console(), auto_refresh=False) as live:
        while True:
            live.update(_picture(pipeline), refresh=True)
            await asyncio.sleep(_REFRESH_S)


def _picture(pipeline: Pipeline) -> Group:
    status = pipeline.status()
    title = Text.assemble(("Leadsman ", "bold"), (status.gateway, "cyan"), f"  {len(status.nodes)} nodes")
    hints = Text(
        "In a second terminal:\n"
        f"  {typed('schedule examples/pod.yaml')}\n  {typed('break node-3')}\n  {typed('heal node-3')}\n"
        "Ctrl-C ends everything.",
        "dim",
    )
    decisions = decisions_table(status.decisions) if status.decisions else Text("no decisions yet", "dim")
    return Group(title, Text(), status_table(status), Text(), decisions, Text(), hints)


class Lines:
    """Prints one line per change of state and per decision, for pipes and logs.

    The first line has the gateway's URL and comes when everything is ready; what was seen before follows it. A
    reader that has gone ends the pipeline.
    """

    def __init__(self, board: Board, clock: Clock, shutdown: Shutdown) -> None:
        self._board = board
        self._clock = clock
        self._shutdown = shutdown
        self._held: list[str] | None = []
        board.on_change = self._on_change
        board.on_decision = self._on_decision

    async def run(self, pipeline: Pipeline) -> None:
        """Say that the pipeline is ready, when it is; then events follow by themselves."""
        await pipeline.ready.wait()
        held, self._held = self._held or [], None
        self._print(f"ready: {pipeline.healthy} nodes healthy, gateway on {pipeline.gateway_url}")
        for line in held:
            self._print(line)

    def _on_change(self, change: Change) -> None:
        words = " ".join(filter(None, (change.state or "no longer bad", change.reason)))
        before = f" (was {change.before})" if change.before else ""
        detail = f": {change.message}" if change.message else ""
        self._emit(f"{clock_time(self._clock.epoch())} {change.node} {change.name} {words}{before}{detail}")

    def _on_decision(self, decision: DecisionView) -> None:
        self._emit(f"{clock_time(decision.at)} {decision.verb} {decision.pod}: {decision_words(decision)}")

    def _emit(self, line: str) -> None:
        if self._held is None:
            self._print(line)
        else:
            self._held.append(line)

    def _print(self, line: str) -> None:
        try:
            click.echo(line)
        except BrokenPipeError:
            _discard_output()
            self._shutdown.request()


def _discard_output() -> None:
    """Send what is still buffered nowhere, or the interpreter would complain about the pipe once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
