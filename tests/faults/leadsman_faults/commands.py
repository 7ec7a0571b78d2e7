"""Programs of the machine (ip, nft, mount, mkfs) run to their end, with words when they fail."""

import asyncio
import subprocess
from collections.abc import Sequence

from leadsman_faults.errors import StageError

LIMIT_S = 60.0
"""None of them takes longer than a second on a machine that is not overloaded."""


async def run(*command: str, text: str = "") -> str:
    """Standard output of `command`, which gets `text` on its standard input.

    Raises:
        StageError: it is missing, fails, or does not end within LIMIT_S.
    """
    return await asyncio.to_thread(_run, command, text)


def _run(command: Sequence[str], text: str) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StageError(f"cannot run {' '.join(command)}: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise StageError(f"{' '.join(command)} ended with {done.returncode}: {said}; it was given: {text.strip()!r}")
    return done.stdout
