"""How to type a command of ours again, for hints that can be copied."""

import sys
from pathlib import Path

NAME = "leadsman"


def typed(arguments: str) -> str:
    """`leadsman ARGUMENTS`, with the program's path from here when it lies below, as `.venv/bin/leadsman` does."""
    program, here = Path(sys.argv[0]), Path.cwd()
    shown = program.relative_to(here) if program.name == NAME and program.is_relative_to(here) else NAME
    return f"{shown} {arguments}"
