"""`leadsman break`: make one node's storage fail for real."""

import click

from leadsman_cli.commands.options import port_option
from leadsman_cli.control import request
from leadsman_cli.messages import HOWS, How, Request
from leadsman_cli.runs import find_run


@click.command("break")
@click.argument("node")
@click.option("--how", type=click.Choice(HOWS), default="freeze", help="What to do to the node; see above.")
@port_option
def break_(node: str, how: How, port: int | None) -> None:
    """Break the storage of NODE in a running 'leadsman up', for example node-3.

    \b
    freeze      stop its CSI driver (SIGSTOP): it accepts but never answers
    kill        kill its CSI driver (SIGKILL): its socket refuses
    refuse      close the way to its storage backend: connections are refused
    hang-mount  hang its mounted volume: reads never return (needs root and /dev/fuse)
    """  # noqa: D301 - click wants the character \b here
    answer = request(find_run(port), Request("break", node, how))
    click.echo("\n".join([*answer.did, f"expect: {answer.expect}"]))
