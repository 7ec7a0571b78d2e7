"""The pool of killable processes, with real processes: few, used again, and never in the way."""

import asyncio
import contextlib
import errno
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.testing.clock import FakeClock
from leadsman_health_collector import worker_process, workers
from leadsman_health_collector.mount_worker import look_job
from leadsman_health_collector.workers import MAX_RUNNING, SPARE_S, Finished, Overdue, Refused, WorkerPool

pytestmark = pytest.mark.integration

NODE = f"pool-{os.getpid()}"
OBEDIENT = """
import os, time
def say(text):
    os.write(0, text)
while job := os.read(0, 65536):
    exec(job.decode().split(" ", 1)[1])
"""
"""A worker whose jobs are what it should do."""


def alive() -> set[int]:
    """Workers of this test that exist."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().split(b"\0")
            if line[-4:-2] == [NODE.encode(), b"boot-1"]:
                found.add(int(path.parent.name))
    return found


@contextlib.asynccontextmanager
async def pool_of(clock=None):
    pool = WorkerPool(NODE, "boot-1", clock or SystemClock())
    try:
        yield pool
    finally:
        await pool.close()
        assert alive() == set()
        assert (pool.processes, pool.running, pool.stuck) == (0, 0, 0)


@pytest.fixture
def obedient(tmp_path, monkeypatch):
    """Workers do what their jobs say."""
    script = tmp_path / "worker.py"
    script.write_text(OBEDIENT)
    monkeypatch.setattr(workers, "WORKER", script)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_one_process_does_all_looks_and_nothing_piles_up(tmp_path):
    """500 looks, 20 at a time: the same process, the same number of descriptors."""
    async with pool_of() as pool:
        assert isinstance(await pool.run("0:0", look_job(str(tmp_path)), 5), Finished)
        before, open_before = alive(), descriptors()
        for _ in range(25):
            found = await asyncio.gather(*(pool.run(f"0:{n}", look_job(str(tmp_path)), 5) for n in range(20)))
            assert all(isinstance(one, Finished) and one.answer.startswith("ok ") for one in found)
        assert (alive(), descriptors(), pool.processes, pool.running) == (before, open_before, 1, 0)
    assert descriptors() == open_before - 2


@pytest.mark.parametrize("name", [b"a b", b"a\nb", b"a\\b\t", b"\xff\xfe", "ü".encode(), b"x" * 250])
async def test_paths_may_hold_any_byte(tmp_path, name):
    """A directory that exists only by its exact bytes."""
    path = tmp_path / os.fsdecode(name)
    path.mkdir()
    async with pool_of() as pool:
        found = await pool.run("0:1", look_job(str(path)), 5)
        assert found.answer.startswith("ok ")
        found = await pool.run("0:1", look_job(str(path) + "/.." * 3000), 5)
        assert found.answer == f"error {errno.ENAMETOOLONG} statvfs"


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


async def test_an_idle_worker_bears_no_place_in_its_name():
    """Else one that is left behind would count as stuck there."""
    async with pool_of() as pool:
        await pool.run("4095:1048575", look_job("/"), 5)
        (pid,) = alive()
        assert name_of(pid) == "leadsman-idle"


@pytest.mark.usefixtures("obedient")
async def test_a_job_that_takes_long_does_not_keep_the_others_waiting(until):
    """Beyond a moment's patience another worker goes on; the spare one ends when nobody has needed it for long."""
    clock = FakeClock()
    async with pool_of(clock) as pool:
        slow = asyncio.create_task(pool.run("0:1", "time.sleep(0.5); say(b'late')", 5))
        await until(lambda: pool.running == 1, "it is at work")
        begin = time.monotonic()
        assert await pool.run("0:2", "say(b'soon')", 5) == Finished("soon")
        assert time.monotonic() - begin < 0.4
        assert (pool.processes, pool.running) == (2, 1)
        assert (pool.is_out("0:1"), pool.is_out("0:2")) == (True, False)
        assert await pool.run("0:1", "say(b'double')", 5) == Overdue(0.0), "one at a time at a place"
        assert await slow == Finished("late")
        assert not pool.is_out("0:1")
        clock.advance(SPARE_S)
        assert await pool.run("0:2", "say(b'again')", 5) == Finished("again")
        await until(lambda: pool.processes == 1, "the spare one ends")
        assert await pool.run("0:2", "say(b'and again')", 5) == Finished("and again")


