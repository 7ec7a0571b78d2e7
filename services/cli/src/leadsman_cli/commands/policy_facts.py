"""`leadsman policy facts`: what rules may ask about nodes, and what is known of one."""

import click

from leadsman.runtime.options import start_logs
from leadsman_cli.cluster import bus_settings, read_cluster
from leadsman_cli.commands.bus_options import bus_options
from leadsman_cli.node_view import ages_line, fact_values_table, labels_table, picture_of, storages_table
from leadsman_cli.policy_tables import as_text, facts_document, facts_table
from leadsman_cli.tables import print_table


@click.command()
@click.argument("node", required=False)
@bus_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    help="Columns for people, or JSON or YAML for programs.",
)
def facts(node: str | None, nats_urls: tuple[str, ...], nats_creds: str | None, port: int | None, output: str) -> None:
    """Show the facts that rules may ask about; with NODE what is known of that node now.

    AGE is how old a fact is when it is renewed, in periods of the collector (--period, 10s as shipped). Of a NODE the
    last reports are read from NATS; what is not known there decides no rule.

    Exit code: 0, or 2 for any error, such as a node that has never reported.
    """
    if node is None:
        if output == "table":
            print_table(facts_table())
        else:
            click.echo(as_text(facts_document(), output))
        return
    start_logs("error", "auto")
    picture = picture_of(node, read_cluster(bus_settings(nats_urls, nats_creds, port)).reports)
    if output != "table":
        click.echo(as_text(picture, output))
        return
    click.echo(ages_line(picture))
    for table in (fact_values_table(picture), labels_table(picture), storages_table(picture)):
        if table.row_count:
            click.echo()
            print_table(table)
