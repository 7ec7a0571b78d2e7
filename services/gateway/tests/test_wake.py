"""Waking is paced: one write per second at most, and the last word is always written."""

import asyncio
import itertools

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from leadsman.domain.clock import SystemClock
from leadsman.domain.errors import LeadsmanError
from leadsman.testing.clock import FakeClock
from leadsman.wire.notices import WakeNotice, encode_notice
from leadsman_gateway.wake import SETTLE_S, Coalescer, Reconnection, Waker

STEP_S = 0.0625  # exact in binary, so that sums are


def drive(coalescer: Coalescer, clock: FakeClock, notices: dict[float, str], until: float) -> list[tuple[float, str]]:
    """(time, value) of every write when `notices` (time: value) come in; time goes by in sixteenths of a second."""
    writes: list[tuple[float, str]] = []
    start = clock.monotonic()
    while (at := clock.monotonic() - start) <= until:
        for value in [value for time, value in notices.items() if at <= time < at + STEP_S]:
            coalescer.want(value, clock.monotonic())
        if coalescer.due_in(clock.monotonic()) == 0:
            value = coalescer.take(clock.monotonic())
            assert value is not None
            writes.append((at, value))
            coalescer.succeeded(value)
        clock.advance(STEP_S)
    return writes


def made() -> Coalescer:
    """One that lets a wave gather for a step."""
    return Coalescer(settle_s=STEP_S)


def test_first_notice_waits_for_those_of_the_other_replicas_only():
    """Two replicas that announce one recovery a moment apart cost one write, which a recovery hardly waits for."""
    assert drive(made(), FakeClock(), {0.0: "a.1", 0.03: "b.1"}, 3.0) == [(STEP_S, "b.1")]
    assert 0.02 < SETTLE_S <= 0.1


def test_wave_of_notices_is_two_writes():
    """What came first and what came last within a second; nothing in between, and nothing after."""
    notices = {0.1 * number: f"v{number}" for number in range(9)}

    assert drive(made(), FakeClock(), notices, 5.0) == [(STEP_S, "v1"), (1.0 + STEP_S, "v8")]


def test_writes_are_a_second_apart_however_many_notices():
    """A cluster that recovers for ten seconds costs eleven writes."""
    notices = {0.05 * number: f"v{number}" for number in range(200)}
    writes = drive(made(), FakeClock(), notices, 15.0)

    assert len(writes) == 11
    assert all(later[0] - earlier[0] >= 1.0 for earlier, later in itertools.pairwise(writes))
    assert writes[-1][1] == "v199"


def test_nothing_is_taken_before_its_time():
    """The pace holds whoever asks."""
    coalescer = made()
    coalescer.want("a", 9.0)
    assert coalescer.take(9.05) is None
    assert coalescer.take(10.0) == "a"
    coalescer.want("b", 10.5)

    assert coalescer.take(10.9) is None
    assert coalescer.take(11.0) == "b"


def test_same_value_is_not_written_twice():
    """A notice that comes again, by another way, wakes nobody anew."""
    assert drive(made(), FakeClock(), {0.0: "a", 2.0: "a", 4.0: "b"}, 6.0) == [(STEP_S, "a"), (4.0 + STEP_S, "b")]


def test_failed_write_waits_longer_each_time_and_yields_to_a_newer_value():
    """Half a second, doubled up to 30 s; the value is not lost, and the newest one is what is tried."""
    coalescer, clock = Coalescer(), FakeClock()
    coalescer.want("a", clock.monotonic())
    pauses = []
    for _ in range(8):
        clock.advance(100)
        value = coalescer.take(clock.monotonic())
        assert value == "a"
        pauses.append(coalescer.failed(value, clock.monotonic()))
        assert coalescer.due_in(clock.monotonic()) == max(1.0, pauses[-1])
    coalescer.want("b", clock.monotonic())
    clock.advance(100)

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert coalescer.take(clock.monotonic()) == "b"


class Writer:
    """Fails as often as told, then keeps what it gets."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or LeadsmanError("the API server is away")
        self.values: list[str] = []
        self.wrote = asyncio.Event()

    async def write(self, value: str) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error
        self.values.append(value)
        self.wrote.set()


@pytest.fixture
async def waker():
    """Makes wakers whose `run` goes on until the end of the test."""
    running: list[asyncio.Task[None]] = []
    registry = CollectorRegistry()

    def make(writer):
        made = Waker(writer, clock=SystemClock(), registry=registry)
        running.append(asyncio.create_task(made.run()))
        return made, registry

    yield make
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


@pytest.mark.parametrize("error", [LeadsmanError("no right"), RuntimeError("a bug")])
async def test_failed_write_is_counted_shown_and_tried_again(waker, error):
    """Whatever goes wrong: the error stands on /readyz until a write succeeds."""
    writer = Writer(failures=1, error=error)
    one, registry = waker(writer)
    one.wake("v")
    async with asyncio.timeout(5):
        while registry.get_sample_value("leadsman_gateway_wake_write_errors_total") != 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not one.describe()[0]
        assert str(error) in one.describe()[1]
        await writer.wrote.wait()

    assert writer.values == ["v"]
    assert one.describe() == (True, "on")


async def test_without_a_writer_it_is_off_and_says_so(waker):
    """No cluster: notices are read and nothing happens."""
    one, _ = waker(None)
    one.on_notice(encode_notice(WakeNotice("i", 1)))

    fine, words = one.describe()
    assert fine
    assert "off" in words


async def test_filter_that_is_back_wakes_only_after_closed_answers(waker):
    """Answers come all the time; only pods that were rejected meanwhile need a new try, once."""
    writer, closed = Writer(), [0]
    one, registry = waker(writer)
    reconnection = Reconnection(one, lambda: closed[0], FakeClock())

    reconnection.filter_heard("a")
    assert registry.get_sample_value("leadsman_gateway_wake_notices_total") == 0
    closed[0] = 3
    reconnection.filter_heard("b")
    reconnection.filter_heard("b")

    assert registry.get_sample_value("leadsman_gateway_wake_notices_total") == 1


async def test_each_wave_of_closed_answers_has_a_value_of_its_own(waker):
    """A second one within the same second must be written, too: the API server ignores a value that is there."""
    values, closed, clock = [], [0], FakeClock()
    one, _ = waker(Writer())
    one.wake = values.append
    reconnection = Reconnection(one, lambda: closed[0], clock)
    for _ in range(2):
        closed[0] += 1
        clock.advance(0.2)
        reconnection.filter_heard("a")

    assert len(set(values)) == 2


async def test_flood_of_unreadable_notices_is_counted_and_logged_once(waker):
    """Somebody's broken client must not fill the disk."""
    one, registry = waker(Writer())
    with capture_logs() as lines:
        for _ in range(100):
            one.on_notice(b"hello")

    assert registry.get_sample_value("leadsman_gateway_wake_notices_bad_total") == 100
    assert [line["event"] for line in lines] == ["wake notice ignored"]
