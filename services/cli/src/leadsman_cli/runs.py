"""Which local pipelines run on this machine: one small state file per gateway port, and how to talk to its owner."""

import os
import socket
import tempfile
from pathlib import Path

import msgspec

from leadsman_cli.errors import CommandError
from leadsman_cli.invocation import typed

_ANSWER_TIME_S = 30.0  # healing waits until a restarted driver serves


class NodeState(msgspec.Struct, frozen=True):
    """One node of a pipeline, for people who want to look inside: its directory and processes by name."""

    directory: str
    processes: dict[str, int]


class RunState(msgspec.Struct, frozen=True):
    """What `leadsman up` leaves for the other commands; `control` is the path of its unix socket."""

    port: int
    pid: int
    directory: str
    control: str
    nats: str = ""
    processes: dict[str, int] = {}
    nodes: dict[str, NodeState] = {}


def runs_directory() -> Path:
    """Where state files live: the user's runtime directory, or a private folder in the temporary one."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "leadsman"
    return Path(tempfile.gettempdir()) / f"leadsman-{os.getuid()}"


def state_path(port: int) -> Path:
    """The state file of the pipeline whose gateway listens on `port`."""
    return runs_directory() / f"up-{port}.json"


def write_state(state: RunState) -> None:
    """Write or replace the state file in one step.

    Raises:
        CommandError: the folder belongs to another user, or cannot be written.
    """
    path = state_path(state.port)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if path.parent.stat().st_uid != os.getuid():
            raise CommandError(f"{path.parent} belongs to another user; set XDG_RUNTIME_DIR to a folder of your own")
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
        fresh.replace(path)
    except OSError as error:
        raise CommandError(
            f"cannot write {path}: {error.strerror}; set XDG_RUNTIME_DIR to a writable folder"
        ) from error


def running(port: int) -> RunState | None:
    """The pipeline on `port` if its owner still answers."""
    try:
        state = msgspec.json.decode(state_path(port).read_bytes(), type=RunState)
        with _connect(state.control):
            return state
    except (OSError, msgspec.DecodeError):
        return None


def find_run(port: int | None) -> RunState:
    """The pipeline that a command means: the one on `port`, or without it the only one that runs.

    Raises:
        CommandError: there is none, or several and no port was given.
    """
    if port is not None:
        found = running(port)
        if found is None:
            raise CommandError(f"no pipeline runs on port {port}; start one with: {typed(f'up --port {port}')}")
        return found
    ports = [
        int(text) for path in runs_directory().glob("up-*.json") if (text := path.stem.removeprefix("up-")).isdigit()
    ]
    found_all = [state for state in map(running, sorted(ports)) if state is not None]
    if not found_all:
        raise CommandError(f"no pipeline runs; start one in another terminal with: {typed('up')}")
    if len(found_all) > 1:
        listed = ", ".join(str(state.port) for state in found_all)
        raise CommandError(f"pipelines run on ports {listed}; say which one with --port")
    return found_all[0]


def ask(state: RunState, request: bytes) -> bytes:
    """Send one line to the owner of `state` and return its answer.

    Raises:
        CommandError: it does not answer.
    """
    try:
        with _connect(state.control) as connection:
            connection.sendall(request + b"\n")
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answer:
                return answer.read()
    except OSError as error:
        raise CommandError(f"the pipeline on port {state.port} does not answer ({error}); is it stopping?") from error


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_ANSWER_TIME_S)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection
