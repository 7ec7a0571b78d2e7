"""The shipped processes: nats-server, filter, scorer and gateway, and beside them the feeder and the Go extender."""

import asyncio
import http.client
import json
import os
import socket
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from leadsman.bus.streams import ensure_streams
from leadsman_bench import fleet
from leadsman_bench.build import BENCH
from leadsman_e2e.process import Process, free_ports, stop_all
from leadsman_e2e.waiting import wait_for

T = TypeVar("T")

HEARTBEATS_PER_SECOND = fleet.NODES / 10
"""What 5,000 collectors send at their default heartbeat of 10 s."""

_START_LIMIT_S = 30.0


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

    def stop(self, process: Process) -> None:
        """End one process now."""
        process.stop()
        self._processes.remove(process)

    def start_nats(self) -> str:
        """Start nats-server with our streams; its URL."""
        (port,) = free_ports(1)
        program = str(Path(sysconfig.get_path("scripts")) / "nats-server")
        store = str(self.folder / "jetstream")
        process = self._spawn("nats-server", [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", store])
        url = f"nats://127.0.0.1:{port}"
        self.wait("nats-server answers", process, lambda: _accepts(port))
        asyncio.run(ensure_streams((url,)))
        return url

    def start_feeder(self, nats_url: str, rate: float = HEARTBEATS_PER_SECOND) -> Process:
        """Start the reports of all nodes; returns when every node has reported once."""
        ready = self.folder / f"feeder-{self._started}.ready"
        options = ["--nats-url", nats_url, "--rate", str(rate), "--ready-file", str(ready)]
        process = self._spawn("feeder", [sys.executable, "-m", "leadsman_bench.feeder", *options])
        self.wait("every node has reported", process, ready.exists)
        return process

    def start_filter(self, nats_url: str) -> Service:
        """Start a filter; it may not be ready yet."""
        return self._start_service(
            "leadsman_filter", ["--nats-url", nats_url, *_loopback("--listen", "--admin-listen")]
        )

    def start_scorer(self, nats_url: str) -> Service:
        """Start a scorer; it may not be ready yet."""
        return self._start_service(
            "leadsman_scorer", ["--nats-url", nats_url, *_loopback("--listen", "--admin-listen")]
        )

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

    def start_extender(self, program: Path, state: Path, gogc: int) -> Service:
        """Start the Go extender with its garbage collector set to `gogc`."""
        return self._start("extender", [str(program), "-state", str(state)], "-port-file", {"GOGC": str(gogc)})

    def wait_ready(self, service: Service, *, interval_s: float = 0.02) -> None:
        """Wait until `service` says that it is ready; asked every `interval_s`."""
        port = service.ports.get("admin") or service.ports["http"]
        what = f"{service.process.name} is ready"
        self.wait(
            what, service.process, lambda: page(port, "/readyz?verbose"), interval_s, lambda answer: answer[0] == 200
        )

    def _start_service(self, module: str, options: list[str]) -> Service:
        return self._start(module, [sys.executable, "-m", module, *options], "--port-file")

    def _start(
        self, name: str, command: list[str], port_option: str, extra: Mapping[str, str] | None = None
    ) -> Service:
        port_file = self.folder / f"{name}-{self._started}.ports"
        process = self._spawn(name, [*command, port_option, str(port_file)], extra)
        self.wait(f"{name} listens", process, port_file.exists, 0.005)
        return Service(process, json.loads(port_file.read_text(encoding="utf-8")))

    def _spawn(self, name: str, command: list[str], extra: Mapping[str, str] | None = None) -> Process:
        log = self.folder / f"{name}-{self._started}.log"
        self._started += 1
        process = Process.start(name, command, log, environ={**self._environ, **(extra or {})})
        self._processes.append(process)
        return process

    @staticmethod
    def wait(
        what: str,
        process: Process,
        observe: Callable[[], T],
        interval_s: float = 0.02,
        accept: Callable[[T], bool] = bool,
    ) -> T:
        """Wait until `accept` likes what `observe` sees, and return that, as long as `process` lives.

        Raises:
            NotInTimeError, ProcessEndedError: in vain.
        """

        def observe_alive() -> T:
            process.check_alive()
            return observe()

        return wait_for(what, observe_alive, accept, timeout=_START_LIMIT_S, interval=interval_s)


def page(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page of a service; status 0 while nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except OSError as error:
        return 0, repr(error)
    finally:
        connection.close()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _loopback(*options: str) -> list[str]:
    return [word for option in options for word in (option, "127.0.0.1:0")]
