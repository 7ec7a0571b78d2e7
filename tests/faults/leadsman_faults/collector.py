"""A real collector as a process: its options, its configuration file, its metrics, and its sudden end."""

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import msgspec

from leadsman.domain.report import StorageKey
from leadsman.testing.process import Process
from leadsman.testing.waiting import eventually
from leadsman_faults.errors import StageError
from leadsman_faults.pace import Pace

NFS_PORT = 2049
_END_S = 10.0
_MODULE = ("-m", "leadsman_health_collector")


class Collector:
    """The collector of node `name`, which keeps its files in `directory`.

    Until it is started, `options`, endpoints and canaries may be added.
    """

    def __init__(self, name: str, directory: Path, kubelet: Path, pace: Pace) -> None:
        self.options: list[str] = []
        """Further options of its command line."""
        self._name = name
        self._directory = directory
        self._kubelet = kubelet
        self._pace = pace
        self._endpoints: list[dict[str, str]] = []
        self._canaries: list[dict[str, str]] = []
        self._process: Process | None = None
        self._command: list[str] = []

    def endpoint(self, key: StorageKey, host: str, port: int = NFS_PORT) -> None:
        """Have it look at an address, by its configuration file."""
        self._endpoints.append({"driver": key.driver, "backend": key.backend, "address": f"{host}:{port}"})

    def canary(self, key: StorageKey, path: Path) -> None:
        """Have it write its canaries to `path`."""
        entry = {"driver": key.driver, "path": str(path)}
        self._canaries.append(entry | ({"backend": key.backend} if key.backend else {}))

    @property
    def process(self) -> Process:
        """Its process.

        Raises:
            StageError: it has not been started.
        """
        if self._process is None:
            raise StageError(f"the collector of {self._name} has not been started")
        return self._process

    @property
    def processes(self) -> list[Process]:
        """Its process, if it has been started."""
        return [self._process] if self._process else []

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int:
        """Its process id; see `process`."""
        return self.process.pid

    def start(self, nats_url: str) -> None:
        """Write the configuration and start it."""
        config = self._directory / "collector.json"  # JSON is YAML
        config.write_bytes(msgspec.json.encode(self._configuration()))
        self._command = self._command_line(nats_url, config)
        self._launch()

    async def replace(self, nats_url: str, program: list[str]) -> None:
        """End it, and start it anew by way of `program`, a Python file and its arguments."""
        await asyncio.to_thread(self.process.stop)
        self._command = self._command_line(nats_url, self._directory / "collector.json", program)
        self._launch()

    async def restart(self) -> None:
        """Kill it as a crash would, and start it again."""
        # Not its process group, and without waiting for it: a worker that hangs must be left as it is.
        self.process.send(signal.SIGKILL)
        await eventually(f"{self._name} has ended", lambda: not self.alive, within_s=_END_S)
        self._launch()

    async def metrics(self) -> str:
        """Its /metrics page.

        Raises:
            StageError: it is not served.
        """
        return await asyncio.to_thread(self._metrics)

    def _launch(self) -> None:
        log = self._directory / "collector.log"
        self._process = Process.start(self._name, self._command, log, environ=_environment())

    def _configuration(self) -> dict[str, object]:
        hold, longest = self._pace.flap_hold_s, self._pace.flap_max_hold_s
        return {
            "apiVersion": "leadsman.dev/v1alpha1",
            "kind": "HealthCollectorConfiguration",
            "endpoints": self._endpoints,
            "canaries": self._canaries,
            "flapping": {"hold": f"{hold:g}s", "window": f"{2 * hold:g}s", "maxHold": f"{longest:g}s"},
        }

    def _command_line(self, nats_url: str, config: Path, program: Sequence[str] = _MODULE) -> list[str]:
        pace = self._pace
        return [
            *(sys.executable, "-P", *program, "run", "--node-name", self._name),
            *("--kubelet-dir", str(self._kubelet), "--config", str(config), "--nats-url", nats_url),
            *("--state-file", str(self._directory / "state.json"), "--port-file", str(self._port_file)),
            *("--period", _duration(pace.period_s), "--probe-deadline", _duration(pace.deadline_s)),
            *("--heartbeat", _duration(pace.heartbeat_s), "--admin-listen", "127.0.0.1:0"),
            *self.options,
        ]

    @property
    def _port_file(self) -> Path:
        return self._directory / "ports.json"

    def _metrics(self) -> str:
        try:
            port = json.loads(self._port_file.read_bytes())["admin"]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
                return str(page.read().decode())
        except (OSError, ValueError, KeyError) as error:
            raise StageError(f"{self._name} serves no metrics: {error}") from error


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _environment() -> dict[str, str]:
    """Ours without what would lead a collector to a cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("KUBERNETES_", "LEADSMAN_"))}
