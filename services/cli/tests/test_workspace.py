"""The temporary directory of a pipeline goes whatever happens to its janitor."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.testing.waiting import wait_for
from leadsman_cli import workspace as workspace_module
from leadsman_cli.janitor import MARKER, marked_processes
from leadsman_cli.runs import state_path
from leadsman_cli.workspace import Workspace


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@contextlib.contextmanager
def _a_pipeline_in(workspace: Workspace) -> Iterator[subprocess.Popen[bytes]]:
    """A marked process, a folder and a state file, as `leadsman up` leaves them; the process ends with the block."""
    state = state_path(8099)
    state.parent.mkdir(exist_ok=True)
    state.write_text("{}")
    workspace.folder("node-1", "pods")
    child = subprocess.Popen(["sleep", "60"], env=os.environ | {MARKER: str(workspace.directory)})
    try:
        wait_for("the process shows its marker", lambda: child.pid in marked_processes(workspace.directory))
        yield child
    finally:
        child.kill()
        child.wait()
        shutil.rmtree(workspace.directory, ignore_errors=True)


def _check_gone(workspace: Workspace) -> None:
    assert not workspace.directory.exists()
    assert not state_path(8099).parent.exists()


def test_a_killed_janitor_is_replaced_at_the_end() -> None:
    """Processes, directory and state file are removed by the owner itself."""
    workspace = Workspace(8099)
    workspace.__enter__()
    with _a_pipeline_in(workspace) as child:
        os.kill(_janitor_of(workspace), signal.SIGKILL)
        workspace.__exit__(None, None, None)
        assert child.wait(5) == -signal.SIGKILL
        _check_gone(workspace)


def test_a_janitor_that_fails_is_replaced_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code tells."""
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; sys.stdin.read(); sys.exit(1)")
    monkeypatch.setattr(workspace_module, "_JANITOR", broken)
    workspace = Workspace(8099)
    workspace.__enter__()
    with _a_pipeline_in(workspace) as child:
        workspace.__exit__(None, None, None)
        assert child.wait(5) == -signal.SIGKILL
        _check_gone(workspace)


def _janitor_of(workspace: Workspace) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0] == sys.executable.encode() and os.fsencode(workspace.directory) in words:
                return int(entry.name)
    raise AssertionError("no janitor")
