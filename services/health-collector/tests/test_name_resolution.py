"""What a look at a name says."""

import socket
import threading

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.testing.waiting import eventually
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.name_resolution import NameResolutionProbe
from leadsman_health_collector.resolver import MAX_THREADS, Resolver

KEY = StorageKey("nfs.csi.k8s.io", "nfs.example")


class Node:
    """A node with the endpoints `wanted` and a resolver that answers by `answers`; all other names stay silent."""

    def __init__(self) -> None:
        self.wanted: list[Endpoint] = []
        self.answers: dict[str, str | None] = {}
        self.end = threading.Event()
        self.resolver = Resolver(SystemClock(), self._look_up)
        self.probe = NameResolutionProbe(self._by_name, self.resolver, SystemClock(), 0.1)

    def _by_name(self) -> dict[str, Endpoint]:
        return {one.name: one for one in self.wanted}

    def _look_up(self, host: str) -> str:
        if host not in self.answers:
            self.end.wait(10)
        address = self.answers.get(host)
        if address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return address

    def discover(self, *hosts: str) -> list[str]:
        self.wanted = [Endpoint(KEY, host, 2049) for host in hosts]
        return sorted(self.probe.discover())


@pytest.fixture
def node():
    """Ends the threads of a test."""
    node = Node()
    yield node
    node.end.set()
    for thread in threading.enumerate():
        if thread.name.startswith("resolve "):
            thread.join(5)


def test_only_names_are_looked_at_and_each_once_per_backend(node):
    """Ports do not matter, addresses need no resolver."""
    other = StorageKey("kubernetes.io/nfs", "nfs.example")
    node.wanted = [
        Endpoint(KEY, "nfs.example", 2049),
        Endpoint(KEY, "nfs.example", 111),
        Endpoint(other, "nfs.example", 2049),
        Endpoint(KEY, "10.0.0.9", 2049),
        Endpoint(KEY, "fd00::9", 2049),
    ]
    names = node.probe.discover()
    assert set(names) == set(node.probe.choose(())) == {f"{KEY}@nfs.example", f"{other}@nfs.example"}
    assert {(source.key, source.place) for source in node.probe.sources().values()} == {
        (KEY, "nfs.example"),
        (other, "nfs.example"),
    }


async def test_a_name_resolves_or_does_not(node):
    """What the resolver finds is what the other probes use."""
    node.answers = {"good": "10.0.0.9", "bad": None}
    good, bad = reversed(node.discover("good", "bad"))
    seen = await node.probe.look(good)
    assert (seen.outcome, seen.reason) == (Outcome.GOOD, None)
    assert seen.latency_s is not None
    assert node.resolver.known("good") == "10.0.0.9"
    seen = await node.probe.look(bad)
    assert (seen.outcome, seen.reason) == (Outcome.ERROR, Reason.NAME_RESOLUTION_FAILED)
    assert seen.message == "bad cannot be resolved: Name or service not known"


async def test_silence_is_a_timeout_and_what_never_got_its_turn_was_not_looked_at(node):
    """A name must not be blamed because lookups of others do not come back."""
    names = node.discover(*(f"slow-{n}" for n in range(MAX_THREADS + 2)))
    first = [await node.probe.look(name) for name in names]
    outcomes = [(seen.outcome, seen.reason) for seen in first]
    assert outcomes[:MAX_THREADS] == [(Outcome.TIMEOUT, Reason.NAME_RESOLUTION_FAILED)] * MAX_THREADS
    assert outcomes[MAX_THREADS:] == [(Outcome.NOT_RUN, None)] * 2
    assert first[0].message == "slow-0 is not resolved within 0.1 s"
    node.end.set()
    await eventually("all lookups are over", lambda: node.resolver.at_work == 0, within_s=5)


async def test_a_name_that_is_no_longer_wanted_is_not_looked_at(node):
    """The list may change while a round is under way."""
    (name,) = node.discover("gone")
    node.discover()
    assert (await node.probe.look(name)).outcome is Outcome.NOT_RUN
