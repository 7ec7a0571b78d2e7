"""Child processes that always end: on stop, at exit of Python, and when Python is killed."""

from __future__ import annotations

import atexit
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

WITH_PARENT = Path(__file__).with_name("with_parent.py")
STOP_GRACE_SECONDS = 5.0
LOG_TAIL_LINES = 15

# Below the range the kernel hands out to outgoing connections: a port picked there could be taken
# by any client before the server that it is meant for listens.
PORT_RANGE = range(20000, 32000)

_running: set[Process] = set()


class ProcessEndedError(Exception):
    """A child process did not start or ended by itself; the message has the end of its log."""


class Process:
    """One child process in a process group of its own, its output in a file."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> Process:
        """Start `command`, appending stdout and stderr to `log`; `environ` replaces ours."""
        wrapped = [sys.executable, "-I", "-S", str(WITH_PARENT), str(os.getpid()), *command]
        with log.open("ab") as output:
            popen = subprocess.Popen(
                wrapped,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
                start_new_session=True,
            )
        process = cls(name, popen, log)
        _running.add(process)
        return process

    @property
    def pid(self) -> int:
        """The process id; also the id of its process group."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._popen.poll() is None

    def check_alive(self) -> None:
        """Raise ProcessEndedError, with the end of the log, when the process has ended."""
        status = self._popen.poll()
        if status is not None:
            raise ProcessEndedError(
                f"{self.name} ended with status {status}; the end of {self.log}:\n{self.log_tail()}"
            )

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of the log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def request_stop(self) -> None:
        """Send SIGTERM and return at once, so that several processes can end side by side."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process and its children at once, with SIGKILL, and wait for it."""
        self._signal(signal.SIGKILL)
        self._popen.wait()
        _running.discard(self)

    def stop(self, grace: float = STOP_GRACE_SECONDS) -> None:
        """End the process: SIGTERM, then after `grace` seconds SIGKILL. Harmless when ended."""
        self.request_stop()
        try:
            self._popen.wait(timeout=grace)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Always: children of a process that ended politely may still be in its group.
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return


def stop_all(processes: Sequence[Process], grace: float = STOP_GRACE_SECONDS) -> None:
    """Stop several processes side by side, all within about `grace` seconds.

    Each gets SIGTERM twice, which Kubernetes components take as "now": a graceful end of the API
    server waits for its watchers, and nothing here needs it.
    """
    deadline = time.monotonic() + grace
    for process in processes:
        process.request_stop()
    for process in processes:
        process.stop(max(0.0, deadline - time.monotonic()))


def free_ports(count: int) -> list[int]:
    """Distinct loopback TCP ports nobody listens on. Raises OSError when there are too few."""
    free: list[int] = []
    for port in random.sample(PORT_RANGE, k=200):
        if len(free) == count:
            return free
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            free.append(port)
    raise OSError(f"fewer than {count} free ports among 200 tried in {PORT_RANGE}")


@atexit.register
def _stop_leftovers() -> None:
    stop_all(list(_running), grace=1.0)
