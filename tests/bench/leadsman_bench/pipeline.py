"""The shipped processes: nats-server, filter, scorer and gateway, and beside them the feeder and the Go extender."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from leadsman.bus.streams import ensure_streams
from leadsman.testing.nats import NatsServer
from leadsman.testing.pages import page
from leadsman.testing.process import Process, stop_all
from leadsman_bench import fleet
from leadsman_bench.build import BENCH
from leadsman_bench.node_objects import Json

HEARTBEATS_PER_SECOND = fleet.NODES / 10
"""What 5,000 collectors send at their default heartbeat of 10 s."""


@dataclass(frozen=True, slots=True)
class Service:
    """A running program and the ports that it has announced, by what they serve."""

    process: Process
    ports: Mapping[str, int]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid


class Bench:
    """Starts processes whose files go to `folder`, and ends them all on exit from the `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._nats = NatsServer(directory=folder / "nats")
        self._processes: list[Process] = []
        self._started = 0
        # Installed services start from compiled bytecode, so ours do too, whatever this shell says.
        self._environ = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPYCACHEPREFIX": str(folder.parent / "bytecode"),
            "PYTHONPATH": str(BENCH),
        }

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        stop_all(self._processes)
        self._nats.stop()

    def stop(self, process: Process) -> None:
        """End one process now."""
        process.stop()
        self._processes.remove(process)

    def start_nats(self) -> str:
        """Start nats-server with our streams; its URL."""
        self._nats.start()
        asyncio.run(ensure_streams((self._nats.url,)))
        return self._nats.url

    def start_feeder(self, nats_url: str, rate: float = HEARTBEATS_PER_SECOND) -> Process:
        """Start the reports of all nodes; returns when every node has reported once."""
        ready = self.folder / f"feeder-{self._started}.ready"
        options = ["--nats-url", nats_url, "--rate", str(rate), "--ready-file", str(ready)]
        process = self._spawn("feeder", [sys.executable, "-m", "leadsman_bench.feeder", *options])
        process.wait_for("every node has reported", ready.exists)
        return process

    def start_filter(self, nats_url: str, policy: Path | None = None) -> Service:
        """Start a filter that works by the file `policy`, if there is one; it may not be ready yet."""
        return self._start_hop("leadsman_filter", nats_url, policy)

    def start_scorer(self, nats_url: str, policy: Path | None = None) -> Service:
        """Start a scorer that works by the file `policy`, if there is one; it may not be ready yet."""
        return self._start_hop("leadsman_scorer", nats_url, policy)

    def start_gateway(self, nats_url: str, filter_: Service, scorer: Service, manifests: Path) -> Service:
        """Start a gateway in front of `filter_` and `scorer`, with the pod's claims from `manifests`."""
        options = [
            *("--nats-url", nats_url),
            *_loopback("--listen"),
            *("--filter", f"127.0.0.1:{filter_.ports['grpc']}"),
            *("--scorer", f"127.0.0.1:{scorer.ports['grpc']}"),
            *("--manifests", str(manifests)),
            *("--backend-attribute", f"{fleet.DRIVER}={fleet.BACKEND_ATTRIBUTE}"),
            "--no-wake",
        ]
        return self._start_service("leadsman_gateway", options)

    def start_extender(self, program: Path, knowledge: Json, gogc: int) -> Service:
        """Start the Go extender with what it knows, see its source, and its garbage collector set to `gogc`."""
        state = self.folder / f"extender-{self._started}.json"
        state.write_text(json.dumps(knowledge), encoding="utf-8")
        return self._start("extender", [str(program), "-state", str(state)], "-port-file", {"GOGC": str(gogc)})

    def wait_ready(self, service: Service, *, every_s: float = 0.03) -> None:
        """Wait until `service` says that it is ready; asked every `every_s`."""
        port = service.ports.get("admin") or service.ports["http"]
        service.process.wait_for(
            f"{service.process.name} is ready",
            lambda: page(port, "/readyz?verbose"),
            lambda answer: answer[0] == 200,
            every_s=every_s,
        )

    def _start_hop(self, module: str, nats_url: str, policy: Path | None) -> Service:
        options = ["--nats-url", nats_url, "--stream-settle", "0s", *_loopback("--listen", "--admin-listen")]
        return self._start_service(module, [*options, *(("--policy", str(policy)) if policy else ())])

    def _start_service(self, module: str, options: list[str]) -> Service:
        return self._start(module, [sys.executable, "-m", module, *options], "--port-file")

    def _start(
        self, name: str, command: list[str], port_option: str, extra: Mapping[str, str] | None = None
    ) -> Service:
        port_file = self.folder / f"{name}-{self._started}.ports"
        process = self._spawn(name, [*command, port_option, str(port_file)], extra)
        return Service(process, process.ports(port_file, every_s=0.005))

    def _spawn(self, name: str, command: list[str], extra: Mapping[str, str] | None = None) -> Process:
        log = self.folder / f"{name}-{self._started}.log"
        self._started += 1
        process = Process.start(name, command, log, environ={**self._environ, **(extra or {})})
        self._processes.append(process)
        return process


def _loopback(*options: str) -> list[str]:
    return [word for option in options for word in (option, "127.0.0.1:0")]
