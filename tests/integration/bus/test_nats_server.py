import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from leadsman.testing.nats import NatsServer, NatsServerError

pytestmark = pytest.mark.integration


def until(condition, within: float = 5.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stopped_server_leaves_neither_process_nor_file(monkeypatch, tmp_path):
    """Stop ends the process and removes its directory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with NatsServer() as server:
        pid = server.pid
        assert list(tmp_path.iterdir())
    assert pid is not None
    assert not psutil.pid_exists(pid)
    assert not list(tmp_path.iterdir())


def test_a_paused_server_can_be_stopped_too():
    """A test that fails while the server is paused still cleans up quickly."""
    started = time.monotonic()
    with NatsServer() as server:
        server.pause()
    assert time.monotonic() - started < 3


def test_the_server_dies_with_its_parent(tmp_path):
    """A killed parent runs no clean-up; the kernel does it."""
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from leadsman.testing.nats import NatsServer\n"
        f"server = NatsServer(directory=Path({str(tmp_path)!r}))\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
        os.kill(parent.pid, signal.SIGKILL)
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_restart_keeps_the_port():
    """Clients find the server where it was."""
    with NatsServer() as server:
        url, pid = server.url, server.pid
        server.restart()
        assert (server.url, server.pid != pid, server.alive) == (url, True, True)


def test_a_server_that_cannot_start_says_why():
    """The error carries the end of the server's own log."""
    with pytest.raises(NatsServerError, match=r"(?s)ended while starting.*Parse error"):
        NatsServer(config="nonsense: { broken").start()
