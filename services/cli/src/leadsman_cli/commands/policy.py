"""`leadsman policy`: look a policy through, test it, and see what it may ask about nodes."""

import click

from leadsman_cli.lazy import LazyCommands

_COMMANDS = {
    "check": ("leadsman_cli.commands.policy_documents", "check"),
    "test": ("leadsman_cli.commands.policy_documents", "test"),
    "facts": ("leadsman_cli.commands.policy_facts", "facts"),
}


@click.group(cls=LazyCommands, places=_COMMANDS)
def policy() -> None:
    """Write, test and trust a SchedulingPolicy.

    \b
    leadsman policy check policy.yaml                    is it a policy, and does it mean what it seems to?
    leadsman policy test policy.yaml policy.test.yaml    does it do what it should?
    leadsman policy facts                                what may rules ask about a node?
    leadsman policy facts node-3                         and what is known of this one now?
    leadsman simulate pod.yaml --policy policy.yaml      what would it change in the running cluster?
    """  # noqa: D301 - click wants the character \b here
