"""Everything that the rows share: the network, a NATS server, a name server, and one node for each group of rows."""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from leadsman.testing.nats import NatsServer
from leadsman_faults.commands import run
from leadsman_faults.names import Names
from leadsman_faults.network import DNS_ADDRESS, Network
from leadsman_faults.node import Node
from leadsman_faults.pace import Pace


class Stage:
    """Use as an asynchronous context, in a process with mount and network namespaces of its own (see `isolation`)."""

    def __init__(self, pace: Pace, groups: Iterable[str], logs: Path | None = None) -> None:
        self.pace = pace
        self._logs = logs
        self.nodes: dict[str, Node] = {}
        self._groups = list(groups)
        self._directory = Path()
        self._network = Network()
        self._names = Names()
        self._nats = NatsServer()

    async def __aenter__(self) -> Self:
        # Sockets need short paths. A memory filesystem of our own: images go with it, and no disk is filled.
        self._directory = Path(tempfile.mkdtemp(prefix="lmf-"))
        await run("mount", "-t", "tmpfs", "-o", "size=2g,mode=700", "tmpfs", str(self._directory))
        await self._network.open()
        await self._open_names()
        self._nats.start()
        for group in self._groups:
            folder = self._directory / group
            folder.mkdir()
            self.nodes[group] = Node(f"faults-{group}", folder, self._network, self._names, self.pace)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(node.close() for node in self.nodes.values()))
        self._keep_logs()
        self._names.close()
        self._nats.stop()
        self._network.close()
        # Detached, not waited for: a mount in it may hang until the namespace goes with the last process.
        await run("umount", "-l", str(self._directory))
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def nats_url(self) -> str:
        """Where collectors report to."""
        return self._nats.url

    async def start_collectors(self) -> None:
        """Start one collector per node; the rows have built what they look at."""
        for node in self.nodes.values():
            await node.watch.open(self._nats.url)
            node.collector.start(self._nats.url)

    def _keep_logs(self) -> None:
        if self._logs is not None:
            for log in self._directory.glob("*/*.log"):
                kept = self._logs / log.relative_to(self._directory)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(log, kept)

    async def _open_names(self) -> None:
        await self._names.open(self._network.listen(DNS_ADDRESS, 53, socket.SOCK_DGRAM))
        resolver = self._directory / "resolv.conf"
        resolver.write_text(f"nameserver {DNS_ADDRESS}\noptions timeout:1 attempts:2\n")
        await run("mount", "--bind", str(resolver), "/etc/resolv.conf")
