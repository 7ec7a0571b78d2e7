"""Plays one row: well, broken, mended, well again; and judges what was reported meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from leadsman.domain.errors import LeadsmanError
from leadsman.domain.states import State, severity
from leadsman_faults import census
from leadsman_faults.node import Node
from leadsman_faults.row import Expect, Row, Subject
from leadsman_faults.watch import Seen

SETTLE_S = 130.0
"""What is looked at once a minute may need a second minute to be known as well."""

WORKER_S = 10.0
"""The longest deadline of a worker, at the table's period: what is at its place for longer has been left there."""

LATE = 2.0
"""So many times its limit something expected is waited for."""

_POLL_S = 0.2

_NEWEST = 0.3
"""Weight of the newest look in the average that reports show."""


Tell = Callable[[str, str], None]
"""Called with a row's name and what has just happened to it."""


class Verdict(StrEnum):
    """How a row ended."""

    PASS = "pass"
    MISS = "MISS"
    NOT_HERE = "not here"


@dataclass(frozen=True, slots=True)
class Result:
    """A row played. Times are in seconds; `limit_s` is for the pace of this run, zero if there is none.

    `words` say what was missed, or why the row could not be played. `left` are workers that were still out.
    """

    row: Row
    verdict: Verdict
    detected_s: float | None = None
    limit_s: float = 0.0
    recovered_s: float | None = None
    left: tuple[str, ...] = ()
    words: str = ""


class MissedError(LeadsmanError):
    """The row has failed; the message says why."""


