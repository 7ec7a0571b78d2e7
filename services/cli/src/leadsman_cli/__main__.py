"""The `leadsman` command."""

import sys

import click

from leadsman.domain.errors import LeadsmanError
from leadsman.telemetry.version import version
from leadsman_cli.lazy import LazyCommands

_COMMANDS = {
    "up": ("leadsman_cli.commands.up", "up"),
    "break": ("leadsman_cli.commands.break_", "break_"),
    "heal": ("leadsman_cli.commands.heal", "heal"),
    "schedule": ("leadsman_cli.commands.schedule", "schedule"),
    "status": ("leadsman_cli.commands.status", "status"),
    "policy": ("leadsman_cli.commands.policy", "policy"),
    "simulate": ("leadsman_cli.commands.simulate", "simulate"),
    "config": ("leadsman_cli.commands.config", "config"),
    "provision": ("leadsman_cli.commands.provision", "provision"),
}


@click.group(
    cls=LazyCommands,
    places=_COMMANDS,
    context_settings={
        "auto_envvar_prefix": "LEADSMAN",
        "help_option_names": ["-h", "--help"],
        "show_default": True,
        "max_content_width": 110,
    },
)
@click.version_option(version(), prog_name="leadsman")
def cli() -> None:
    """Storage-aware scheduling for Kubernetes, on your machine: run the pipeline, break it, ask it.

    'provision' is for a real installation: it prepares its NATS. 'policy' and 'simulate' work with both.

    \b
    leadsman up                              in one terminal, then in another:
    leadsman schedule examples/pod.yaml      which node would the pod get?
    leadsman break node-3                    freeze the CSI driver of node-3
    leadsman schedule examples/pod.yaml      node-3 is avoided, and the reason is shown
    leadsman heal node-3
    """  # noqa: D301 - click wants the character \b here


def main() -> None:
    """Run the command; a mistake of the user ends with one line and exit code 2, or 1 where `up` fails."""
    try:
        cli()
    except LeadsmanError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
