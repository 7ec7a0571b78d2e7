"""Child processes that always end: on stop, at exit of Python, and when Python is killed."""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from leadsman.domain.errors import LeadsmanError
from leadsman.testing.waiting import wait_for

T = TypeVar("T")

_WITH_PARENT = Path(__file__).with_name("with_parent.py")
_LOG_LINE_CHARACTERS = 400

_running: set["Process"] = set()


class ProcessEndedError(LeadsmanError):
    """A child process did not start or ended by itself; the message has the end of its log."""


def with_parent(command: Sequence[str]) -> list[str]:
    """`command` as one that Linux kills when the *thread* that starts it ends: start it from one that lives on."""
    return [sys.executable, "-I", "-S", str(_WITH_PARENT), str(os.getpid()), *command]


def log_tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, very long ones cut."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join(line[:_LOG_LINE_CHARACTERS] for line in text.splitlines()[-lines:])


class Process:
    """One child process in a process group of its own, its output in a file."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @classmethod
    def start(cls, name: str, command: Sequence[str], log: Path, *, environ: Mapping[str, str] | None = None) -> Self:
        """Start `command`, appending stdout and stderr to `log`; `environ` replaces ours. See `with_parent`."""
        with log.open("ab") as output:
            popen = subprocess.Popen(
                with_parent(command),
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
        """Whether the process still runs (also when frozen)."""
        return self._popen.poll() is None

    def check_alive(self) -> None:
        """Raise ProcessEndedError, with the end of the log, when the process has ended."""
        if not self.alive:
            status = self._popen.returncode
            raise ProcessEndedError(
                f"{self.name} ended with status {status}; the end of {self.log}:\n{self.log_tail()}"
            )

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of the log."""
        return log_tail(self.log, lines)

    def wait_for(self, what: str, observe: Callable[[], T], accept: Callable[[T], bool] = bool, **limits: float) -> T:
        """`waiting.wait_for`, whose `within_s` and `every_s` are the limits.

        Raises:
            NotInTimeError: in vain.
            ProcessEndedError: the process has ended meanwhile.
        """

        def observe_alive() -> T:
            self.check_alive()
            return observe()

        return wait_for(what, observe_alive, accept, **limits)

    def ports(self, file: Path, **limits: float) -> dict[str, int]:
        """The ports that a service announces with `--port-file FILE`, by what they serve, once it does.

        Raises:
            NotInTimeError, ProcessEndedError: it does not.
        """
        self.wait_for(f"{self.name} listens", file.exists, bool, **limits)
        ports: dict[str, int] = json.loads(file.read_bytes())  # written atomically
        return ports

    def wait(self, within_s: float) -> int:
        """The exit status, once it has ended. Raises subprocess.TimeoutExpired."""
        return self._popen.wait(within_s)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process alone, if it still runs."""
        self._popen.send_signal(number)

    def request_stop(self) -> None:
        """Send SIGTERM and return at once, so that several processes can end side by side."""
        self._signal_group(signal.SIGTERM)
        self._signal_group(signal.SIGCONT)  # a frozen one cannot hear a polite request

    def kill(self) -> None:
        """End the process and its children at once, with SIGKILL, and wait for it."""
        self._signal_group(signal.SIGKILL)
        self._popen.wait()
        _running.discard(self)

    def stop(self, grace_s: float = 5.0) -> None:
        """End the process: SIGTERM, then after `grace_s` SIGKILL. Harmless when ended."""
        self.request_stop()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace_s)
        finally:
            # Always: children of a process that ended politely may still be in its group.
            self.kill()

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def stop_all(processes: Sequence[Process], grace_s: float = 5.0) -> None:
    """Stop several processes side by side, all within about `grace_s`.

    Each gets SIGTERM twice, which Kubernetes components and our services take as "now": a graceful end of the API
    server waits for its watchers, and nothing here needs it.
    """
    deadline = time.monotonic() + grace_s
    for process in processes:
        process.request_stop()
    for process in processes:
        process.stop(max(0.0, deadline - time.monotonic()))


@atexit.register
def _stop_leftovers() -> None:
    stop_all(list(_running), grace_s=1.0)