class Playing:
    """One row on its node; `prepare` before the collector starts, then `play`."""

    def __init__(self, row: Row, node: Node, tell: Tell) -> None:
        self.row = row
        self._node = node
        self._watch = node.watch
        self._pace = node.pace
        self._tell = tell
        self._steps: AsyncIterator[Subject] | None = row.act(node) if row.act else None
        self._subject: Subject | None = None
        self.trouble = ""
        """Why the row cannot be played; empty if it can."""
        self._detected: float | None = None
        self._recovered: float | None = None

    async def prepare(self) -> None:
        """Set up what the row will break."""
        try:
            self._subject = await self.step()
        except (LeadsmanError, OSError) as error:
            self.trouble = f"could not be set up: {error}"
            self._tell(self.row.name, self.trouble)

    async def settle(self) -> None:
        """Wait until what the row is about is reported as well; else there is `trouble`."""
        if self._subject is None or self.trouble:
            return
        await self._watch.until(lambda: self._is_well() or not self._node.collector.alive, self._pace.limit(SETTLE_S))
        if not self._is_well():
            self.trouble = f"was not HEALTHY before anything was broken: {self._now()}"
            self._tell(self.row.name, self.trouble)

    async def play(self) -> Result:
        """Break, watch, mend, watch; never raises for what the collector does."""
        if self._subject is None or self.trouble:
            return self._result(self.trouble or "has nothing to play", ())
        words, left = "", tuple[str, ...]()
        try:
            began = time.monotonic()
            await self._broken(self._subject, began)
            await self._mended(self._subject)
            self._check_never_worse(self._subject, began)
            left = await self._left(self._subject)
        except (LeadsmanError, OSError) as error:
            words = str(error)
        return self._result(words or ("a worker is left" if left else ""), left)

    async def _broken(self, subject: Subject, began: float) -> None:
        self._watch.forget_latency(subject.key)
        await self.step()
        self._tell(self.row.name, "broken")
        trouble = ""
        try:
            for expect in self.row.expects:
                await self._appears(expect, subject, began)
            await self._hold(subject)
        except MissedError as missed:
            trouble = str(missed)
        if trouble:
            self._tell(self.row.name, trouble)
            await self.step()  # mended all the same, so that others are not disturbed
            raise MissedError(trouble)

    async def _appears(self, expect: Expect, subject: Subject, began: float) -> None:
        """Wait for the first report since `began` that says what is expected, and note when that was.

        It is waited for longer than it may take, so that a miss tells by how much.
        """
        limit = self._pace.limit(expect.within_s)

        def found() -> Seen | None:
            history = self._history(expect, subject, began)
            return next((seen for seen in history if seen.at >= began and _matches(expect, seen)), None)

        await self._watch.until(lambda: found() is not None, began + LATE * limit - time.monotonic())
        seen = found()
        if seen is None:
            waited = f"{LATE * limit:.0f} s"
            raise MissedError(f"no {expect.words} within {waited}; reported: {self._story(subject, began)}")
        self._detected = seen.at - began
        self._tell(self.row.name, f"{expect.words} after {self._detected:.1f} s")
        if self._detected > limit:
            raise MissedError(f"{expect.words} after {self._detected:.1f} s, limit {limit:.1f} s")

    async def _hold(self, subject: Subject) -> None:
        """The fault stays in force; what was found must stand."""
        since = time.monotonic()
        await asyncio.sleep(self._pace.seconds(self.row.hold_s))  # the length of the fault
        if not self.row.expects:
            wanted = self._pace.seconds(self.row.latency_s) * _NEWEST
            if self._watch.slowest(subject.key) < wanted:
                raise MissedError(f"no report shows a latency of {wanted:.2f} s, so it was not looked at while slow")
            return
        last = self.row.expects[-1]
        if self.row.passing:
            return
        for seen in self._history(last, subject, since):
            if seen.state is None or severity(seen.state) < severity(last.state):
                raise MissedError(f"was taken back while the fault was in force: {self._story(subject, since)}")

    async def _mended(self, subject: Subject) -> None:
        await self.step()
        mended = time.monotonic()
        self._tell(self.row.name, "mended")
        if self.row.name in self._node.network.unmet:
            raise MissedError("no packet has met the rules that were to break it")
        limit = self._pace.limit(self.row.recover_s)
        if not await self._watch.until(self._is_well, limit):
            raise MissedError(f"not HEALTHY {limit:.0f} s after the repair: {self._story(subject, mended)}")
        changed = [self._watch.now(subject.key).at]
        if subject.volume:
            changed.append(self._watch.volume_now(subject.key.driver, subject.volume).at)
        self._recovered = max(0.0, max(changed) - mended)
        self._tell(self.row.name, f"HEALTHY again after {self._recovered:.1f} s")

    def _check_never_worse(self, subject: Subject, began: float) -> None:
        worse = [
            seen
            for seen in self._watch.of_key(subject.key, began)
            if seen.state is not None and severity(seen.state) > severity(self.row.worst)
        ]
        if worse:
            raise MissedError(f"was called {worse[0].words}; the worst that may be said is {self.row.worst}")
        for volume in subject.well:
            listed = self._watch.of_volume(subject.key.driver, volume, began)
            if any(seen.state is not None for seen in listed):
                raise MissedError(f"volume {volume}, to which nothing was done, was listed: {listed[-1].words}")

    async def _left(self, subject: Subject) -> tuple[str, ...]:
        """Workers that are still at the row's places long after the repair."""
        deadline = time.monotonic() + self._pace.limit(WORKER_S)
        while found := await asyncio.to_thread(census.workers_at, subject.places):
            if time.monotonic() >= deadline:
                break
            await asyncio.sleep(_POLL_S)
        return tuple(found)

    def _is_well(self) -> bool:
        subject = self._subject
        if subject is None or self._watch.now(subject.key).state is not State.HEALTHY:
            return False
        return not subject.volume or self._watch.volume_now(subject.key.driver, subject.volume).state is None

    def _history(self, expect: Expect, subject: Subject, since: float) -> list[Seen]:
        if expect.volume:
            return self._watch.of_volume(subject.key.driver, subject.volume, since)
        return self._watch.of_key(subject.key, since)

    def _story(self, subject: Subject, since: float) -> str:
        told = _told(f"{subject.key}", self._watch.of_key(subject.key, since), since)
        if subject.volume:
            told += "; " + _told(
                f"volume {subject.volume}",
                self._watch.of_volume(subject.key.driver, subject.volume, since),
                since,
            )
        return told

    def _now(self) -> str:
        return self._story(self._subject, time.monotonic()) if self._subject else "nothing"

    async def step(self) -> Subject | None:
        """Set up, break, mend, break, and so on, one at each call."""
        return await anext(self._steps, None) if self._steps else None

    def _result(self, words: str, left: tuple[str, ...]) -> Result:
        limit = self._pace.limit(self.row.limit_s) if self.row.expects else 0.0
        verdict = Verdict.MISS if words else Verdict.PASS
        return Result(self.row, verdict, self._detected, limit, self._recovered, left, words)


def _matches(expect: Expect, seen: Seen) -> bool:
    if seen.state is not expect.state:
        return False
    return seen.reason in expect.reasons if expect.reasons else seen.reason is None


def _told(what: str, history: list[Seen], since: float) -> str:
    return f"{what}: " + (
        ", ".join(f"{max(0.0, seen.at - since):.1f} s {seen.words}" for seen in history) or "never reported"
    )
