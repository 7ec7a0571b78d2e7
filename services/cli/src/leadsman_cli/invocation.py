"""How to type a command of ours again, for hints that can be copied."""

import sys
from pathlib import Path


def typed(arguments: str) -> str:
    """`leadsman ARGUMENTS`, with the program's path from here when it lies below, as `.venv/bin/leadsman` does."""
    program = Path(sys.argv[0])
    here = Path.cwd()
    return f"{program.relative_to(here) if program.is_relative_to(here) else 'leadsman'} {arguments}"
