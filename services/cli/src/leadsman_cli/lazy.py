"""A group of commands that are imported when they are named."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyCommands(click.Group):
    """A group whose subcommands are imported when they are named, so that `leadsman heal` does not pay for `up`.

    `places` are the module and the name of each, in the order in which a newcomer needs them.
    """

    def __init__(self, *args: Any, places: Mapping[str, tuple[str, str]], **options: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(*args, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the places."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The subcommand called `cmd_name`, or None."""
        if cmd_name not in self._places:
            return None
        module, name = self._places[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command
