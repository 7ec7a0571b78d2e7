"""Leadsman's own services as processes: NATS, a collector and a CSI driver for every node, filter, scorer, gateway."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadsman.bus.streams import ensure_streams
from leadsman.testing.nats import NatsServer
from leadsman.testing.pages import page
from leadsman.testing.process import Process, stop_all
from leadsman.testing.sockets import free_ports
from leadsman_e2e.reports import ReportWatch

NAMESPACE = "leadsman-system"
DRIVER = "nfs.csi.k8s.io"
BACKENDS = ("nfs-a", "nfs-b")
START_TIMEOUT_SECONDS = 60.0

# Shorter than the shipped 10 s and 3 s, so that a scenario takes seconds; the thresholds stay as shipped.
PROBE_PERIOD = "500ms"
PROBE_DEADLINE = "400ms"


@dataclass(slots=True)
class StorageNode:
    """One node's storage: a CSI driver that really serves a socket, a TCP backend per name, and the collector."""

    name: str
    folder: Path
    ports: Mapping[str, int]
    driver: Process
    backends: dict[str, Process] = field(default_factory=dict)
    collector: Process | None = None

    def freeze_driver(self) -> None:
        """Stop the CSI driver's process without ending it: its socket still accepts, nothing answers."""
        self.driver.send(signal.SIGSTOP)

    def thaw_driver(self) -> None:
        """Let the CSI driver go on."""
        self.driver.send(signal.SIGCONT)


