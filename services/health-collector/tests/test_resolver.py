"""Looking names up in threads that may not come back."""

import asyncio
import socket
import threading

import pytest

from leadsman.testing.clock import FakeClock
from leadsman.testing.waiting import eventually
from leadsman_health_collector import resolver as module
from leadsman_health_collector.resolver import (
    MAX_NAMES,
    MAX_THREADS,
    REFRESH_S,
    LookupsBusyError,
    NameLookupError,
    Resolver,
    first_address,
)


class Dns:
    """A resolver that answers, fails or stays silent by name; `release` ends all silence."""

    def __init__(self) -> None:
        self.answers: dict[str, str | Exception] = {}
        self.asked: list[str] = []
        self.silence = threading.Event()

    def look_up(self, host: str) -> str:
        self.asked.append(host)
        answer = self.answers.get(host)
        if answer is None:
            self.silence.wait(10)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def dns():
    """Ends the threads of a test."""
    dns = Dns()
    yield dns
    dns.silence.set()
    for thread in threading.enumerate():
        if thread.name.startswith("resolve "):
            thread.join(5)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def resolver(dns: Dns, clock: FakeClock) -> Resolver:
    return Resolver(clock, dns.look_up)


async def soon(awaitable):
    async with asyncio.timeout(5):
        return await awaitable


@pytest.mark.parametrize("address", ["10.0.0.9", "fd00::9", "fe80::9%eth0"])
async def test_an_address_is_not_looked_up(resolver, dns, address):
    """It works without any resolver."""
    assert resolver.known(address) == await soon(resolver.address(address)) == await soon(resolver.resolve(address))
    resolver.refresh(address)
    assert dns.asked == []


async def test_a_known_name_is_answered_at_once_and_renewed_behind_the_scenes(resolver, dns, clock):
    """A mount works with its old address while DNS is slow, and so do we."""
    dns.answers["nfs"] = "10.0.0.1"
    assert resolver.known("nfs") is None
    assert await soon(resolver.address("nfs")) == "10.0.0.1"
    assert await soon(resolver.address("nfs")) == "10.0.0.1"
    assert dns.asked == ["nfs"]
    dns.answers["nfs"] = "10.0.0.2"
    clock.advance(REFRESH_S)
    assert await soon(resolver.address("nfs")) == "10.0.0.1"
    await eventually("the new address", lambda: resolver.known("nfs"), lambda known: known == "10.0.0.2", within_s=5)


async def test_the_last_good_address_stands_while_the_resolver_fails(resolver, dns):
    """Failing DNS is not failing storage."""
    dns.answers["nfs"] = "10.0.0.1"
    await soon(resolver.resolve("nfs"))
    dns.answers["nfs"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    with pytest.raises(NameLookupError, match="nfs cannot be resolved: Name or service not known"):
        await soon(resolver.resolve("nfs"))
    assert await soon(resolver.address("nfs")) == "10.0.0.1"


async def test_a_name_that_never_was_resolved_has_no_address(resolver, dns):
    """Names that no resolver can take fail in the same way."""
    for host, failure in [("a", socket.gaierror(-2, "unknown")), ("b..c", UnicodeError("label empty"))]:
        dns.answers[host] = failure
        with pytest.raises(NameLookupError, match=host):
            await soon(resolver.address(host))


async def test_one_lookup_per_name_is_out_and_all_who_ask_share_it(resolver, dns):
    """Ten endpoints on one server are one question; who gives up does not take the answer from the others."""
    asking = [asyncio.create_task(resolver.resolve("slow")) for _ in range(10)]
    await eventually("it is asked", lambda: dns.asked, within_s=5)
    asking[0].cancel()
    await asyncio.sleep(0)
    resolver.refresh("slow")
    assert dns.asked == ["slow"]
    dns.silence.set()
    answers = await soon(asyncio.gather(*asking, return_exceptions=True))
    assert [type(answer) for answer in answers] == [asyncio.CancelledError] + [NameLookupError] * 9


async def test_lookups_that_do_not_come_back_take_a_few_threads_and_no_more(resolver, dns):
    """Further names wait, are told apart from names that fail, and get their turn in order."""
    before = threading.active_count()
    asking = [asyncio.create_task(resolver.resolve(f"slow-{n}")) for n in range(20)]
    await eventually("threads are at work", lambda: len(dns.asked) == MAX_THREADS, within_s=5)
    assert threading.active_count() - before == resolver.at_work == MAX_THREADS
    assert [resolver.waits_for_turn(f"slow-{n}") for n in range(20)] == [False] * MAX_THREADS + [True] * 16
    dns.silence.set()
    await soon(asyncio.gather(*asking, return_exceptions=True))
    assert sorted(dns.asked) == sorted(f"slow-{n}" for n in range(20))
    assert resolver.at_work == 0
    await eventually("the threads end", lambda: threading.active_count() == before, within_s=5)


async def test_the_names_that_wait_are_bounded(resolver, dns):
    """A list of backends that changes all the time must not fill the memory while DNS is dead."""
    for n in range(MAX_NAMES):
        resolver.refresh(f"slow-{n}")
    with pytest.raises(LookupsBusyError):
        await soon(resolver.resolve("one-more"))
    assert not resolver.waits_for_turn("one-more")


async def test_the_names_that_are_remembered_are_bounded(dns, clock):
    """Those not asked for longest go first."""
    resolver = Resolver(clock, lambda _: "10.0.0.1")
    for n in range(MAX_NAMES + 5):
        await soon(resolver.resolve(f"name-{n}"))
    assert resolver.known("name-4") is None
    assert resolver.known("name-5") == "10.0.0.1"


async def test_a_node_without_threads_to_spare_says_so(resolver, monkeypatch):
    """Every waiting name is told; none is taken for unresolvable."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    answers = await soon(asyncio.gather(*(resolver.resolve(f"n-{n}") for n in range(100)), return_exceptions=True))
    assert {type(answer) for answer in answers} == {LookupsBusyError}
    assert resolver.at_work == 0


def test_a_lookup_that_outlives_the_event_loop_does_no_harm(dns, clock):
    """The process ends without it."""

    async def ask() -> None:
        Resolver(clock, dns.look_up).refresh("slow")
        await eventually("it is asked", lambda: dns.asked, within_s=5)

    asyncio.run(ask())
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "resolve slow"]
    assert thread.daemon
    dns.silence.set()
    thread.join(5)
    assert not thread.is_alive()


def test_the_first_of_several_addresses_is_used(monkeypatch):
    """As a mount would."""
    found = [(0, 0, 0, "", ("fd00::9", 0, 0, 0)), (0, 0, 0, "", ("10.0.0.9", 0))]
    monkeypatch.setattr(module.socket, "getaddrinfo", lambda *_, **__: found)
    assert first_address("nfs") == "fd00::9"


def test_the_systems_resolver_knows_this_machine():
    """The hosts file is asked, as for a mount."""
    assert first_address("localhost") in {"127.0.0.1", "::1"}
