"""Hints can be typed as they are shown."""

import sys
from pathlib import Path

import pytest

from leadsman_cli.invocation import typed


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (".venv/bin/leadsman", ".venv/bin/leadsman up"),
        ("/usr/local/bin/leadsman", "leadsman up"),
        (".venv/bin/pytest", "leadsman up"),
    ],
)
def test_a_hint_names_the_program_as_it_can_be_called_from_here(
    program: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout's own command by its path, an installed one by its name, and never another program."""
    monkeypatch.setattr(sys, "argv", [str(Path.cwd() / program)])
    assert typed("up") == shown
