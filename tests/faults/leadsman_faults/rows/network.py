"""Storage servers that freeze, and ways to them that break (facts: storage-health 2 rows 1, 2, 28, 32, 33; 6.2)."""

from collections.abc import AsyncIterator

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_faults.names import ZONE, label_rule
from leadsman_faults.network import Link
from leadsman_faults.node import Node
from leadsman_faults.row import Act, Row, Rows, Subject, expect

ROWS = Rows("network")

NFS = "nfs.csi.k8s.io"
PLAIN = "plain.faults.example"
"""A driver whose protocol nobody knows, so that a TCP connect is all that can be tried."""

PLAIN_PORT = 9000

REFUSED_S = 20.0
SILENT_S = 33.0
NAME_S = 3 * 30.0 + 4.0
"""Facts 3.1, P7: looked at every 30 s, and three silent looks decide. Row 28 of facts 2 says 33 s, which that cannot
keep; the address in use goes on working meanwhile."""

_REFUSED = (expect(State.UNHEALTHY, Reason.ENDPOINT_REFUSED, within_s=REFUSED_S),)
_UNREACHABLE = (expect(State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT, within_s=REFUSED_S),)
_SILENT = (expect(State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT, Reason.PROTOCOL_TIMEOUT, within_s=SILENT_S),)
_NO_CONNECTION = (expect(State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT, within_s=SILENT_S),)


def _add(name: str, fault: str, act: Act, **how: object) -> None:
    ROWS.add(Row(name, fault, ROWS.group, act, **how))  # type: ignore[arg-type]


def filtered(name: str, *rules: str, driver: str = NFS) -> Act:
    """Nftables rules at the server; `{}` in them becomes its address."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        key = await node.nfs_backend(driver, port=PLAIN_PORT if driver == PLAIN else 2049)
        while True:
            yield Subject(key)
            await node.network.rule(name, *(rule.format(key.backend) for rule in rules))
            yield Subject(key)
            await node.network.lift(name)

    return act


async def _linked(node: Node) -> tuple[Link, Subject]:
    link = await node.network.link()
    await node.nfs_server(link.address)
    key = StorageKey(NFS, link.address)
    node.collector.endpoint(key, link.address)
    return link, Subject(key)


async def own_link_down(node: Node) -> AsyncIterator[Subject]:
    """The node's own interface goes down: no route at once."""
    link, subject = await _linked(node)
    while True:
        yield subject
        await node.set_link(link.node_end, up=False)
        yield subject
        await node.set_link(link.node_end, up=True)


async def peer_link_down(node: Node) -> AsyncIterator[Subject]:
    """The server's interface goes down: nobody answers ARP."""
    link, subject = await _linked(node)
    while True:
        yield subject
        await node.network.run("ip", "link", "set", link.server_end, "down")
        yield subject
        await node.network.run("ip", "link", "set", link.server_end, "up")


async def flapping_link(node: Node) -> AsyncIterator[Subject]:
    """Down until it is noticed, up until that is noticed, and again."""
    link, subject = await _linked(node)
    key, watch, limit = subject.key, node.watch, node.pace.limit(60.0)
    while True:
        yield subject
        for _ in range(2):
            await node.set_link(link.node_end, up=False)
            await watch.until(lambda: watch.now(key).state is State.UNHEALTHY, limit)
            await node.set_link(link.node_end, up=True)
            await watch.until(lambda: watch.now(key).state in {State.HEALTHY, State.DEGRADED}, limit)
        yield subject


def unresolved(label: str, verdict: str) -> Act:
    """The name of a server that is well is no longer resolved."""

    async def act(node: Node) -> AsyncIterator[Subject]:
        address, name = node.network.address(), f"{label}.{ZONE}"
        await node.nfs_server(address)
        node.names.addresses[name] = address
        key = StorageKey(NFS, name)
        node.collector.endpoint(key, name)
        subject = Subject(key)
        while True:
            yield subject
            if verdict:
                await node.network.rule(f"dns-{label}", label_rule(label, verdict))
            else:
                del node.names.addresses[name]
            yield subject
            if verdict:
                await node.network.lift(f"dns-{label}")
            else:
                node.names.addresses[name] = address

    return act


