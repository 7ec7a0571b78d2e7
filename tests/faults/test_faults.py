"""The fault-injection suite at ten times its pace: all faults at once, one test for the verdict on each.

`make faults` plays the same rows at the shipped settings and prints their times; `make soak` breaks them at random.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.testing.process import Process
from leadsman.testing.waiting import wait_for
from leadsman_faults import isolation
from leadsman_faults.pace import SHORT
from leadsman_faults.row import Row, why_not_here
from leadsman_faults.rows import ALL

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

RUN = Path(__file__).with_name("faults.py")
LIMIT_S = 150.0
NODES = sorted({row.group for row in ALL if not row.absent})


class Playing:
    """The suite at work in a process of its own, and the results that it has told so far."""

    def __init__(self, process: Process, events: Path) -> None:
        self._process = process
        self._events = events

    def result(self, kind: str, name: str) -> dict[str, object]:
        """What was told of the row, or node, `name`, once it is."""

        def told() -> dict[str, object]:
            lines = self._events.read_text().splitlines() if self._events.exists() else []
            found = [event for event in map(json.loads, lines) if event.get(kind) == name]
            if not found:
                self._process.check_alive()
            return found[0] if found else {}

        return wait_for(f"the suite tells of {kind} {name}", told, within_s=LIMIT_S)


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playing]:
    """One run for all tests."""
    if why := isolation.why_impossible():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("faults")
    events = folder / "events"
    command = [sys.executable, str(RUN), "--short", "--events", str(events)]
    process = Process.start("faults", command, folder / "log")
    yield Playing(process, events)
    process.stop()


@pytest.mark.parametrize("row", ALL, ids=[row.name for row in ALL])
def test_fault(row: Row, playing: Playing) -> None:
    """The fault is reported as expected, in time, and forgotten after its repair; or it cannot be produced here."""
    if why := why_not_here(row, SHORT.period_s):
        pytest.skip(f"not here: {why}")
    result = playing.result("row", row.name)
    assert result["verdict"] == "pass", result["words"]


@pytest.mark.parametrize("node", NODES)
def test_node_is_as_calm_as_before(node: str, playing: Playing) -> None:
    """After all faults its collector has no worker, thread or descriptor more, and nothing untouched was accused."""
    result = playing.result("node", f"faults-{node}")
    assert result["troubles"] == [], result["words"]
