"""The node of the reach benchmark, made real: drivers, servers and mounts are processes and devices of this machine.

Needs root, and a mount namespace of its own (`enter_namespace`), with which all that is mounted here goes.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from leadsman.testing.nats import NatsServer
from leadsman.testing.process import Process, stop_all
from leadsman.testing.sockets import accepts
from leadsman.testing.waiting import wait_for
from leadsman_bench.build import BENCH
from leadsman_bench.reach_volumes import (
    CannotMeasureError,
    all_mounted,
    can_make_ext4,
    publish,
    stage_block,
    unmount_below,
)
from leadsman_bench.reach_world import NODE, Driver, Server

_INSIDE = "LEADSMAN_REACH_INSIDE"
_START_S = 120.0
"""Thirty programs start at once, on two busy cores perhaps."""

COLLECTOR = ("-m", "leadsman_health_collector")


def enter_namespace() -> None:
    """Start this program anew in a mount namespace of its own, unless it is in one already.

    Raises:
        CannotMeasureError: that cannot be had here.
    """
    if os.environ.get(_INSIDE) == "1":
        return
    if why := why_impossible():
        raise CannotMeasureError(why)
    os.environ[_INSIDE] = "1"
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.orig_argv[1:]]
    os.execvp("unshare", command)


def why_impossible() -> str:
    """Why nothing can be mounted on this machine; empty if it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be used, so nothing can be mounted"
    return "" if shutil.which("unshare") else "there is no unshare; on Debian and Ubuntu: apt install util-linux"


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector and the port of its admin server."""

    process: Process
    admin_port: int


class ReachNode:
    """Everything around a collector; it is there within the `with` block."""

    def __init__(self, folder: Path, drivers: Sequence[Driver]) -> None:
        self.folder = folder
        self.kubelet = folder / "kubelet"
        self.block_volumes = 0
        """Volumes that are ext4 on a loop device; where that cannot be had FUSE stands in for it."""
        self.drivers = drivers
        self._nats = NatsServer(directory=folder / "nats")
        self._processes: list[Process] = []
        # Installed services start from compiled bytecode, so ours do too, whatever this shell says.
        self._environ = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "PYTHONPATH": str(BENCH),
        }

    def __enter__(self) -> Self:
        (self.kubelet / "plugins_registry").mkdir(parents=True)
        try:
            self._nats.start()
            self._compile()
            self._start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process and take every mount away."""
        stop_all(self._processes)
        self._nats.stop()
        unmount_below(self.folder)

    def start_collector(self, name: str, program: Sequence[str] = COLLECTOR, *, api: bool = True) -> Collector:
        """Start a collector with the settings that it is shipped with, and return once it listens.

        `program` is what stands before its options, `api` whether it may see the API server.
        """
        ports = self.folder / f"{name}.ports"
        options = [
            *("--node-name", NODE, "--kubelet-dir", str(self.kubelet), "--config", str(self.folder / "config.json")),
            *("--state-file", str(self.folder / f"{name}.state"), "--nats-url", self._nats.url),
            *("--admin-listen", "127.0.0.1:0", "--port-file", str(ports)),
        ]
        process = self._spawn(name, *program, "run", *options, environ=self._in_pod() if api else None)
        return Collector(process, process.ports(ports, within_s=_START_S)["admin"])

    def stop(self, process: Process) -> None:
        """End one process now."""
        process.stop()
        self._processes.remove(process)

    def _compile(self) -> None:
        """Import once everything that a collector may import, so that the one that is measured compiles nothing."""
        imports = "import leadsman_health_collector.__main__, leadsman.kube.kube_api"
        subprocess.run([sys.executable, "-P", "-c", imports], env=self._environ, check=True)

    def _start_all(self) -> None:
        self._spawn(
            "plane", "-m", "leadsman_bench.reach_plane", "--nats-url", self._nats.url, "--folder", str(self.folder)
        )
        places = [place for driver in self.drivers for place in self._start_driver(driver)]
        servers = self._start_servers()
        sockets = [str(self._socket(driver)) for driver in self.drivers]
        self._wait("the volumes are mounted", lambda: all_mounted(places))
        self._wait("the drivers serve", lambda: all(map(accepts, sockets)))
        self._wait("the API server listens", (self.folder / "plane.json").exists)
        self._write_config({server: self._port(process) for server, process in servers.items()})

    def _start_driver(self, driver: Driver) -> list[Path]:
        """Start `driver` and the mounts of its volumes; where these will be."""
        registrar = self.kubelet / "plugins_registry" / f"{driver.name}-reg.sock"
        self._spawn(
            driver.name,
            *("-m", "leadsman.testing.csi_driver", "--name", driver.name, "--socket", str(self._socket(driver))),
            *("--registration-socket", str(registrar)),
            *(word for capability in driver.capabilities for word in ("--capability", capability)),
        )
        places = []
        for volume in driver.volumes:
            place = publish(self.kubelet, driver, volume)
            if not volume.source and can_make_ext4():
                stage_block(self.kubelet, driver, volume, self.folder / f"{volume.name}.img", place)
                self.block_volumes += 1
            else:
                arguments = ("--mountpoint", str(place), "--source", volume.source or f"/dev/{volume.name}")
                self._spawn(volume.name, "-m", "leadsman.testing.fuse_mount", *arguments)
            places.append(place)
        return places

    def _start_servers(self) -> dict[tuple[str, int], Process]:
        """One process per protocol and number: backends that speak the same share it, each in its own name."""
        wanted = {(server.protocol, server.number) for driver in self.drivers for server in driver.servers}
        return {
            (protocol, number): self._spawn(
                f"{protocol}-{number}",
                *("-m", "leadsman.testing.tcp_backend", "--listen", "127.0.0.1:0", "--protocol", protocol),
            )
            for protocol, number in sorted(wanted)
        }

    def _port(self, server: Process) -> int:
        """The port that a server double tells on its first line."""
        line = server.wait_for("it listens", lambda: server.log.read_text(encoding="utf-8"), within_s=_START_S)
        return int(line.strip().rpartition(":")[2])

    def _write_config(self, ports: dict[tuple[str, int], int]) -> None:
        def address(server: Server) -> str:
            return f"{server.host}:{ports[server.protocol, server.number]}"

        endpoints = [
            {"driver": driver.name, "backend": server.backend, "address": address(server)}
            for driver in self.drivers
            for server in driver.servers
        ]
        document = {
            "apiVersion": "leadsman.dev/v1alpha1",
            "kind": "HealthCollectorConfiguration",
            "endpoints": endpoints,
        }
        (self.folder / "config.json").write_text(json.dumps(document), encoding="utf-8")

    def _socket(self, driver: Driver) -> Path:
        return self.kubelet / "plugins" / driver.name / "csi.sock"

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            for process in self._processes:
                process.check_alive()
            return condition()

        wait_for(what, holds, within_s=_START_S)

    def _in_pod(self) -> dict[str, str]:
        """What the kubelet tells a pod of the API server."""
        port: int = json.loads((self.folder / "plane.json").read_bytes())["https"]
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}

    def _spawn(self, name: str, *arguments: str, environ: Mapping[str, str] | None = None) -> Process:
        """Start our interpreter, whatever lies in the current directory; `environ` is added to its environment."""
        command = [sys.executable, "-P", *arguments]
        log = self.folder / f"{name}.log"
        process = Process.start(name, command, log, environ={**self._environ, **(environ or {})})
        self._processes.append(process)
        return process
