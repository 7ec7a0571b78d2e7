"""The one temporary directory of a local pipeline, and the janitor that removes it whatever happens to us."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from leadsman_cli.errors import CommandError
from leadsman_cli.janitor import clean
from leadsman_cli.runs import state_path

_JANITOR = Path(__file__).with_name("janitor.py")
_CLEAN_TIME_S = 15.0

_LONGEST_PATH = 56
"""Unix sockets lie up to 50 characters deeper, and the kernel allows 107 for the whole path."""


class Workspace:
    """Makes the directory on entry; on exit waits until the janitor has killed, unmounted and deleted everything.

    A janitor that was killed or failed is replaced by this process.
    """

    def __init__(self, port: int) -> None:
        self._state_file = state_path(port)

    def __enter__(self) -> Self:
        """Create the directory and start the janitor.

        Raises:
            CommandError: no directory with a short enough path can be made, or no process can be started.
        """
        self.directory = _short_directory()
        try:
            self._janitor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_JANITOR), str(self.directory), str(self._state_file)],
                stdin=subprocess.PIPE,
                cwd="/",
                start_new_session=True,  # Ctrl-C reaches the whole foreground group, and the janitor must outlive it
            )
        except OSError as error:
            self.directory.rmdir()
            raise CommandError(f"cannot start {sys.executable}: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the janitor work and wait for it; without a janitor do its work here."""
        assert self._janitor.stdin is not None  # noqa: S101 - opened with PIPE above
        self._janitor.stdin.close()
        try:
            code = self._janitor.wait(timeout=_CLEAN_TIME_S)
        except subprocess.TimeoutExpired:
            click.echo(f"warning: {self.directory} is still being removed in the background", err=True)
            return
        if code != 0:
            clean(self.directory, self._state_file)

    @property
    def control(self) -> Path:
        """Path of the unix socket on which `break`, `heal` and `status` ask."""
        return self.directory / "control.sock"

    def folder(self, *parts: str) -> Path:
        """A folder inside the workspace, made if it is missing."""
        path = self.directory.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path


def _short_directory() -> Path:
    try:
        directory = Path(tempfile.mkdtemp(prefix="leadsman-up-")).resolve()
    except OSError as error:
        raise CommandError(f"cannot make a temporary directory: {error}; set TMPDIR to a writable folder") from error
    if len(str(directory)) > _LONGEST_PATH:
        shutil.rmtree(directory)
        raise CommandError(
            f"{directory.parent} is too long a path for unix sockets inside it; set TMPDIR to a shorter one, like /tmp"
        )
    return directory
