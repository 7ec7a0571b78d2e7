"""`leadsman provision`: make the streams that everything else needs, in the NATS of a real installation."""

import asyncio

import click

from leadsman.bus.streams import ensure_streams


@click.command()
@click.option(
    "--nats-url",
    "nats_urls",
    multiple=True,
    default=("nats://127.0.0.1:4222",),
    show_envvar=True,
    help="NATS server; give it several times for a cluster.",
)
@click.option(
    "--nats-creds",
    type=click.Path(exists=True, dir_okay=False),
    show_envvar=True,
    help="NATS credentials file (.creds) of an account with JetStream that may create streams.",
)
@click.option(
    "--replicas",
    type=click.Choice(["1", "3"]),
    default="1",
    show_envvar=True,
    help="Servers that keep a copy of each stream; 3 needs a NATS cluster of three.",
)
def provision(nats_urls: tuple[str, ...], nats_creds: str | None, replicas: str) -> None:
    """Create the JetStream streams that Leadsman uses, or bring them up to date.

    Run it once before the first start, and again after every upgrade: it changes only what differs. 'leadsman up'
    does not need it.

    Exit code: 0 if both streams are as they must be, 2 for any error.
    """
    done = asyncio.run(ensure_streams(nats_urls, replicas=int(replicas), creds_file=nats_creds))
    for stream, outcome in done.items():
        click.echo(f"{stream} {outcome}")
