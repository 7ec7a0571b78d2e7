"""`leadsman status`: the picture of a running pipeline, once."""

import click
import msgspec

from leadsman_cli.commands.options import output_option, port_option
from leadsman_cli.control import request_status
from leadsman_cli.runs import find_run
from leadsman_cli.tables import print_table, status_table


@click.command()
@output_option
@port_option
def status(output: str, port: int | None) -> None:
    """Show the storage state of every node of a running 'leadsman up'.

    Each cell is the state, its reason and how long it has been so. Volumes that are bad on a node by themselves stand
    below it, in their driver's column. REPORT is the age of the node's last report; where sidecars report as well, of
    the one that has been silent the longest.
    """
    picture = request_status(find_run(port))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(picture)))
    else:
        print_table(status_table(picture))
    if not picture.ready:
        click.echo("the pipeline is still starting", err=True)
