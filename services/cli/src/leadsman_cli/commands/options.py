"""Options and arguments that several subcommands share."""

import click

port_option = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Gateway port of the pipeline to talk to; needed only if several run.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    help="Columns for people, or JSON for programs.",
)
