"""One node's storage, and the collector that watches it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leadsman.testing.process import Process
from leadsman.testing.sockets import free_ports
from leadsman_e2e.machine import Machine
from leadsman_e2e.setup import BACKENDS, DRIVER

START_TIMEOUT_SECONDS = 60.0

# Shorter than the shipped 10 s and 3 s, so that a scenario takes seconds; the thresholds stay as shipped.
PROBE_PERIOD = "500ms"
PROBE_DEADLINE = "400ms"

Launch = Callable[..., Process]
"""`launch(name, module, *arguments)` starts `python -m module` and sees to its end."""


@dataclass(slots=True)
class StorageNode:
    """A CSI driver that really serves a socket, a TCP backend per name, a `/proc` of its own, and the collector."""

    name: str
    folder: Path
    machine: Machine
    ports: Mapping[str, int]
    driver: Process
    launch: Launch
    backends: dict[str, Process] = field(default_factory=dict)

    @classmethod
    def start(cls, name: str, folder: Path, launch: Launch) -> StorageNode:
        """Start driver and backends. Raises NotInTimeError."""
        plugin = folder / "plugins" / "csi-nfsplugin"
        plugin.mkdir(parents=True)
        socket = plugin / "csi.sock"
        arguments = ("--socket", str(socket), "--name", DRIVER)
        driver = launch(f"{name}-driver", "leadsman.testing.csi_driver", *arguments)
        ports = dict(zip(BACKENDS, free_ports(len(BACKENDS)), strict=True))
        node = cls(name, folder, Machine(folder / "proc"), ports, driver, launch)
        for backend in BACKENDS:
            node.start_backend(backend)
        driver.wait_for(f"the CSI driver of {name} serves its socket", socket.exists, within_s=START_TIMEOUT_SECONDS)
        return node

    def start_backend(self, backend: str, delay_s: float = 0.0) -> None:
        """Serve a backend (again) for this node; it takes so long to answer."""
        arguments = ("--listen", f"127.0.0.1:{self.ports[backend]}", "--delay", str(delay_s))
        self.backends[backend] = self.launch(f"{self.name}-{backend}", "leadsman.testing.tcp_backend", *arguments)

    def stop_backend(self, backend: str) -> None:
        """End one storage backend as seen from this node: connections are refused."""
        self.backends[backend].kill()

    def freeze_driver(self) -> None:
        """Stop the CSI driver's process without ending it: its socket still accepts, nothing answers."""
        self.driver.send(signal.SIGSTOP)

    def thaw_driver(self) -> None:
        """Let the CSI driver go on."""
        self.driver.send(signal.SIGCONT)

    def start_collector(self, nats_url: str, port_file: Path, heartbeat: str, *options: str) -> Process:
        """Start the collector, which looks at all of the above."""
        config = self.folder / "collector.yaml"
        config.write_text(_collector_config(self.ports), encoding="utf-8")
        return self.launch(
            f"collector-{self.name}",
            "leadsman_health_collector",
            "run",
            *("--node-name", self.name, "--kubelet-dir", str(self.folder), "--proc-root", str(self.machine.proc)),
            *("--state-file", str(self.folder / "state.json"), "--config", str(config), "--heartbeat", heartbeat),
            *("--period", PROBE_PERIOD, "--probe-deadline", PROBE_DEADLINE),
            *("--admin-listen", "127.0.0.1:0", "--port-file", str(port_file), "--nats-url", nats_url),
            *options,
        )


def _collector_config(ports: Mapping[str, int]) -> str:
    endpoints = [
        {"driver": DRIVER, "backend": backend, "address": f"127.0.0.1:{port}"} for backend, port in ports.items()
    ]
    document = {
        "apiVersion": "leadsman.dev/v1alpha1",
        "kind": "HealthCollectorConfiguration",
        "endpoints": endpoints,
        "flapping": {"changes": 100},  # scenarios break and heal the same backends in quick succession
    }
    return json.dumps(document)  # JSON is YAML