async def one_address_of_two(node: Node) -> AsyncIterator[Subject]:
    """A backend with two addresses loses one."""
    first, second = node.network.address(), node.network.address()
    key = StorageKey(NFS, "two-addresses")
    for address in (first, second):
        await node.nfs_server(address)
        node.collector.endpoint(key, address)
    while True:
        yield Subject(key)
        await node.network.rule("one-address", f"input ip daddr {first} counter drop")
        yield Subject(key)
        await node.network.lift("one-address")


async def driver_with_a_dead_backend(node: Node) -> AsyncIterator[Subject]:
    """One backend of several dies: the driver itself is degraded, no more."""
    driver = "several.faults.example"
    dying, _ = await node.nfs_backend(driver), await node.nfs_backend(driver)
    await node.plugin(driver).start()
    while True:
        yield Subject(StorageKey(driver))
        await node.network.rule("driver-degraded", f"input ip daddr {dying.backend} counter drop")
        yield Subject(StorageKey(driver))
        await node.network.lift("driver-degraded")


_add(
    "packets-dropped",
    "packets dropped both ways",
    filtered("packets-dropped", "input ip daddr {} counter drop", "output ip saddr {} counter drop"),
    expects=_SILENT,
)
_add(
    "replies-dropped",
    "only the server's replies dropped",
    filtered("replies-dropped", "output ip saddr {} counter drop"),
    expects=_SILENT,
)
_add("rejected", "rejected with ICMP", filtered("rejected", "input ip daddr {} counter reject"), expects=_REFUSED)
_add(
    "reset",
    "rejected with TCP reset",
    filtered("reset", "input ip daddr {} meta l4proto tcp counter reject with tcp reset"),
    expects=_REFUSED,
)
_add(
    "host-unreachable",
    "rejected with ICMP host unreachable",
    filtered("host-unreachable", "input ip daddr {} counter reject with icmpx type host-unreachable"),
    expects=_UNREACHABLE,
)
_add(
    "half-lost",
    "every second packet to the server lost",
    filtered("half-lost", "input ip daddr {} numgen inc mod 2 == 0 counter drop"),
    worst=State.DEGRADED,
    hold_s=90.0,
    min_period_s=10.0,
)
_add(
    "plain-dropped",
    "packets dropped, no known protocol",
    filtered("plain-dropped", "input ip daddr {} counter drop", driver=PLAIN),
    expects=_NO_CONNECTION,
)
_add("own-link-down", "the node's link down", own_link_down, expects=_UNREACHABLE)
_add("peer-link-down", "the server's link down", peer_link_down, expects=_SILENT)
_add(
    "link-flaps",
    "link goes down and up twice",
    flapping_link,
    expects=(expect(State.DEGRADED, Reason.FLAPPING, within_s=150.0),),
    recover_s=330.0,
    soakable=False,
)
_add(
    "one-address",
    "one of a backend's two addresses dropped",
    one_address_of_two,
    expects=(expect(State.DEGRADED, Reason.PATHS_DEGRADED, within_s=SILENT_S),),
    worst=State.DEGRADED,
)
_add(
    "driver-degraded",
    "one backend of a driver dead, seen from the driver",
    driver_with_a_dead_backend,
    expects=(expect(State.DEGRADED, Reason.ENDPOINT_TIMEOUT, Reason.PROTOCOL_TIMEOUT, within_s=SILENT_S),),
    worst=State.DEGRADED,
)
for _label, _verdict, _words in (
    ("dropped", "drop", "DNS questions dropped"),
    ("refused", "reject", "DNS questions refused"),
    ("unknown", "", "DNS says there is no such name"),
):
    _add(
        f"dns-{_label}",
        f"{_words}, the server is well",
        unresolved(_label, _verdict),
        expects=(expect(State.DEGRADED, Reason.NAME_RESOLUTION_FAILED, within_s=NAME_S),),
        worst=State.DEGRADED,
        recover_s=65.0,
    )
