"""Real drivers, backends and mounts as processes, and a probe that looks at them in real time."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc.aio
import pytest
from prometheus_client import CollectorRegistry

from leadsman.csi.v1 import csi_pb2_grpc
from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.testing import waiting
from leadsman.testing.csi_driver import Identity
from leadsman.testing.process import Process, stop_all
from leadsman.testing.sockets import accepts
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.metrics import ProbeMetrics
from leadsman_health_collector.probes.probe import Probe
from leadsman_health_collector.rounds import Rounds

PERIOD_S = 0.3
DEADLINE_S = 0.2
LIMIT_S = 10.0

Brief = tuple[State, Reason | None]


async def eventually(condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Poll until `condition` holds; fail with `what` otherwise."""
    await waiting.eventually(what, condition, within_s=limit_s, every_s=0.01)


class Watch:
    """One probe at work: its book, its metrics and how states came about."""

    def __init__(self, probe: Probe) -> None:
        self.registry = CollectorRegistry()
        self.metrics = ProbeMetrics(self.registry)
        self.book = HealthBook(SystemClock(), kinds=[probe.kind])
        self.history: list[tuple[StorageKey, Brief]] = []
        self._probe = probe

    def rounds(self) -> int:
        """Rounds that have ended."""
        return self.book.rounds(self._probe.kind)

    def statuses(self) -> dict[StorageKey, StorageStatus]:
        """Present statuses by key."""
        return {status.key: status for status in self.book.statuses}

    def brief(self, key: StorageKey) -> Brief | None:
        """State and reason of `key`."""
        status = self.statuses().get(key)
        return (status.state, status.reason) if status else None

    async def until(
        self, key: StorageKey, state: State, reason: Reason | None = None, limit_s: float = LIMIT_S
    ) -> None:
        """Wait until `key` is so."""
        await eventually(lambda: self.brief(key) == (state, reason), f"{key} {state} {reason}; {self.history}", limit_s)

    async def more_rounds(self, number: int) -> None:
        """Wait until `number` further rounds have ended."""
        goal = self.rounds() + number
        await eventually(lambda: self.rounds() >= goal, f"{number} more rounds")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Watch"]:
        """Hold rounds as long as the block lasts."""
        rounds = Rounds(
            self._probe,
            self.book,
            period_s=PERIOD_S,
            phase_s=0.0,
            clock=SystemClock(),
            metrics=self.metrics,
            on_news=self._note,
        )
        task = asyncio.create_task(rounds.run())
        try:
            yield self
            assert not task.done(), "the rounds have ended by themselves"
        finally:
            task.cancel()
            await asyncio.wait({task})

    def _note(self) -> None:
        if self.book.evaluate():
            self.history += [(key, (status.state, status.reason)) for key, status in self.statuses().items()]


class Double:
    """One test double, or a collector, as a process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.log = process.log
        self.send = process.send
        self.kill = process.kill

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for it to be ready."""

        def done() -> bool:
            self.process.check_alive()
            return condition()

        await eventually(done, what)


class Stage:
    """A short directory with a kubelet's folders, and the doubles that play in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubelet = directory / "kubelet"
        (self.kubelet / "plugins").mkdir(parents=True)
        self._processes: list[Process] = []

    def start(self, module: str, *arguments: str) -> Double:
        """Start `python -m module`; it ends with the test."""
        log = self.directory / f"{module.rpartition('.')[2]}-{len(self._processes)}.log"
        process = Process.start(module, [sys.executable, "-P", "-m", module, *arguments], log)
        self._processes.append(process)
        return Double(process)

    async def csi_driver(self, name: str, *arguments: str, folder: str = "csi-plugin") -> tuple[Double, Path]:
        """A CSI driver that serves."""
        path = self.kubelet / "plugins" / folder / "csi.sock"
        double = self.start("leadsman.testing.csi_driver", "--socket", str(path), "--name", name, *arguments)
        await double.until(lambda: accepts(str(path)), f"{name} serves")
        return double, path

    @contextlib.asynccontextmanager
    async def identity(self, name: str, folder: str, **traits) -> AsyncIterator[None]:
        """A CSI driver in this process: real gRPC on a real socket, for what needs no process to suffer."""
        path = self.kubelet / "plugins" / folder / "csi.sock"
        path.parent.mkdir()
        server = grpc.aio.server()
        identity = Identity(name, **{"ready": None, "error": None, "delay_s": 0.0, **traits})
        csi_pb2_grpc.add_IdentityServicer_to_server(identity, server)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(grace=0)

    async def tcp_backend(self, port: int = 0) -> tuple[Double, int]:
        """A backend that accepts, and its port."""
        double = self.start("leadsman.testing.tcp_backend", "--listen", f"127.0.0.1:{port}")
        await double.until(lambda: "listening" in double.log.read_text(), "the backend listens")
        return double, int(double.log.read_text().strip().rpartition(":")[2])

    async def fuse_mount(self, point: Path, source: str, *arguments: str) -> Double:
        """A mounted FUSE filesystem."""
        options = ("--mountpoint", str(point), "--source", source, "--end-with-parent")
        double = self.start("leadsman.testing.fuse_mount", *options, *arguments)
        await double.until(lambda: f" {point} " in Path("/proc/self/mountinfo").read_text(), "it is mounted")
        return double

    def close(self) -> None:
        """End everything and unmount; a mount that hangs is never touched."""
        stop_all(self._processes)
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            if f" {self.directory}/" in line:
                subprocess.run(["umount", "-l", line.split()[4]], check=True)
        shutil.rmtree(self.directory)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Unix sockets need a path of less than 108 bytes, which pytest's own directories can exceed."""
    stage = Stage(Path(tempfile.mkdtemp(prefix="lmc-")))
    yield stage
    stage.close()


@pytest.fixture
def can_mount() -> None:
    """Skip where FUSE cannot be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a FUSE filesystem needs root")
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        pytest.skip(f"/dev/fuse cannot be used: {error.strerror}")


@pytest.fixture
def watch() -> type[Watch]:
    """See `Watch`."""
    return Watch


@pytest.fixture
def until() -> Callable[..., object]:
    """See `eventually`."""
    return eventually
