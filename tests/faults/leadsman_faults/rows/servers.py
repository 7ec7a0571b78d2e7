"""Storage servers that freeze, die or do not accept (facts: storage-health 0.2, 2 rows 1, 2, 7; 6.3)."""

import signal
from collections.abc import AsyncIterator

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults import ganesha
from leadsman_faults.node import Node
from leadsman_faults.row import Act, Row, Rows, Subject, expect

ROWS = Rows("network")

NFS = "nfs.csi.k8s.io"
PLAIN = "plain.faults.example"
"""A driver whose protocol nobody knows, so that a TCP connect is all that can be tried."""

PLAIN_PORT = 9000
CEPH = "rook-ceph.cephfs.csi.ceph.com"
MONITOR_PORT = 3300

REFUSED_S = 20.0
SILENT_S = 33.0

_REFUSED = (expect(State.UNHEALTHY, Reason.ENDPOINT_REFUSED, within_s=REFUSED_S),)
_NO_ANSWER = (expect(State.UNHEALTHY, Reason.PROTOCOL_TIMEOUT, within_s=SILENT_S),)


def _add(name: str, fault: str, act: Act, **how: object) -> None:
    ROWS.add(Row(name, fault, ROWS.group, act, **how))  # type: ignore[arg-type]


async def frozen_server(node: Node) -> AsyncIterator[Subject]:
    """SIGSTOP: the kernel goes on completing handshakes."""
    address = node.network.address()
    server = await node.nfs_server_process(address)
    subject = Subject(StorageKey(NFS, address))
    node.collector.endpoint(subject.key, address)
    while True:
        yield subject
        server.send(signal.SIGSTOP)
        yield subject
        server.send(signal.SIGCONT)


async def killed_server(node: Node) -> AsyncIterator[Subject]:
    """SIGKILL: its port is closed."""
    address = node.network.address()
    server = await node.nfs_server_process(address)
    subject = Subject(StorageKey(NFS, address))
    node.collector.endpoint(subject.key, address)
    while True:
        yield subject
        server.kill()
        yield subject
        server = await node.nfs_server_process(address)


async def frozen_plain_server(node: Node) -> AsyncIterator[Subject]:
    """It stops accepting and its queue fills: the kernel drops further SYNs."""
    address = node.network.address()
    command = node.network.inside(*node.python("-m", "leadsman.testing.tcp_backend", "--listen", f"{address}:9000"))
    server = node.process("tcp-backend", command)
    await node.until(server, f"{address} listens", lambda: "listening" in server.log.read_text())
    subject = Subject(StorageKey(PLAIN, address))
    node.collector.endpoint(subject.key, address, PLAIN_PORT)
    while True:
        yield subject
        server.send(signal.SIGUSR1)
        yield subject
        server.send(signal.SIGUSR2)


def frozen_monitors(number: int) -> Act:
    """So many of the three monitors of a Ceph cluster accept and stay silent."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        key = StorageKey(CEPH, f"cluster-{number}")
        addresses = [node.network.address() for _ in range(3)]
        monitors = [await node.greeter(address, MONITOR_PORT, b"ceph v2\n") for address in addresses]
        for address in addresses:
            node.collector.endpoint(key, address, MONITOR_PORT)
        while True:
            yield Subject(key)
            for monitor in monitors[:number]:
                monitor.silent = True
            yield Subject(key)
            for monitor in monitors[:number]:
                monitor.silent = False

    return act


def real_server(signalled: signal.Signals) -> Act:
    """nfs-ganesha, frozen or killed."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        machine = await node.network.machine()
        server = await ganesha.start(node, machine)
        subject = Subject(StorageKey(NFS, machine.address))
        node.collector.endpoint(subject.key, machine.address)
        while True:
            yield subject
            server.send(signalled)
            yield subject
            if signalled is signal.SIGSTOP:
                server.send(signal.SIGCONT)
            else:
                server = await ganesha.start(node, machine)

    return act


_add(
    "server-frozen",
    "NFS server frozen (SIGSTOP), still accepts TCP",
    frozen_server,
    expects=_NO_ANSWER,
)
_add("server-killed", "NFS server killed, port closed", killed_server, expects=_REFUSED)
_add(
    "ganesha-frozen",
    "real NFS server (nfs-ganesha) frozen (SIGSTOP)",
    real_server(signal.SIGSTOP),
    expects=_NO_ANSWER,
    needs=(ganesha.PROGRAM,),
)
_add(
    "ganesha-killed",
    "real NFS server (nfs-ganesha) killed",
    real_server(signal.SIGKILL),
    expects=_REFUSED,
    needs=(ganesha.PROGRAM,),
)
_add(
    "backlog-full",
    "server does not accept, its queue is full",
    frozen_plain_server,
    expects=(expect(State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT, within_s=SILENT_S),),
)
for _number, _words in ((1, "one"), (2, "two")):
    _add(
        f"ceph-{_words}",
        f"{_words} of three Ceph monitors frozen",
        frozen_monitors(_number),
        expects=(
            expect(State.DEGRADED, Reason.PATHS_DEGRADED, within_s=SILENT_S)
            if _number == 1
            else expect(State.UNHEALTHY, Reason.PROTOCOL_TIMEOUT, within_s=SILENT_S),
        ),
        worst=State.DEGRADED if _number == 1 else State.UNHEALTHY,
    )
