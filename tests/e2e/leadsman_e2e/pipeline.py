"""Leadsman's own services as processes: NATS, a collector and a CSI driver for every node, filter, scorer, gateway."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from leadsman.bus.streams import ensure_streams
from leadsman_e2e.process import Process, free_ports, stop_all
from leadsman_e2e.reports import ReportWatch
from leadsman_e2e.waiting import wait_for

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
        os.kill(self.driver.pid, signal.SIGSTOP)

    def thaw_driver(self) -> None:
        """Let the CSI driver go on."""
        os.kill(self.driver.pid, signal.SIGCONT)


class Pipeline:
    """Everything between the disks and kube-scheduler. Make one with `start`; end it with `stop` or a `with` block."""

    def __init__(self, workdir: Path, kubeconfig: Path, nodes: Sequence[str]) -> None:
        self.workdir = workdir
        self.nodes: dict[str, StorageNode] = {}
        self.gateway_port, self.nats_port = free_ports(2)
        self._kubeconfig = kubeconfig
        self._names = nodes
        self._processes: list[Process] = []
        self._gateway: Process | None = None

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

    @property
    def nats_url(self) -> str:
        """Where the bus is."""
        return f"nats://127.0.0.1:{self.nats_port}"

    def kill_gateway(self) -> None:
        """End the gateway at once."""
        assert self._gateway is not None
        self._gateway.kill()

    def start_gateway(self) -> None:
        """Start the gateway (again, on the same port) and wait until it is ready."""
        filter_port, scorer_port = self._ports("filter")["grpc"], self._ports("scorer")["grpc"]
        self._gateway = self._launch(
            "gateway",
            "leadsman_gateway",
            *("--listen", f"127.0.0.1:{self.gateway_port}"),
            *("--filter", f"127.0.0.1:{filter_port}", "--scorer", f"127.0.0.1:{scorer_port}"),
            *("--kubeconfig", str(self._kubeconfig), "--namespace", NAMESPACE, "--nats-url", self.nats_url),
        )
        self._await_ready(self._gateway, self.gateway_port)

    def calls(self, verb: str) -> float:
        """How many calls of `verb` the gateway has answered since it started."""
        pattern = re.compile(rf'^leadsman_gateway_requests_total{{[^}}]*verb="{verb}"[^}}]*}} (\S+)$', re.MULTILINE)
        return sum(float(count) for count in pattern.findall(self.metrics()))

    def metrics(self) -> str:
        """The gateway's metrics."""
        return _get(f"{self.url}/metrics")

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
        return ReportWatch(self.nats_url, node)

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
        for node in self.nodes.values():
            if node.driver.alive:
                node.thaw_driver()
        stop_all(list(reversed(self._processes)), grace=5.0)
        self._processes.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self.workdir.mkdir(parents=True, exist_ok=True)
        self._start_nats()
        for name in self._names:
            self._start_node(name)
        started: dict[str, Process] = {}
        for service in ("filter", "scorer"):
            process = self._launch(
                service,
                f"leadsman_{service}",
                *("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"),
                *("--nats-url", self.nats_url, "--port-file", str(self.workdir / f"{service}.json")),
            )
            started[service] = process
        for name, node in self.nodes.items():
            assert node.collector is not None
            started[f"collector-{name}"] = node.collector
        for name, process in started.items():
            self._await(f"{name} listens", process, (self.workdir / f"{name}.json").exists)
            self._await_ready(process, self._ports(name)["admin"])
        self.start_gateway()

    def _start_nats(self) -> None:
        server = Path(sys.executable).with_name("nats-server")
        store = self.workdir / "nats"
        command = [str(server), "-a", "127.0.0.1", "-p", str(self.nats_port), "-js", "-sd", str(store)]
        process = Process.start("nats-server", command, self.workdir / "nats.log")
        self._processes.append(process)
        self._await("nats-server is ready", process, lambda: "Server is ready" in process.log_tail(50))
        asyncio.run(ensure_streams((self.nats_url,)))

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
        self._await(f"the CSI driver of {name} serves its socket", driver, socket.exists)
        config = folder / "collector.yaml"
        config.write_text(_collector_config(ports))
        node.collector = self._launch(
            f"collector-{name}",
            "leadsman_health_collector",
            *("--node-name", name, "--kubelet-dir", str(folder), "--state-file", str(folder / "state.json")),
            *("--config", str(config), "--period", PROBE_PERIOD, "--probe-deadline", PROBE_DEADLINE),
            *("--admin-listen", "127.0.0.1:0", "--port-file", str(self.workdir / f"collector-{name}.json")),
            *("--nats-url", self.nats_url),
        )

    def _launch(self, name: str, module: str, *arguments: str) -> Process:
        process = Process.start(name, [sys.executable, "-m", module, *arguments], self.workdir / f"{name}.log")
        self._processes.append(process)
        return process

    def _ports(self, service: str) -> dict[str, int]:
        ports: dict[str, int] = json.loads((self.workdir / f"{service}.json").read_text())
        return ports

    def _await_ready(self, process: Process, port: int) -> None:
        def ready() -> str:
            process.check_alive()
            try:
                return _get(f"http://127.0.0.1:{port}/readyz")
            except OSError as error:
                return str(error)

        wait_for(f"{process.name} is ready (log: {process.log})", ready, "ok".__eq__, timeout=START_TIMEOUT_SECONDS)

    @staticmethod
    def _await(what: str, process: Process, condition: Callable[[], bool]) -> None:
        def observe() -> bool:
            process.check_alive()
            return condition()

        wait_for(what, observe, timeout=START_TIMEOUT_SECONDS)


def _collector_config(ports: Mapping[str, int]) -> str:
    endpoints = [
        {"driver": DRIVER, "backend": backend, "address": f"127.0.0.1:{port}"} for backend, port in ports.items()
    ]
    return json.dumps(  # JSON is YAML
        {"apiVersion": "leadsman.dev/v1alpha1", "kind": "HealthCollectorConfiguration", "endpoints": endpoints}
    )


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())
