"""The backend list is said when it changes, again for newcomers, and not for every claim that comes and goes."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import SystemClock
from leadsman.wire.notices import Backend, BackendList, decode_backends
from leadsman_gateway.backends import BackendAnnouncer


class Stage:
    """An announcer with a list that the test changes."""

    def __init__(self, period_s: float) -> None:
        self.names: list[str] = []
        self.synced = True
        self.made = 0
        self.looked = 0
        self.said: list[list[str]] = []
        self.announcer = BackendAnnouncer(
            self,
            self.listing,
            self.look,
            clock=SystemClock(),
            registry=CollectorRegistry(),
            period_s=period_s,
            settle_s=0.01,
        )

    def look(self) -> bool:
        self.looked += 1
        return self.synced

    def listing(self) -> BackendList:
        self.made += 1
        return BackendList([Backend("nfs.csi.k8s.io", name) for name in self.names])

    async def publish(self, subject: str, body: bytes) -> bool:
        assert subject == "leadsman.v1.backends"
        self.said.append([one.backend for one in decode_backends(body).backends])
        return True

    def change(self, *names: str) -> None:
        self.names = list(names)
        self.announcer.changed()

    async def reach(self, condition) -> None:
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.001)


@pytest.fixture
async def stage():
    """Makes stages whose announcer runs until the end of the test."""
    running: list[asyncio.Task[None]] = []

    def make(period_s: float = 30.0) -> Stage:
        made = Stage(period_s)
        running.append(asyncio.create_task(made.announcer.run()))
        return made

    yield make
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_burst_of_changes_is_said_once(stage):
    """Reading a whole catalogue is thousands of changes."""
    one = stage()
    for number in range(100):
        one.change(*[f"nas-{each}" for each in range(number)])
    await one.reach(lambda: one.said)

    assert one.made == 1
    assert len(one.said[0]) == 99


async def test_change_that_leaves_the_list_as_it_was_is_not_said(stage):
    """Claims come and go all day; thousands of collectors need not hear of it."""
    one = stage()
    one.change("nas-a")
    await one.reach(lambda: one.made == 1)
    one.change("nas-a")
    await one.reach(lambda: one.made == 2)
    one.change("nas-b")
    await one.reach(lambda: one.made == 3)

    assert one.said == [["nas-a"], ["nas-b"]]


async def test_list_is_said_again_and_again_and_after_a_reconnect(stage):
    """A collector that starts later, or was cut off, learns it within the period."""
    one = stage(period_s=0.05)
    await one.reach(lambda: len(one.said) >= 3)

    other = stage()
    other.change("nas-a")
    await other.reach(lambda: other.said)
    await other.announcer.repeat()
    await other.reach(lambda: len(other.said) == 2)


async def test_half_read_catalogue_is_not_told(stage):
    """Collectors would stop probing what is merely not read yet."""
    one = stage(period_s=0.02)
    one.synced = False
    one.change("nas-a")
    await one.reach(lambda: one.looked == 3)
    assert one.said == []

    one.synced = True
    await one.reach(lambda: one.said)
