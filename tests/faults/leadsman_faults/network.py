"""Two network namespaces: ours is the node's, the other one holds every storage server (facts: storage-health 6.2).

They are joined by a veth pair. The whole of 10.77.0.0/16 is local to the servers' side, so a server needs no more than
an address of its own. Further veth pairs are there for faults of the link itself. Nothing outlives this process: both
namespaces are nameless and go with the last process in them.
"""

import ctypes
import ipaddress
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from leadsman_faults.commands import run
from leadsman_faults.errors import StageError

T = TypeVar("T")

DNS_ADDRESS = "10.77.0.53"
_CLONE_NEWNET = 0x40000000
_SERVERS = ipaddress.ip_network("10.77.0.0/16")
_BACKLOG = 128
_COUNTED = re.compile(r"counter packets (\d+)")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Link:
    """A veth pair of its own: interface names on the node's and on the servers' side, and the server's address."""

    node_end: str
    server_end: str
    address: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A server machine with a namespace of its own, for programs that insist on every address there is."""

    address: str
    namespace: int

    def inside(self, *command: str) -> list[str]:
        """`command` made to run on it."""
        return _inside(self.namespace, command)


class Network:
    """The servers' namespace and the way to it; `open` before use, in a process that has a namespace of its own."""

    def __init__(self) -> None:
        self._namespace = _in_thread(_new_namespace)
        self._machines: list[Machine] = []
        self.unmet: set[str] = set()
        """Names of rows whose rules no packet has met: nothing was broken by them."""
        self._addresses = _server_addresses()
        self._links = 0

    async def open(self) -> None:
        """Join the two namespaces."""
        await run("ip", "link", "set", "lo", "up")
        await self._join("node0", "srv0", "10.76.0", self._namespace)
        await run("ip", "route", "add", str(_SERVERS), "via", "10.76.0.2")
        await self.run("ip", "-batch", "-", text=f"link set lo up\nroute add local {_SERVERS} dev lo\n")

    def close(self) -> None:
        """Let go of the other namespaces."""
        for namespace in (self._namespace, *(machine.namespace for machine in self._machines)):
            os.close(namespace)

    def address(self) -> str:
        """An address on the servers' side that nobody has yet."""
        return next(self._addresses)

    async def link(self) -> Link:
        """A further link with one server address behind it."""
        self._links += 1
        link = Link(f"node{self._links}", f"srv{self._links}", f"10.78.{self._links}.2")
        await self._join(link.node_end, link.server_end, f"10.78.{self._links}", self._namespace)
        return link

    async def machine(self) -> Machine:
        """A further machine, with a link of its own."""
        number = len(self._machines) + 1
        machine = Machine(f"10.79.{number}.2", _in_thread(_new_namespace))
        self._machines.append(machine)
        await self._join(f"mnode{number}", f"msrv{number}", f"10.79.{number}", machine.namespace)
        await run(*machine.inside("ip", "link", "set", "lo", "up"))
        return machine

    async def run(self, *command: str, text: str = "") -> str:
        """`commands.run` on the servers' side."""
        return await run(*self.inside(*command), text=text)

    def inside(self, *command: str) -> list[str]:
        """`command` made to run on the servers' side, in our mount namespace (`ip netns exec` would leave that)."""
        return _inside(self._namespace, command)

    def listen(self, address: str, port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """A bound socket on the servers' side, listening if it is for streams; it stays there wherever it is used."""

        def bind() -> socket.socket:
            bound = socket.socket(socket.AF_INET, kind)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((address, port))
            if kind is socket.SOCK_STREAM:
                bound.listen(_BACKLOG)
            bound.setblocking(False)
            return bound

        return _in_thread(lambda: self._there(bind))

    async def rule(self, name: str, *rules: str) -> None:
        """Put nftables `rules` of the row `name` into force on the servers' side.

        Each is `input ...` or `output ...`, with a `counter` before its verdict.
        """
        chains = {hook: [rule for rule in rules if rule.startswith(f"{hook} ")] for hook in ("input", "output")}
        lines = [f"table inet {_table(name)} {{"]
        for hook, own in chains.items():
            lines += [f"chain {hook} {{", f"type filter hook {hook} priority 0"]
            lines += [rule.removeprefix(f"{hook} ") for rule in own] + ["}"]
        await self.run("nft", "-f", "-", text="\n".join([*lines, "}", ""]))

    async def lift(self, name: str) -> None:
        """Take the rules of the row `name` out of force, and note it in `unmet` if no packet has met them."""
        told = await self.run("nft", "list", "table", "inet", _table(name))
        await self.run("nft", "delete", "table", "inet", _table(name))
        if not any(int(packets) for packets in _COUNTED.findall(told)):
            self.unmet.add(name)

    async def _join(self, here: str, there: str, prefix: str, namespace: int) -> None:
        path = _path(namespace)
        await run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", path)
        await run("ip", "-batch", "-", text=f"addr add {prefix}.1/24 dev {here}\nlink set {here} up\n")
        far_end = f"addr add {prefix}.2/24 dev {there}\nlink set {there} up\n"
        await run(*_inside(namespace, ("ip", "-batch", "-")), text=far_end)

    def _there(self, act: Callable[[], T]) -> T:
        if _libc.setns(self._namespace, _CLONE_NEWNET):
            raise StageError(f"cannot enter the servers' network namespace: {os.strerror(ctypes.get_errno())}")
        return act()


def _table(name: str) -> str:
    return f"fault_{name.replace('-', '_')}"


def _path(namespace: int) -> str:
    """The namespace as a file, for programs that take one."""
    return f"/proc/{os.getpid()}/fd/{namespace}"


def _inside(namespace: int, command: Sequence[str]) -> list[str]:
    return ["nsenter", f"--net={_path(namespace)}", *command]


def _new_namespace() -> int:
    """A new network namespace as a descriptor."""
    if _libc.unshare(_CLONE_NEWNET):
        raise StageError(f"cannot make a network namespace: {os.strerror(ctypes.get_errno())}; it needs root")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _in_thread(act: Callable[[], T]) -> T:
    """What `act` returns or raises, done in a thread of its own: namespaces belong to threads."""
    done: list[T] = []
    raised: list[Exception] = []

    def work() -> None:
        try:
            done.append(act())
        except (OSError, StageError) as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return done[0]


def _server_addresses() -> Iterator[str]:
    return (str(host) for host in ipaddress.ip_network("10.77.1.0/24").hosts())
