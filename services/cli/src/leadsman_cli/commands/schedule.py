"""`leadsman schedule`: play kube-scheduler for one pod."""

import sys
from pathlib import Path

import click
import msgspec

from leadsman_cli.commands.options import output_option, port_option
from leadsman_cli.control import request_status
from leadsman_cli.errors import CommandError
from leadsman_cli.runs import find_run
from leadsman_cli.scheduling import Extender, read_pod
from leadsman_cli.scheduling import schedule as attempt_schedule
from leadsman_cli.tables import attempt_table, print_table


@click.command()
@click.argument("pod", type=click.Path(path_type=Path))
@output_option
@port_option
def schedule(pod: Path, output: str, port: int | None) -> None:
    """Schedule the Pod in the file POD as kube-scheduler would, against a running 'leadsman up'.

    Sends the pod and the names of all nodes to the gateway's filter, then the survivors to prioritize if there is
    more than one, and picks the best score (equal nodes by lot). Nothing is started.

    Exit code: 0 if a node was found, 1 if none fits, 2 for any error.
    """
    document = read_pod(pod)
    state = find_run(port)
    picture = request_status(state)
    if not picture.ready:
        raise CommandError(f"the pipeline on port {state.port} is still starting; try again in a few seconds")
    names = [node.name for node in picture.nodes]
    attempt = attempt_schedule(document, names, Extender(state.port))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(attempt)))
    else:
        print_table(attempt_table(attempt))
        click.echo(f"\n{attempt.pod}: {attempt.message}")
    if attempt.warning:
        click.echo(f"warning: {attempt.warning}", err=True)
    sys.exit(0 if attempt.chosen else 1)
