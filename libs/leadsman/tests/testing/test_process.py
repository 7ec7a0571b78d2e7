"""Child processes end, whatever happens to those who started them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leadsman.testing.process import Process, ProcessEndedError, stop_all
from leadsman.testing.waiting import wait_for


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _written_pid(file: Path) -> int:
    return int(wait_for("a process id is written", lambda: file.exists() and file.read_text().strip()))


def _shell(script: str, tmp_path: Path) -> Process:
    return Process.start("shell", ["sh", "-c", script], tmp_path / "log")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_dies_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    """The kernel ends the child even when its parent had no chance to."""
    file = tmp_path / "pid"
    script = (
        "import subprocess, time\n"
        "from leadsman.testing.process import with_parent\n"
        f"subprocess.Popen(with_parent(['sh', '-c', 'echo $$ > {file}; exec sleep 60']), start_new_session=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        pid = _written_pid(file)
        parent.send_signal(number)
    wait_for("the child is gone", lambda: _gone(pid))


def test_children_of_a_process_end_with_it(tmp_path: Path) -> None:
    """A process that ends politely and leaves a child behind is cleaned up after."""
    file = tmp_path / "pid"
    process = _shell(
        f"sh -c 'trap : TERM; echo $$ > {file}; while :; do sleep 60; done' & trap 'exit 0' TERM; wait", tmp_path
    )
    child = _written_pid(file)
    process.stop()
    assert process.wait(0) == 0
    wait_for("the child is gone", lambda: _gone(child))


def test_a_frozen_process_ends_politely(tmp_path: Path) -> None:
    """SIGTERM reaches it, because it is resumed."""
    process = _shell("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done", tmp_path)
    process.wait_for("it runs", lambda: "up" in process.log_tail())
    process.send(signal.SIGSTOP)
    process.stop()
    assert process.wait(0) == 7


def test_a_deaf_process_is_killed_after_its_grace(tmp_path: Path) -> None:
    """Several of them share one grace."""
    deaf = [_shell("trap '' TERM; echo up; while :; do sleep 0.01; done", tmp_path) for _ in range(2)]
    wait_for("both run", lambda: deaf[0].log_tail().count("up") == 2)
    stop_all(deaf, grace_s=0.2)
    assert [process.wait(0) for process in deaf] == [-signal.SIGKILL] * 2


def test_waiting_for_a_process_that_has_ended_shows_its_log(tmp_path: Path) -> None:
    """At once, not at the deadline."""
    process = _shell("echo out of cheese >&2; exit 3", tmp_path)
    with pytest.raises(ProcessEndedError, match=r"(?s)shell ended with status 3.*out of cheese"):
        process.ports(tmp_path / "ports.json")
