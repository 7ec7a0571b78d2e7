"""The command line itself: help, and mistakes answered in one line."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from leadsman_cli.__main__ import cli

NAMES = ("up", "break", "heal", "schedule", "status", "policy", "simulate", "provision")


def _leadsman(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "leadsman_cli", *arguments],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_the_group_lists_every_command_with_its_purpose(tmp_path: Path) -> None:
    """A newcomer finds them all."""
    shown = _leadsman(tmp_path, "--help")
    assert shown.returncode == 0
    for name in NAMES:
        assert f"\n  {name} " in shown.stdout
    assert "\n  leadsman heal node-3\n" in shown.stdout


def _with_subcommands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _with_subcommands(found)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_has_help(name: str) -> None:
    """Nothing that can be typed is left without words."""
    top = cli.get_command(click.Context(cli), name)
    assert top is not None
    for command in _with_subcommands(top):
        assert command.help
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("break", "node-1"),
        ("heal", "node-1"),
        ("status",),
        ("schedule", "nothing-here.yaml"),
        ("up", "--nodes", "0"),
        ("simulate", "nothing-here.yaml"),
        ("policy", "check", "nothing-here.yaml"),
        ("policy", "facts", "node-1"),
        ("policy", "facts", "node-1", "--nats-url", "nats://user:secret@:1"),
        ("provision", "--nats-url", "nats://user:secret@127.0.0.1:1"),
        ("provision", "--nats-creds", "nothing-here.creds"),
        ("provision", "--replicas", "2"),
    ],
)
def test_a_mistake_is_answered_without_a_traceback(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """One error line and exit code 2."""
    result = _leadsman(tmp_path, *arguments)
    assert result.returncode == 2
    assert result.stderr.lower().splitlines()[-1].startswith("error: ")
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr
    assert result.stdout == ""
