"""Cleaning up after a pipeline whose owner has gone, however it went."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leadsman_cli import janitor, with_parent
from leadsman_cli.janitor import MARKER, marked_processes, mounts_below


def _until(look: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 10
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_the_end_of_its_owner_makes_the_janitor_kill_and_delete(tmp_path: Path) -> None:
    """End of file on its pipe is enough: marked processes, directory and state file disappear."""
    directory, state = tmp_path / "up", tmp_path / "runs" / "up-1.json"
    (directory / "node-1").mkdir(parents=True)
    state.parent.mkdir()
    state.write_text("{}")
    marked = subprocess.Popen(["sleep", "60"], env=os.environ | {MARKER: str(directory)})
    other = subprocess.Popen(["sleep", "60"], env=os.environ | {MARKER: f"{directory}-other"})
    _until(lambda: marked.pid in marked_processes(directory), "the process shows its marker")
    # A process that nobody waits for stays visible as a zombie, with an empty environment.
    subprocess.run(
        [sys.executable, "-I", "-S", janitor.__file__, str(directory), str(state)], input=b"", check=True, timeout=20
    )
    assert marked.wait(5) == -9
    assert not directory.exists()
    assert not state.parent.exists()
    assert other.poll() is None
    other.kill()
    other.wait()


def test_mounts_are_read_from_the_table_deepest_first(tmp_path: Path) -> None:
    """Only mounts inside the directory count, and octal escapes are undone."""
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 0 0:1 / /tmp/up rw - tmpfs tmpfs rw\n"
        "2 0 0:2 / /tmp/up/a rw - fuse.nfs4 x rw\n"
        "3 0 0:3 / /tmp/up/a/b\\040c rw - fuse.nfs4 x rw\n"
        "4 0 0:4 / /tmp/upper rw - tmpfs tmpfs rw\n"
    )
    assert mounts_below(Path("/tmp/up"), table) == [Path("/tmp/up/a/b c"), Path("/tmp/up/a")]


@pytest.mark.parametrize("number", ["KILL", "TERM"])
def test_a_child_dies_with_its_parent(tmp_path: Path, number: str) -> None:
    """The kernel ends the child even when its parent had no chance to."""
    pid_file = tmp_path / "pid"
    script = (
        "import os, subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-I', '-S', {with_parent.__file__!r}, str(os.getpid()), 'sh', '-c',"
        f" 'echo $$ > {pid_file}; exec sleep 60'], start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    _until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the child runs")
    child = int(pid_file.read_text())
    subprocess.run(["kill", f"-{number}", str(parent.pid)], check=True)
    parent.wait(5)
    _until(lambda: _gone(child), "the child is gone")
