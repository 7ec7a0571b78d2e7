"""A node with a real collector: a kubelet's directory, volumes, plugins, and the collector as a process."""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from leadsman.domain.report import StorageKey
from leadsman.testing.process import Process, stop_all
from leadsman.testing.sockets import accepts
from leadsman.testing.waiting import eventually
from leadsman_faults import rpc_responder
from leadsman_faults.collector import NFS_PORT, Collector
from leadsman_faults.commands import run
from leadsman_faults.csi_node import CsiNode
from leadsman_faults.greeter import Greeter
from leadsman_faults.names import Names
from leadsman_faults.network import Network
from leadsman_faults.pace import Pace
from leadsman_faults.plugins import Capability, PluginDouble
from leadsman_faults.proc_tree import ProcTree
from leadsman_faults.row import Subject
from leadsman_faults.sysfs_tree import SysTree
from leadsman_faults.volumes import DiskImage, Volume, device_of, publish
from leadsman_faults.watch import Watch

CALM = StorageKey("calm.faults.example")
"""A driver that nothing is done to, on every node."""

_START_S = 30.0
_RESPONDER = Path(rpc_responder.__file__)


class Node:
    """One node: what rows build on it before the collector starts, and how they reach the servers' side."""

    def __init__(self, name: str, directory: Path, network: Network, names: Names, pace: Pace) -> None:
        self.name = name
        self.directory = directory
        self.kubelet = directory / "kubelet"
        self.network = network
        self.names = names
        self.pace = pace
        self.watch = Watch(name)
        self.collector = Collector(name, directory, self.kubelet, pace)
        self._processes: list[Process] = []
        self._servers: list[asyncio.Server] = []
        self._plugins: list[PluginDouble] = []
        self._sys: SysTree | None = None
        self._proc: ProcTree | None = None
        self._csi_node: CsiNode | None = None
        self._opening = asyncio.Lock()
        for folder in ("plugins", "plugins_registry", "pods"):
            (self.kubelet / folder).mkdir(parents=True)

    @staticmethod
    def python(*arguments: str) -> list[str]:
        """The command that runs our interpreter, whatever lies in the current directory."""
        return [sys.executable, "-P", *arguments]

    @staticmethod
    async def until(process: Process, what: str, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; `process` must live until then."""

        def holds() -> bool:
            process.check_alive()
            return condition()

        await eventually(what, holds, within_s=_START_S, every_s=0.01)

    async def lapse(self, seconds: float) -> None:
        """Let a time of the table pass, at the pace of this run: the length of a fault."""
        await asyncio.sleep(self.pace.seconds(seconds))

    @staticmethod
    async def set_link(interface: str, *, up: bool) -> None:
        """Set an interface of the node up or down."""
        await run("ip", "link", "set", interface, "up" if up else "down")

    def process(self, name: str, command: Sequence[str]) -> Process:
        """Start a double that is killed with the node."""
        process = Process.start(name, command, self.directory / f"{name}-{len(self._processes)}.log")
        self._processes.append(process)
        return process

    async def nfs_server(self, address: str, port: int = NFS_PORT) -> None:
        """An NFS server as far as RPC NULL can tell, in this process."""
        listening = self.network.listen(address, port)
        self._servers.append(await asyncio.start_server(rpc_responder.serve, sock=listening))

    async def greeter(self, address: str, port: int, greeting: bytes) -> Greeter:
        """A server of this process that sends `greeting` to whoever connects."""
        greeter = Greeter(greeting)
        listening = self.network.listen(address, port)
        self._servers.append(await asyncio.start_server(greeter.serve, sock=listening))
        return greeter

    async def nfs_server_process(self, address: str) -> Process:
        """The same as a process of its own, that can be frozen and killed."""
        command = self.network.inside(sys.executable, "-I", "-S", str(_RESPONDER), address, str(NFS_PORT))
        process = self.process("nfs-server", command)
        await self.until(process, f"{address} listens", lambda: "listening" in process.log.read_text())
        return process

    async def nfs_backend(self, driver: str, *, port: int = NFS_PORT) -> StorageKey:
        """A backend of `driver` that is well: its server on an address of its own, which the collector looks at."""
        address = self.network.address()
        await self.nfs_server(address, port)
        key = StorageKey(driver, address)
        self.collector.endpoint(key, address, port)
        return key

    def volume(self, driver: str, name: str, handle: str = "") -> Volume:
        """The directories of a volume."""
        return publish(self.kubelet, driver, name, handle or f"{name}-handle")

    async def fuse(self, volume: Volume, source: str, *arguments: str) -> Process:
        """Mount a FUSE filesystem at the place of `volume`; see `leadsman.testing.fuse_mount`."""
        options = ["--mountpoint", str(volume.place), "--source", source, *arguments]
        process = self.process(f"fuse-{volume.name}", self.python("-m", "leadsman.testing.fuse_mount", *options))
        await self.until(process, f"{volume.name} is mounted", lambda: f" {volume.place} " in _mountinfo())
        return process

    async def disk(self, volume: Volume, kind: str, size_mb: int, *options: str, mkfs: Sequence[str] = ()) -> DiskImage:
        """Mount a new filesystem at the place of `volume`."""
        image = DiskImage(self.directory / "images" / volume.name, volume.place, kind, size_mb, *options)
        await image.make(*mkfs)
        return image

    def plugin(self, driver: str, *capabilities: Capability) -> PluginDouble:
        """A CSI driver of this process, with these capabilities of its node service; not started."""
        path, registrar = self._sockets(driver)
        plugin = PluginDouble(driver, path, registrar, capabilities)
        self._plugins.append(plugin)
        return plugin

    async def plugin_process(self, driver: str) -> Process:
        """A CSI driver as a process of its own, that can be frozen."""
        path, _ = self._sockets(driver)
        arguments = ("-m", "leadsman.testing.csi_driver", "--socket", str(path), "--name", driver)
        process = self.process("csi-driver", self.python(*arguments))
        await self.until(process, f"{driver} serves", lambda: accepts(str(path)))
        return process

    @property
    def spare_descriptors(self) -> int:
        """How many connections to an API server the collector may keep for another request."""
        return 2 if self._csi_node is not None else 0

    def _sockets(self, driver: str) -> tuple[Path, Path]:
        """Where a driver and its registrar serve."""
        return (
            self.kubelet / "plugins" / driver / "csi.sock",
            self.kubelet / "plugins_registry" / f"{driver}-reg.sock",
        )

    def sys_tree(self) -> SysTree:
        """This node's sysfs, which from now on is not the real one."""
        if self._sys is None:
            self._sys = SysTree(self.directory / "sys")
            self.collector.options += ["--sys-root", str(self._sys.root)]
        return self._sys

    def proc_tree(self) -> ProcTree:
        """This node's procfs and kernel modules, which from now on are not the real ones."""
        if self._proc is None:
            self._proc = ProcTree(self.directory / "proc")
            self.collector.options += ["--proc-root", str(self._proc.root), "--modules-root", str(self._proc.modules)]
        return self._proc

    async def csi_node(self) -> CsiNode:
        """This node's CSINode, on an API server that the collector watches."""
        async with self._opening:
            if self._csi_node is None:
                csi_node = CsiNode(self.name)
                await csi_node.register(CALM.driver)
                self.collector.options += ["--kubeconfig", str(await csi_node.open(self.directory))]
                self._csi_node = csi_node
        return self._csi_node

    @staticmethod
    def subject_of(volume: Volume, key: StorageKey, well: tuple[str, ...] = ()) -> Subject:
        """The row is about a mounted volume and the key behind it; the volumes `well` of that stay so."""
        return Subject(key, volume.name, (device_of(volume.place),), well)

    async def close(self) -> None:
        """End everything."""
        await self.watch.close()
        for plugin in self._plugins:
            await plugin.close()
        if self._csi_node is not None:
            await self._csi_node.close()
        for server in self._servers:
            server.close()
        for process in self._processes:
            process.send(signal.SIGKILL)  # a FUSE server that hangs must not keep others waiting
        await asyncio.to_thread(stop_all, [*self.collector.processes, *self._processes])


def _mountinfo() -> str:
    return Path("/proc/self/mountinfo").read_text()
