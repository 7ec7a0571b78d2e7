"""The README's tour does what it says, command by command, against a real `leadsman up`."""

import re
from collections.abc import Iterator
from functools import partial

import pytest

from leadsman.testing.waiting import wait_for

from .conftest import REPOSITORY, Up

pytestmark = pytest.mark.system

PROMPT = "$ .venv/bin/leadsman "


def steps() -> list[tuple[str, str]]:
    """The commands of the tour, without the program's name, each with the output that the README shows."""
    blocks = re.findall(r"<!-- tour -->\n```console\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    found = [part.partition("\n") for block in blocks for part in block.split(PROMPT)[1:]]
    return [(command, shown) for command, _, shown in found]


def comparable(text: str) -> str:
    """The output without what differs from run to run: process ids, ages, lots drawn, and the load in scores."""
    text = re.sub(r"chosen", "fits", text)
    text = re.sub(r"fits +\d+", "fits SCORE", text)
    text = re.sub(r"assigned to node-\d", "assigned to a node", text)
    text = re.sub(r"process \d+", "process N", text)
    text = re.sub(r"\b\d+(\.\d+)?(ms|s|m)\b", "AGE", text)
    text = re.sub(r"\S*bin/leadsman", "leadsman", text)
    return re.sub(r"[ \t]+", " ", text).replace(" \n", "\n").strip()


def output(up: Up, arguments: list[str]) -> str:
    return comparable(up.leadsman(*arguments))


@pytest.fixture
def up() -> Iterator[Up]:
    started = Up(nodes=3)
    try:
        started.wait_ready()
        yield started
    finally:
        started.stop()


def test_the_tour_of_the_readme(up: Up) -> None:
    """Each command's output comes to look as shown within the seconds that the tour promises."""
    tour = steps()
    assert [command.split()[0] for command, _ in tour] == [
        *("schedule", "break", "status", "schedule", "schedule", "heal", "schedule"),
    ]
    for command, shown in tour:
        arguments = [*command.split(), "--port", str(up.port)]
        if arguments[0] in {"break", "heal"}:
            assert output(up, arguments) == comparable(shown)
        else:
            look = partial(output, up, arguments)
            wait_for(f"{command} shows:\n{shown}", look, comparable(shown).__eq__, within_s=15)
