"""However `leadsman up` ends, no process, mount or file of it stays."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from leadsman.testing.sockets import free_ports
from leadsman.testing.waiting import wait_for

from .conftest import LEADSMAN, Up

pytestmark = pytest.mark.system


def test_ctrl_c_leaves_nothing(small_up: Up) -> None:
    """Exit code 0, and by then everything is gone."""
    assert len(small_up.processes()) >= 8
    small_up.process.send_signal(signal.SIGINT)
    assert small_up.ended() == 0, small_up.stderr()
    assert small_up.leftovers() == []


def test_a_killed_up_leaves_nothing(small_up: Up) -> None:
    """After SIGKILL the kernel ends the children and the janitor removes mounts and files."""
    small_up.process.send_signal(signal.SIGKILL)
    assert small_up.ended() == -signal.SIGKILL
    wait_for("everything is removed", lambda: small_up.leftovers() == [], within_s=10)


def test_without_its_janitor_ctrl_c_leaves_nothing_either(small_up: Up) -> None:
    """The out-of-memory killer may take the janitor; mounts, directory and state file are then removed by `up`."""
    janitor_pid = next(pid for pid in small_up.processes() if b"janitor.py" in _command_line(pid))
    os.kill(janitor_pid, signal.SIGKILL)
    small_up.process.send_signal(signal.SIGINT)
    assert small_up.ended() == 0, small_up.stderr()
    assert small_up.leftovers() == []


def test_a_broken_node_does_not_hinder_the_end(small_up: Up) -> None:
    """SIGTERM while a driver is frozen and a reader of a hung mount cannot be killed: still nothing stays."""
    small_up.leadsman("break", "node-1", "--how", "freeze")
    small_up.leadsman("break", "node-1", "--how", "hang-mount", code=None)
    wait_for("the faults are felt", lambda: small_up.states("node-1")["nfs.csi.k8s.io"].startswith("UNHEALTHY"))
    small_up.process.send_signal(signal.SIGTERM)
    assert small_up.ended() == 0, small_up.stderr()
    assert small_up.leftovers() == []


def test_the_crash_of_a_child_is_reported_and_ends_everything(small_up: Up) -> None:
    """The error names the process and shows the end of its log; exit code 1."""
    filter_pid = next(pid for pid in small_up.processes() if b"leadsman_filter" in _command_line(pid))
    os.kill(filter_pid, signal.SIGKILL)
    assert small_up.ended() == 1
    assert "error: filter was ended by SIGKILL" in small_up.stderr()
    assert "listening" in small_up.stderr()
    assert "Traceback" not in small_up.stderr()
    assert small_up.leftovers() == []


def test_a_port_taken_by_another_program_is_refused(tmp_path: Path) -> None:
    """One line, exit code 2, and no file is left."""
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        result = subprocess.run(
            [LEADSMAN, "up", "--port", str(port)],
            env=os.environ | {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr == (
        f"error: cannot listen on 127.0.0.1:{port}: it is taken by another program; choose another with --port\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_ends_the_pipeline() -> None:
    """`leadsman up | head -1` ends by itself at the next line, without a complaint, and leaves nothing."""
    run = Up(nodes=1, pipe_into="head -n 1")
    try:
        run.wait_ready()
        run.leadsman("schedule", "examples/pod.yaml", code=None)
        assert run.ended() == 0
        assert "error" not in run.stderr().lower()
        assert run.leftovers() == []
    finally:
        run.stop()


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
