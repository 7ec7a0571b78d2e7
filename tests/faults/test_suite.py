"""The suite itself: what it must call a miss, what it counts, and what its small servers answer."""

import asyncio
import dataclasses
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman_faults import rpc_responder, table
from leadsman_faults.census import Census, take
from leadsman_faults.names import Names
from leadsman_faults.node import Node
from leadsman_faults.pace import SHIPPED, SHORT, Pace, with_period
from leadsman_faults.play import Playing, Result, Verdict
from leadsman_faults.row import Row, Subject, expect, expect_volume, why_not_here
from leadsman_faults.rows import ALL
from leadsman_faults.soak import grown
from leadsman_faults.watch import Watch

KEY = StorageKey("d.example", "10.0.0.9")
PACE = Pace(period_s=0.1, deadline_s=0.03, heartbeat_s=1.0, flap_hold_s=1.0, flap_max_hold_s=1.0, slack_s=0.1)
TIMEOUT = Reason.ENDPOINT_TIMEOUT
DOWN = (expect(State.UNHEALTHY, TIMEOUT, within_s=10.0),)


class Reports:
    """A watch, and what is reported to it."""

    def __init__(self) -> None:
        self.watch = Watch("n")

    def say(self, state: State, reason: Reason | None = None, *bad: str, latency_s: float | None = None) -> None:
        """One report about KEY and its bad volumes."""
        status = StorageStatus(KEY, state, reason, latency_s=latency_s)
        volumes = tuple(VolumeStatus(KEY.driver, name, State.UNHEALTHY, Reason.STALE_FILE_HANDLE) for name in bad)
        report = NodeReport("n", Sequence(1, 1), 1.0, (status,), bad_volumes=volumes)
        self.watch.take(report, time.monotonic())

    def well(self) -> None:
        """KEY is HEALTHY."""
        self.say(State.HEALTHY)


async def play(
    broken: Callable[[Reports], None], mended: Callable[[Reports], None], *, well: tuple[str, ...] = (), **row: object
) -> Result:
    """The result of a row whose fault and repair lead to these reports; it is well at first."""
    reports = Reports()
    volume = "v" if any(one.volume for one in cast("tuple", row.get("expects", DOWN))) else ""  # type: ignore[type-arg]

    async def act(_: Node) -> AsyncIterator[Subject]:
        subject = Subject(KEY, volume, well=well)
        reports.well()
        yield subject
        broken(reports)
        yield subject
        mended(reports)

    node = SimpleNamespace(
        watch=reports.watch,
        pace=PACE,
        collector=SimpleNamespace(alive=True, pid=1),
        network=SimpleNamespace(unmet=set()),
    )
    given: dict[str, object] = {"expects": DOWN, "hold_s": 2.0, "recover_s": 5.0, **row}
    playing = Playing(Row("r", "a fault", "g", act, **given), cast("Node", node), lambda _name, _words: None)  # type: ignore[arg-type]
    await playing.prepare()
    await playing.settle()
    return await playing.play()


def down(reports: Reports) -> None:
    """As expected."""
    reports.say(State.UNHEALTHY, TIMEOUT)


def taken_back(reports: Reports) -> None:
    """As expected, and then as if nothing were known."""
    down(reports)
    reports.say(State.UNKNOWN, Reason.NOT_OBSERVED)


def later(reports: Reports) -> None:
    """As expected, after its limit."""
    asyncio.get_running_loop().call_later(0.3, down, reports)


async def test_a_fault_that_is_told_and_forgotten_passes() -> None:
    """The good case, with its times."""
    result = await play(down, Reports.well)
    assert (result.verdict, result.words) == (Verdict.PASS, "")
    assert result.detected_s is not None
    assert result.detected_s < 0.1
    assert result.recovered_s is not None


@pytest.mark.parametrize(
    ("broken", "mended", "how", "words"),
    [
        (Reports.well, Reports.well, {}, "no UNHEALTHY EndpointTimeout within"),
        (lambda r: r.say(State.UNHEALTHY, Reason.MOUNT_HUNG), Reports.well, {}, "no UNHEALTHY EndpointTimeout within"),
        (lambda r: r.say(State.DEGRADED, TIMEOUT), Reports.well, {}, "no UNHEALTHY EndpointTimeout within"),
        (taken_back, Reports.well, {}, "was taken back"),
        (down, lambda _: None, {}, "not HEALTHY"),
        (down, Reports.well, {"worst": State.DEGRADED}, "was called UNHEALTHY EndpointTimeout"),
        (lambda r: r.say(State.DEGRADED, TIMEOUT), Reports.well, {"expects": (), "worst": State.HEALTHY}, "was called"),
        (Reports.well, Reports.well, {"expects": (), "latency_s": 70.0}, "was not looked at while slow"),
        (
            lambda r: r.say(State.DEGRADED, Reason.STALE_FILE_HANDLE, "v", "w"),
            Reports.well,
            {"expects": (expect_volume(Reason.STALE_FILE_HANDLE, within_s=10.0),), "well": ("w",)},
            "volume w, to which nothing was done, was listed",
        ),
    ],
)
async def test_what_is_missed_is_called_so(
    broken: Callable[[Reports], None], mended: Callable[[Reports], None], how: dict[str, Any], words: str
) -> None:
    """Silence, another reason, a milder or worse state, a finding taken back, a lasting one, a wrong accusation."""
    result = await play(broken, mended, **how)
    assert result.verdict is Verdict.MISS
    assert words in result.words