@pytest.mark.usefixtures("obedient")
async def test_a_place_where_somebody_is_waits_for_no_turn(monkeypatch, until):
    """What is known is said at once, also while all who may be at work are."""
    monkeypatch.setattr(workers, "MAX_RUNNING", 1)
    async with pool_of() as pool:
        slow = asyncio.create_task(pool.run("0:1", "time.sleep(1); say(b'late')", 5))
        await until(lambda: pool.running == 1, "it is at work")
        async with asyncio.timeout(0.5):
            assert isinstance(await pool.run("0:1", "say(b'double')", 5), Overdue)
        slow.cancel()


@pytest.mark.usefixtures("obedient")
async def test_an_overdue_worker_is_killed_and_never_used_again(until):
    """The next look at that place is a normal one, by another process."""
    async with pool_of() as pool:
        await pool.run("0:1", "say(b'here')", 5)
        first = alive()
        assert await pool.run("0:1", "time.sleep(60)", 0.2) == Overdue(0.2)
        await until(lambda: pool.stuck == 0 and not alive(), "it has been killed")
        assert await pool.run("0:1", "say(b'back')", 5) == Finished("back")
        assert not first & alive()


@pytest.mark.usefixtures("obedient")
@pytest.mark.parametrize(
    ("job", "answer", "left"),
    [
        ("raise SystemExit(1)", "", 0),
        ("os.kill(os.getpid(), 9)", "", 0),
        ("say(b'last words'); os.kill(os.getpid(), 9)", "last words", 0),
        ("os.close(0); os._exit(0)", "", 0),
        ("say(bytes([255, 0, 254]))", "\ufffd\0\ufffd", 1),
        ("say(b'x' * 100_000)", "x" * worker_process.MAX_ANSWER_BYTES, 1),
        ("print('noise', flush=True); say(b'signal')", "signal", 1),
    ],
)
async def test_a_worker_that_dies_or_talks_nonsense_costs_one_look(until, job, answer, left):
    """Whatever it says or leaves unsaid, the place is free and the next look is fine."""
    async with pool_of() as pool:
        assert await pool.run("0:1", job, 5) == Finished(answer)
        assert pool.running == 0
        await until(lambda: pool.processes == left, "it has ended, or not")
        assert await pool.run("0:1", "say(b'fine')", 5) == Finished("fine")


@pytest.mark.usefixtures("obedient")
async def test_a_worker_that_talks_unasked_is_ended(until):
    """Its words could be taken for the answer to the next job."""
    async with pool_of() as pool:
        assert await pool.run("0:1", "say(b'one'); say(b'two')", 5) == Finished("one")
        await until(lambda: pool.processes == 0, "it has been ended")
        assert await pool.run("0:1", "say(b'three')", 5) == Finished("three")


async def test_an_idle_worker_that_is_killed_is_replaced(until):
    """By the kernel when memory is short, say."""
    async with pool_of() as pool:
        await pool.run("0:1", look_job("/"), 5)
        (pid,) = alive()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: pool.processes == 0, "its end is noticed")
        assert (await pool.run("0:1", look_job("/"), 5)).answer.startswith("ok ")
        (pid,) = alive()
        os.kill(pid, signal.SIGKILL)  # and this time nobody has had the time to notice
        found = await pool.run("0:1", look_job("/"), 5)
        assert isinstance(found, Refused) or found == Finished("")


@pytest.mark.usefixtures("obedient")
async def test_an_answer_counts_though_the_collector_itself_was_late(until):
    """A machine that was suspended, or a busy loop, must not make healthy mounts look hung."""
    async with pool_of() as pool:
        await pool.run("0:1", "say(b'started')", 5)
        look = asyncio.create_task(pool.run("0:1", "time.sleep(0.1); say(b'in time')", 0.3))
        await until(lambda: pool.running == 1, "it is at work")
        time.sleep(0.5)  # noqa: ASYNC251 - the loop is held up on purpose
        assert await look == Finished("in time")


