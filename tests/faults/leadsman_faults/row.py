"""One row of the suite: a fault, what the collector must report about it and how soon, and what it must never say."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State

if TYPE_CHECKING:
    from leadsman_faults.node import Node

TABLE_PERIOD_S = 10.0
"""The times of all rows are for this period; with another one they scale (facts: storage-health 2)."""

UP_S = 35.0
"""Two good looks ten seconds apart, the first of them up to ten seconds after the repair, and time to look."""

MOUNT_UP_S = 50.0
"""The same for mounts, that are looked at every fifteen seconds."""

MINUTE_UP_S = 130.0
"""The same for what is looked at once a minute."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a row is about: a key of the report, perhaps one volume, and the superblocks where its workers would be.

    `volume` is the name of a PersistentVolume of the key's driver. `well` are further ones that nothing is done to.
    """

    key: StorageKey
    volume: str = ""
    places: tuple[str, ...] = ()
    well: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expect:
    """A state that must be reported within `within_s` seconds of the fault, for one of `reasons` (none: HEALTHY).

    It is about the row's volume (in the report's list of bad ones) with `volume`, else about its key.
    """

    state: State
    reasons: frozenset[Reason]
    within_s: float
    volume: bool = False

    @property
    def words(self) -> str:
        """State and reasons as the table shows them."""
        reasons = "/".join(sorted(self.reasons))
        return f"{'volume ' if self.volume else ''}{self.state} {reasons}".strip()


Act = Callable[["Node"], AsyncIterator[Subject]]
"""A fault as a generator: it sets up what is well and yields, breaks it and yields, mends it and ends."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    `group` is the node that it plays on. `expects` must come true in this order; without any the fault is one that
    must be borne. No report between start and recovery may call the key worse than `worst`. The fault stays in force
    for `hold_s` after the last expectation (or the start), in which that must not get better. Recovery may take
    `recover_s`. `latency_s`: a report must show what one look of this latency adds to the average, so it was noticed.
    All times are in seconds at a period of TABLE_PERIOD_S; `min_period_s` is the shortest period at which the row makes
    sense. `needs` are programs, `/dev` files or `fs:<filesystem>`. `absent` says why no machine like this can do it.
    A fault is `passing` if it is over by the time that it has been injected: what was found then need not stand.
    A row that is not `soakable` waits for reports while it breaks things, so that it cannot be broken at random.
    """

    name: str
    fault: str
    group: str
    act: Act | None = None
    expects: tuple[Expect, ...] = ()
    worst: State = State.UNHEALTHY
    hold_s: float = 15.0
    recover_s: float = UP_S
    latency_s: float = 0.0
    min_period_s: float = 0.0
    needs: tuple[str, ...] = ()
    absent: str = ""
    passing: bool = False
    soakable: bool = True

    @property
    def wanted(self) -> str:
        """What must be reported, in words."""
        if self.expects:
            never = "; never UNHEALTHY" if self.passing else ""
            return ", then ".join(expect.words for expect in self.expects) + never
        return "stays HEALTHY" if self.worst is State.HEALTHY else "never UNHEALTHY"

    @property
    def limit_s(self) -> float:
        """The longest time to detect at the table's period; zero for a fault that must be borne."""
        return max((expect.within_s for expect in self.expects), default=0.0)


def expect(state: State, *reasons: Reason, within_s: float) -> Expect:
    """About the key; see `Expect`."""
    return Expect(state, frozenset(reasons), within_s)


def expect_volume(*reasons: Reason, within_s: float, state: State = State.UNHEALTHY) -> Expect:
    """The row's volume is listed; see `Expect`."""
    return Expect(state, frozenset(reasons), within_s, volume=True)


def why_not_here(row: Row, period_s: float) -> str:
    """Why `row` cannot be played on this machine at this period; empty if it can."""
    if row.absent:
        return row.absent
    if period_s < row.min_period_s:
        return f"its times make sense from a period of {row.min_period_s:g} s on"
    missing = [words for need in row.needs if (words := _missing(need))]
    return "; ".join(missing)


def _missing(need: str) -> str:
    if need.startswith("fs:"):
        known = need.removeprefix("fs:") in Path("/proc/filesystems").read_text(encoding="ascii").split()
        return "" if known else f"the kernel has no {need.removeprefix('fs:')}"
    if need.startswith("/"):
        return "" if os.access(need, os.R_OK | os.W_OK) else f"{need} cannot be used"
    return "" if shutil.which(need, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") else f"there is no {need}"


class Rows:
    """A table of rows that functions are added to by decoration."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        """Append `row`."""
        self.rows.append(row)

    def absent(self, name: str, fault: str, why: str) -> None:
        """Append a fault that cannot be produced, with the reason."""
        self.add(Row(name, fault, self.group, absent=why))


def chosen(rows: Iterable[Row], only: str) -> list[Row]:
    """The rows whose name or group contains `only`."""
    return [row for row in rows if only in row.name or only == row.group]