async def test_late_is_missed_but_timed() -> None:
    """A miss tells by how much."""
    result = await play(later, Reports.well, hold_s=0.0)
    assert result.verdict is Verdict.MISS
    assert "limit 0.2 s" in result.words
    assert result.detected_s is not None
    assert result.detected_s >= 0.3


def test_limits_scale_with_the_period() -> None:
    """With the shipped ones they are the table's own and a second."""
    assert (SHIPPED.limit(33.0), with_period(10.0)) == (34.0, SHIPPED)
    assert SHORT.limit(33.0) == pytest.approx(3.3 + SHORT.slack_s)
    assert with_period(5.0).deadline_s == 1.5


def test_rows_are_named_once_and_can_be_looked_up() -> None:
    """Names are test ids and arguments of --only; every row can be played or says why not."""
    names = [row.name for row in ALL]
    assert len(names) == len(set(names))
    assert all(row.act or why_not_here(row, 10.0) for row in ALL)


def test_a_missing_tool_is_named() -> None:
    """So is a filesystem that the kernel lacks."""
    row = dataclasses.replace(ALL[0], needs=("no-such-program", "fs:no-such-filesystem"))
    assert why_not_here(row, 10.0) == "there is no no-such-program; the kernel has no no-such-filesystem"


def test_the_table_shows_what_cannot_be_done_as_such() -> None:
    """It is no pass."""
    row = next(row for row in ALL if row.absent)
    lines = table.markdown([Result(row, Verdict.NOT_HERE, words=row.absent)]).splitlines()
    assert lines[-1].endswith(f"| not here: {row.absent} |")


def test_idle_workers_are_no_leak_but_busy_ones_are() -> None:
    """Workers that wait for work come and go by design."""
    before = Census(2, 5, 20, idle=1, main_mb=70.0, workers_mb=9.0)
    assert not dataclasses.replace(before, processes=4, idle=3, descriptors=24).exceeds(before, 0)
    assert dataclasses.replace(before, processes=3).exceeds(before, 0)
    assert dataclasses.replace(before, threads=6).exceeds(before, 0)
    assert dataclasses.replace(before, descriptors=21).exceeds(before, 0)
    assert not dataclasses.replace(before, descriptors=21).exceeds(before, 1)
    assert dataclasses.replace(before, processes=9, idle=8, descriptors=34).exceeds(before, 0)
    assert grown(before, dataclasses.replace(before, main_mb=80.0)) == "memory has grown from 70.0 to 80.0 MB"


def test_a_process_is_counted_with_its_children() -> None:
    """By what /proc tells of it."""
    counted = take(1)
    assert counted.processes >= 1
    assert take(2**22 + 1).processes == 0


def test_rpc_null_is_answered_and_other_versions_are_refused() -> None:
    """RFC 5531."""
    call = struct.pack(">10I", 7, 0, 2, rpc_responder.PROGRAM, 4, 0, 0, 0, 0, 0)
    assert rpc_responder.reply_to(call) == struct.pack(">6I", 7, 1, 0, 0, 0, 0)
    old = struct.pack(">10I", 7, 0, 2, rpc_responder.PROGRAM, 2, 0, 0, 0, 0, 0)
    assert rpc_responder.reply_to(old) == struct.pack(">8I", 7, 1, 0, 0, 0, 2, 3, 4)
    assert rpc_responder.reply_to(b"\0" * 8) == b""


def test_names_are_resolved_until_they_are_forgotten() -> None:
    """RFC 1035: an address, an empty answer for another type, and a name error."""
    names = Names()
    names.addresses["a.faults.test"] = "10.0.0.9"
    question = b"\1a\6faults\4test\0" + struct.pack(">HH", 1, 1)
    query = struct.pack(">6H", 9, 0x0100, 1, 0, 0, 0) + question
    assert names.answer(query).endswith(socket.inet_aton("10.0.0.9"))
    other = query[:-4] + struct.pack(">HH", 28, 1)
    assert struct.unpack_from(">4H", names.answer(other)) == (9, 0x8180, 1, 0)
    names.addresses.clear()
    assert struct.unpack_from(">4H", names.answer(query)) == (9, 0x8183, 1, 0)
