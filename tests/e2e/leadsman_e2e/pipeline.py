"""Leadsman's own services as processes: NATS, a collector and storage for every node, filter, scorer, gateway."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from leadsman.bus.streams import ensure_streams
from leadsman.testing.nats import NatsServer
from leadsman.testing.pages import page
from leadsman.testing.process import Process, stop_all
from leadsman.testing.sockets import free_ports
from leadsman.testing.waiting import wait_for
from leadsman_e2e.bus_watch import DecisionWatch, ReportWatch
from leadsman_e2e.machine import Passage
from leadsman_e2e.policy_volume import PolicyVolume, fingerprint
from leadsman_e2e.rights import NAMESPACE
from leadsman_e2e.setup import Setup
from leadsman_e2e.storage_node import START_TIMEOUT_SECONDS, StorageNode

HOPS = ("filter", "scorer")


class Pipeline:
    """Everything between the disks and kube-scheduler. Make one with `start`; end it with `stop` or a `with` block."""

    def __init__(self, workdir: Path, kubeconfig: Path, setup: Setup, access: Callable[[str], Path]) -> None:
        self.workdir = workdir
        self.nodes: dict[str, StorageNode] = {}
        (self.gateway_port,) = free_ports(1)
        self._nats = NatsServer(directory=workdir / "nats")
        self._kubeconfig = kubeconfig
        self._setup = setup
        self._access = access
        self._processes: list[Process] = []
        self._gateway: Process | None = None
        self._hops: dict[str, dict[str, int]] = {}
        self._policy: PolicyVolume | None = None
        self._passage: Passage | None = None

    @classmethod
    def start(cls, workdir: Path, kubeconfig: Path, setup: Setup, access: Callable[[str], Path]) -> Pipeline:
        """Start all processes and wait until they are ready. Raises NotInTimeError.

        `kubeconfig` is the gateway's, `access` gives those of the collectors by node.
        """
        pipeline = cls(workdir, kubeconfig, setup, access)
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
            *(word for name, ports in self._hops.items() for word in (f"--{name}", f"127.0.0.1:{ports['grpc']}")),
            *("--kubeconfig", str(self._kubeconfig), "--namespace", NAMESPACE, "--nats-url", self._nats.url),
        )
        self._await_ready(self._gateway, self.gateway_port)

    def calls(self, verb: str) -> float:
        """How many calls of `verb` the gateway has answered since it started."""
        pattern = re.compile(rf'^leadsman_gateway_requests_total{{[^}}]*verb="{verb}"[^}}]*}} (\S+)$', re.MULTILINE)
        return sum(float(count) for count in pattern.findall(page(self.gateway_port, "/metrics")[1]))

    def metric(self, hop: str, series: str) -> float | None:
        """The value of a series (its name with its labels) of `filter` or `scorer`; None if there is none."""
        found = re.search(rf"^{re.escape(series)} (\S+)$", self._page(hop, "/metrics"), re.MULTILINE)
        return float(found[1]) if found else None

    def checks(self, hop: str) -> str:
        """What `filter` or `scorer` says on /readyz?verbose."""
        return self._page(hop, "/readyz?verbose")

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

    def scores(self, pod: Mapping[str, Any]) -> dict[str, int]:
        """Node to score for `pod`, now."""
        return {entry["Host"]: entry["Score"] for entry in self.ask("prioritize", pod) or ()}

    def watch_reports(self, node: str) -> ReportWatch:
        """Listen to what the collector of `node` publishes."""
        return ReportWatch(self._nats.url, node)

    def watch_decisions(self, verb: str) -> DecisionWatch:
        """Listen to the records of decisions of `verb`."""
        return DecisionWatch(self._nats.url, verb)

    def write_policy(self, text: str, *, as_editor: bool = False) -> None:
        """Bring a new version of the policy file: as a ConfigMap volume does, or `as_editor`."""
        assert self._policy is not None, "this cluster was started without a policy file"
        (self._policy.replace if as_editor else self._policy.swap)(text)

    def set_policy(self, text: str, *, as_editor: bool = False) -> float:
        """Bring a new version and wait until filter and scorer work by it; how long that took, in seconds."""
        started = time.monotonic()
        self.write_policy(text, as_editor=as_editor)
        self.await_policy(f"[+]policy {fingerprint(text)},")
        return time.monotonic() - started

    def await_policy(self, words: str) -> None:
        """Wait until filter and scorer say so of their policy. Raises NotInTimeError."""
        for hop in HOPS:
            wait_for(f"{hop} says {words!r}", partial(self.checks, hop), lambda text: words in text, within_s=10)

    def stop(self) -> None:
        """End all processes. Harmless when already stopped."""
        if self._passage:
            self._passage.stop()
        stop_all(list(reversed(self._processes)))
        self._processes.clear()
        self._nats.stop()

    def _start(self) -> None:
        self.workdir.mkdir(parents=True, exist_ok=True)
        self._nats.start()
        asyncio.run(ensure_streams((self._nats.url,)))
        if self._setup.policy is not None:
            self._policy = PolicyVolume(self.workdir / "policy", self._setup.policy)
        for name in self._setup.nodes:
            self.nodes[name] = StorageNode.start(name, self.workdir / name, self._launch)
        self._passage = Passage(node.machine for node in self.nodes.values())
        collectors = [self._start_collector(node) for node in self.nodes.values()]
        hops = [self._start_hop(name) for name in HOPS]
        self._hops = {process.name: self._ports(process) for process in hops}
        for process in (*hops, *collectors):
            self._await_ready(process, self._ports(process)["admin"])
        self.start_gateway()

    def _start_hop(self, name: str) -> Process:
        policy = ("--policy", str(self._policy.path)) if self._policy else ()
        return self._launch(
            name,
            f"leadsman_{name}",
            *("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--stream-settle", "0s", *policy),
            *("--nats-url", self._nats.url, "--port-file", str(self._port_file(name))),
        )

    def _start_collector(self, node: StorageNode) -> Process:
        access = ("--kubeconfig", str(self._access(node.name))) if self._setup.labels else ()
        file = self._port_file(f"collector-{node.name}")
        return node.start_collector(self._nats.url, file, self._setup.heartbeat, *access)

    def _launch(self, name: str, module: str, *arguments: str) -> Process:
        process = Process.start(name, [sys.executable, "-m", module, *arguments], self.workdir / f"{name}.log")
        self._processes.append(process)
        return process

    def _port_file(self, name: str) -> Path:
        return self.workdir / f"{name}.json"

    def _ports(self, process: Process) -> dict[str, int]:
        return process.ports(self._port_file(process.name), within_s=START_TIMEOUT_SECONDS)

    def _page(self, hop: str, path: str) -> str:
        return page(self._hops[hop]["admin"], path)[1]

    @staticmethod
    def _await_ready(process: Process, port: int) -> None:
        process.wait_for(
            f"{process.name} is ready (log: {process.log})",
            lambda: page(port, "/readyz?verbose"),
            lambda answer: answer[0] == 200,
            within_s=START_TIMEOUT_SECONDS,
        )
