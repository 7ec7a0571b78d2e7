"""`leadsman up`: run the whole pipeline on this machine, without a cluster."""

import asyncio
import errno
import socket
import sys
from pathlib import Path

import click

from leadsman.domain.clock import SystemClock
from leadsman.runtime.app import Shutdown, run_service
from leadsman.runtime.options import start_logs
from leadsman_cli.board import Board
from leadsman_cli.errors import CommandError
from leadsman_cli.pipeline import Pipeline, Plan
from leadsman_cli.runs import running
from leadsman_cli.supervisor import Supervisor
from leadsman_cli.view import Lines, on_terminal, show_live
from leadsman_cli.workspace import Workspace


@click.command()
@click.option("--nodes", type=click.IntRange(1, 50), default=3, help="How many nodes to pretend.")
@click.option("--port", type=click.IntRange(1, 65535), default=8099, help="Port of the gateway on 127.0.0.1.")
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="SchedulingPolicy document for filter and scorer; change it while they run and see it taken.",
)
@click.option("--no-tui", is_flag=True, help="Print one line per event instead of a live picture (as in a pipe).")
def up(nodes: int, port: int, policy: Path | None, *, no_tui: bool) -> None:
    """Run the whole pipeline on this machine, without a cluster.

    Starts NATS, a health-collector per node with a fake kubelet directory, a fake CSI driver and a storage backend
    of its own, and filter, scorer and gateway; then shows the state of every node and recent decisions. Try
    'leadsman break node-1' and 'leadsman schedule examples/pod.yaml' in a second terminal. Ctrl-C ends everything
    and leaves no process, mount or file behind.

    Progress goes to stderr. With --no-tui, or when the output is not a terminal, stdout gets one line when all is
    ready, with the gateway's URL, and then one line per change and decision.
    """
    _check_port(port)
    start_logs("error", "auto")
    plan = Plan(nodes, port, policy)
    with Workspace(port) as workspace:
        run_service(lambda shutdown: _main(shutdown, plan, workspace, live=not no_tui and on_terminal()))


def _check_port(port: int) -> None:
    if running(port):
        raise CommandError(f"a pipeline runs on port {port} already; give this one another --port")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            why = "it is taken by another program" if error.errno == errno.EADDRINUSE else error.strerror
            raise CommandError(f"cannot listen on 127.0.0.1:{port}: {why}; choose another with --port") from error


async def _main(shutdown: Shutdown, plan: Plan, workspace: Workspace, *, live: bool) -> None:
    clock = SystemClock()
    board = Board(clock)
    async with asyncio.TaskGroup() as group:
        supervisor = Supervisor(group, workspace)
        pipeline = Pipeline(plan, workspace, supervisor, board, _say)
        view = show_live(pipeline) if live else Lines(board, clock, shutdown).run(pipeline)
        tasks = [group.create_task(pipeline.run(), name="pipeline"), group.create_task(view, name="view")]
        try:
            await shutdown.wait()
        finally:
            for task in tasks:
                task.cancel()
            await supervisor.stop_all()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
