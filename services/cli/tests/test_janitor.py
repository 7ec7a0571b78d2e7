"""Cleaning up after a pipeline whose owner has gone, however it went."""

import os
import subprocess
import sys
from pathlib import Path

from leadsman.testing.waiting import wait_for
from leadsman_cli import janitor
from leadsman_cli.janitor import MARKER, marked_processes, mounts_below


def test_the_end_of_its_owner_makes_the_janitor_kill_and_delete(tmp_path: Path) -> None:
    """End of file on its pipe is enough: marked processes, directory and state file disappear."""
    directory, state = tmp_path / "up", tmp_path / "runs" / "up-1.json"
    (directory / "node-1").mkdir(parents=True)
    state.parent.mkdir()
    state.write_text("{}")
    marked = subprocess.Popen(["sleep", "60"], env=os.environ | {MARKER: str(directory)})
    other = subprocess.Popen(["sleep", "60"], env=os.environ | {MARKER: f"{directory}-other"})
    wait_for("the process shows its marker", lambda: marked.pid in marked_processes(directory))
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
