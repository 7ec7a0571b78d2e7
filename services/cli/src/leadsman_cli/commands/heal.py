"""`leadsman heal`: undo every `leadsman break` of a node."""

import click

from leadsman_cli.commands.options import port_option
from leadsman_cli.control import request
from leadsman_cli.messages import Request
from leadsman_cli.runs import find_run


@click.command()
@click.argument("node")
@port_option
def heal(node: str, port: int | None) -> None:
    """Undo everything that 'leadsman break' did to NODE: resume what is stopped, restart what was killed."""
    answer = request(find_run(port), Request("heal", node))
    click.echo("\n".join([*answer.did, *([f"expect: {answer.expect}"] if answer.expect else [])]))
