"""A real `leadsman up` in a process of its own, and a second terminal beside it."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leadsman.testing.sockets import free_ports
from leadsman.testing.waiting import wait_for
from leadsman_cli.control import request_status
from leadsman_cli.messages import Status
from leadsman_cli.runs import RunState

REPOSITORY = Path(__file__).parents[2]
LEADSMAN = str(Path(sys.executable).with_name("leadsman"))
MARKER = "SYSTEM_TEST_RUN"


class Up:
    """One `leadsman up`; every process below it inherits a marker by which it can be found."""

    def __init__(self, nodes: int, pipe_into: str = "") -> None:
        directory = Path(tempfile.mkdtemp(prefix="lm-"))  # pytest's own are too long for unix sockets in them
        (self.port,) = free_ports(1)
        self._directory = directory
        self.temporary = directory / "t"
        self.runtime = directory / "r"
        self.temporary.mkdir()
        self.runtime.mkdir()
        self._mark = f"{MARKER}={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        self._environ = os.environ | {name: value, "TMPDIR": str(self.temporary), "XDG_RUNTIME_DIR": str(self.runtime)}
        command = f"{LEADSMAN} up --no-tui --nodes {nodes} --port {self.port}"
        self.process = subprocess.Popen(
            ["bash", "-c", f"set -o pipefail; {command} | {pipe_into}"] if pipe_into else command.split(),
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.first_line = ""
        self._stderr: list[str | None] = []
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines.put), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self._stderr.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Any, take: Callable[[str | None], None]) -> None:
        with stream:
            for line in stream:
                take(line.rstrip("\n"))
        take(None)

    def line(self, within_s: float) -> str:
        """The next line of stdout."""
        try:
            line = self.lines.get(timeout=within_s)
        except queue.Empty:
            pytest.fail(f"no line within {within_s:g} s; stderr:\n{self.stderr()}")
        return line if line is not None else pytest.fail(f"it has ended; stderr:\n{self.stderr()}")

    def new_lines(self) -> list[str]:
        """The lines of stdout that have come since the last look."""
        found = []
        while not self.lines.empty():
            found.append(self.lines.get() or "(end)")
        return found

    def stderr(self) -> str:
        """What it has written to stderr so far."""
        return "\n".join(line for line in self._stderr if line is not None)

    def wait_ready(self) -> None:
        """Wait for its first line, which comes when everything is healthy."""
        self.first_line = self.line(45)

    def ended(self, within_s: float = 20) -> int:
        """Its exit code, once it has ended and its output is read."""
        code = self.process.wait(within_s)
        for reader in self._readers:
            reader.join(10)
        return code

    def leadsman(self, *arguments: str, code: int | None = 0) -> str:
        """Run another command in a second terminal and return its stdout; `code` None accepts any exit code."""
        result = subprocess.run(
            [LEADSMAN, *arguments],
            env=self._environ,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert "Traceback" not in result.stderr
        if code is not None:
            assert result.returncode == code, result.stdout + result.stderr
        return result.stdout if code in {0, 1} else result.stdout + result.stderr

    def status(self) -> Status:
        """What `leadsman status` shows, asked for in the same way but without a process for each look."""
        control = next(self.temporary.glob("*/control.sock"))
        return request_status(RunState(self.port, self.process.pid, str(control.parent), str(control)))

    def states(self, node: str) -> dict[str, str]:
        """State and reason of each storage of `node`, for example `UNHEALTHY DriverNotResponding`."""
        found = next(item for item in self.status().nodes if item.name == node)
        return {
            "/".join(filter(None, (storage.driver, storage.backend))): f"{storage.state} {storage.reason}".rstrip()
            for storage in found.storages
        }

    def healthy(self, node: str) -> bool:
        """Whether everything on `node` is."""
        return set(self.states(node).values()) == {"HEALTHY"}

    def heal_all(self) -> None:
        """Mend every broken node and wait until it is healthy."""
        broken = [node.name for node in self.status().nodes if node.broken_by]
        for node in broken:
            self.leadsman("heal", node)
        for node in broken:
            wait_for(f"{node} is healed", partial(self.healthy, node))

    def schedule(self, pod: str = "examples/pod.yaml", code: int | None = 0) -> dict[str, Any]:
        """`leadsman schedule -o json`."""
        shown: dict[str, Any] = json.loads(self.leadsman("schedule", pod, "-o", "json", code=code))
        return shown

    def processes(self) -> list[int]:
        """Ids of the living processes that descend from this run."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environ = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if self._mark.encode() in environ.split(b"\0"):
                    found.append(int(entry.name))
        return found

    def leftovers(self) -> list[str]:
        """Processes, mounts and files that should not exist once it has ended."""
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [
            *(f"process {pid}" for pid in self.processes()),
            *(f"mount {point}" for point in mounts if point.startswith(str(self.temporary))),
            *(f"file {path}" for folder in (self.temporary, self.runtime) for path in folder.iterdir()),
        ]

    def stop(self) -> None:
        """End it as Ctrl-C does, whatever state it is in, and then everything that is left."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.ended()
        finally:
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self._directory)


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """Three healthy nodes, shared by a module; every test leaves them healed."""
    yield from _ready(Up(nodes=3))


@pytest.fixture
def small_up() -> Iterator[Up]:
    """One node, for tests that end the pipeline."""
    yield from _ready(Up(nodes=1))


def _ready(run: Up) -> Iterator[Up]:
    try:
        run.wait_ready()
        yield run
    finally:
        run.stop()
