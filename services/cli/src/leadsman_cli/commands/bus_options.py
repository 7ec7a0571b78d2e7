"""Options of the commands that read a bus."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from leadsman.runtime.options import NatsUrlType
from leadsman_cli.commands.options import port_option

F = TypeVar("F", bound=Callable[..., Any])


def bus_options(command: F) -> F:
    """Add --nats-url, --nats-creds and --port: which bus to read, by default that of the running `leadsman up`."""
    for option in reversed(
        [
            click.option(
                "--nats-url",
                "nats_urls",
                multiple=True,
                type=NatsUrlType(),
                show_envvar=True,
                help="NATS server; several for a cluster.  [default: that of the running 'leadsman up']",
            ),
            click.option(
                "--nats-creds",
                type=click.Path(exists=True, dir_okay=False),
                show_envvar=True,
                help="NATS credentials file (.creds) of an account that may read.",
            ),
            port_option,
        ]
    ):
        command = option(command)
    return command