@pytest.mark.usefixtures("obedient")
async def test_a_look_that_is_cancelled_leaves_nobody_behind(until):
    """As at the end of the collector."""
    async with pool_of() as pool:
        look = asyncio.create_task(pool.run("0:1", "time.sleep(60)", 30))
        await until(lambda: pool.running == 1, "it is at work")
        look.cancel()
        await asyncio.wait({look})
        assert look.cancelled()
        await until(lambda: not alive() and pool.processes == 0, "it has been killed")
        assert await pool.run("0:1", "say(b'next')", 5) == Finished("next")


@pytest.mark.usefixtures("obedient")
async def test_places_that_hung_do_not_starve_the_others(until):
    """However many do, a look at another place is had within moments."""
    async with pool_of() as pool:
        hang = [pool.run(f"9:{n}", "time.sleep(60)", 0.3) for n in range(6)]
        assert all(isinstance(one, Overdue) for one in await asyncio.gather(*hang))
        await until(lambda: pool.stuck == 0, "all have been killed")
        hang = [asyncio.create_task(pool.run(f"9:{n}", "time.sleep(60)", 0.6)) for n in range(6)]
        await until(lambda: pool.running == workers.MAX_SUSPECT, "as many are out as may be")
        begin = time.monotonic()
        assert await pool.run("0:1", "say(b'well')", 5) == Finished("well")
        assert time.monotonic() - begin < 0.5
        assert pool.processes <= MAX_RUNNING
        await asyncio.gather(*hang)


@pytest.mark.usefixtures("obedient")
async def test_the_limit_of_stuck_workers_counts_those_that_may_become_so(monkeypatch, until):
    """Not one more than the limit, also when several places hang at the same moment."""
    monkeypatch.setattr(workers, "MAX_STUCK", 3)
    async with pool_of() as pool:
        looks = [pool.run(f"9:{n}", "time.sleep(60)", 0.6) for n in range(4)]
        found = await asyncio.gather(*looks)
        assert sorted(type(one).__name__ for one in found) == ["Overdue", "Overdue", "Overdue", "Refused"]


@pytest.mark.parametrize("place", ["", "0:1 2", "0:1\n", "4095:10485750", "ü"])
async def test_a_place_that_no_process_can_be_called_after_is_refused(place):
    """It would not be found again."""
    async with pool_of() as pool:
        assert isinstance(await pool.run(place, look_job("/"), 5), Refused)


def no_descriptor(pid: int) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_a_worker_that_cannot_be_started_says_nothing_about_the_place(monkeypatch, until):
    """No interpreter, no descriptors: a look that was not had, and nothing left over."""
    async with pool_of() as pool:
        before = descriptors()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/nonexistent/python")
            assert isinstance(await pool.run("0:1", look_job("/"), 5), Refused)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pidfd_open", no_descriptor)
            assert isinstance(await pool.run("0:1", look_job("/"), 5), Refused)
        assert (descriptors(), pool.processes, alive()) == (before, 0, set())
        assert isinstance(await pool.run("0:1", look_job("/"), 5), Finished)


async def test_a_worker_ends_when_its_collector_is_killed(until):
    """Nobody tells it; it finds that there is nobody left to work for."""
    script = (
        "import asyncio, os, signal, sys\n"
        "from leadsman.domain.clock import SystemClock\n"
        "from leadsman_health_collector.mount_worker import look_job\n"
        "from leadsman_health_collector.workers import WorkerPool\n"
        "async def main():\n"
        "    await WorkerPool(sys.argv[1], 'boot-1', SystemClock()).run('0:1', look_job('/'), 5)\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-P", "-c", script, NODE]
    collector = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert collector.stdout is not None
    assert await collector.stdout.readline() == b"ready\n"
    assert alive()
    collector.kill()
    await collector.wait()
    await until(lambda: not alive(), "its worker has ended")