class Pipeline:
    """Everything between the disks and kube-scheduler. Make one with `start`; end it with `stop` or a `with` block."""

    def __init__(self, workdir: Path, kubeconfig: Path, nodes: Sequence[str]) -> None:
        self.workdir = workdir
        self.nodes: dict[str, StorageNode] = {}
        (self.gateway_port,) = free_ports(1)
        self._nats = NatsServer(directory=workdir / "nats")
        self._kubeconfig = kubeconfig
        self._names = nodes
        self._processes: list[Process] = []
        self._gateway: Process | None = None
        self._hops: dict[str, int] = {}

    @classmethod
    def start(cls, workdir: Path, kubeconfig: Path, nodes: Sequence[str]) -> Pipeline:
        """Start all processes and wait until every node is seen healthy. Raises NotInTimeError."""
        pipeline = cls(workdir, kubeconfig, nodes)
        try:
            pipeline._start()
        except BaseException:
            pipeline.stop()
            raise
        return pipeline

    @property
    def url(self) -> str:
        """What `urlPrefix` in the scheduler's configuration must be."""
        return f"http://127.0.0.1:{self.gateway_port}"

    def kill_gateway(self) -> None:
        """End the gateway at once."""
        assert self._gateway is not None
        self._gateway.kill()

    def start_gateway(self) -> None:
        """Start the gateway (again, on the same port) and wait until it is ready."""
        self._gateway = self._launch(
            "gateway",
            "leadsman_gateway",
            *("--listen", f"127.0.0.1:{self.gateway_port}"),
            *(word for name, port in self._hops.items() for word in (f"--{name}", f"127.0.0.1:{port}")),
            *("--kubeconfig", str(self._kubeconfig), "--namespace", NAMESPACE, "--nats-url", self._nats.url),
        )
        self._await_ready(self._gateway, self.gateway_port)

    def calls(self, verb: str) -> float:
        """How many calls of `verb` the gateway has answered since it started."""
        pattern = re.compile(rf'^leadsman_gateway_requests_total{{[^}}]*verb="{verb}"[^}}]*}} (\S+)$', re.MULTILINE)
        return sum(float(count) for count in pattern.findall(self.metrics()))

    def metrics(self) -> str:
        """The gateway's metrics."""
        return page(self.gateway_port, "/metrics")[1]

    def ask(self, verb: str, pod: Mapping[str, Any]) -> Any:
        """Call the gateway as kube-scheduler would, with all nodes as candidates."""
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(self.nodes)}).encode()
        request = urllib.request.Request(f"{self.url}/{verb}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def rejected(self, pod: Mapping[str, Any]) -> dict[str, str]:
        """Node to reason text for `pod`, now."""
        answer = self.ask("filter", pod)
        return dict(answer["FailedAndUnresolvableNodes"] or {})

    def watch_reports(self, node: str) -> ReportWatch:
        """Listen to what the collector of `node` publishes."""
        return ReportWatch(self._nats.url, node)

    def stop_backend(self, node: str, backend: str) -> None:
        """End one storage backend as seen from one node: connections are refused."""
        self.nodes[node].backends[backend].kill()

    def start_backend(self, node: str, backend: str) -> None:
        """Serve a backend (again) for one node."""
        place = self.nodes[node]
        address = f"127.0.0.1:{place.ports[backend]}"
        place.backends[backend] = self._launch(f"{node}-{backend}", "leadsman.testing.tcp_backend", "--listen", address)

    def stop(self) -> None:
        """End all processes. Harmless when already stopped."""
        stop_all(list(reversed(self._processes)))
        self._processes.clear()
        self._nats.stop()

    def _start(self) -> None:
        self.workdir.mkdir(parents=True, exist_ok=True)
        self._nats.start()
        asyncio.run(ensure_streams((self._nats.url,)))
        for name in self._names:
            self._start_node(name)
        hops = {name: self._start_hop(name) for name in ("filter", "scorer")}
        self._hops = {name: self._ports(process)["grpc"] for name, process in hops.items()}
        collectors = [node.collector for node in self.nodes.values() if node.collector]
        for process in (*hops.values(), *collectors):
            self._await_ready(process, self._ports(process)["admin"])
        self.start_gateway()

    def _start_hop(self, name: str) -> Process:
        return self._launch(
            name,
            f"leadsman_{name}",
            *("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--stream-settle", "0s"),
            *("--nats-url", self._nats.url, "--port-file", str(self.workdir / f"{name}.json")),
        )

    def _start_node(self, name: str) -> None:
        folder = self.workdir / name
        plugin = folder / "plugins" / "csi-nfsplugin"
        plugin.mkdir(parents=True)
        ports = dict(zip(BACKENDS, free_ports(len(BACKENDS)), strict=True))
        socket = plugin / "csi.sock"
        driver = self._launch(
            f"{name}-driver", "leadsman.testing.csi_driver", "--socket", str(socket), "--name", DRIVER
        )
        node = self.nodes[name] = StorageNode(name, folder, ports, driver)
        for backend in BACKENDS:
            self.start_backend(name, backend)
        driver.wait_for(f"the CSI driver of {name} serves its socket", socket.exists, within_s=START_TIMEOUT_SECONDS)
        config = folder / "collector.yaml"
        config.write_text(_collector_config(ports))
        node.collector = self._launch(
            f"collector-{name}",
            "leadsman_health_collector",
            "run",
            *("--node-name", name, "--kubelet-dir", str(folder), "--state-file", str(folder / "state.json")),
            *("--config", str(config), "--period", PROBE_PERIOD, "--probe-deadline", PROBE_DEADLINE),
            *("--admin-listen", "127.0.0.1:0", "--port-file", str(self.workdir / f"collector-{name}.json")),
            *("--nats-url", self._nats.url),
        )

    def _launch(self, name: str, module: str, *arguments: str) -> Process:
        process = Process.start(name, [sys.executable, "-m", module, *arguments], self.workdir / f"{name}.log")
        self._processes.append(process)
        return process

    def _ports(self, process: Process) -> dict[str, int]:
        return process.ports(self.workdir / f"{process.name}.json", within_s=START_TIMEOUT_SECONDS)

    @staticmethod
    def _await_ready(process: Process, port: int) -> None:
        process.wait_for(
            f"{process.name} is ready (log: {process.log})",
            lambda: page(port, "/readyz?verbose"),
            lambda answer: answer[0] == 200,
            within_s=START_TIMEOUT_SECONDS,
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
