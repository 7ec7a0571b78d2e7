"""The page about facts says what the table of facts says."""

import re
from collections.abc import Iterable
from pathlib import Path

from leadsman.domain.fact_table import FACTS, STORAGE_FACTS

PAGE = Path(__file__).parents[4] / "docs" / "facts.md"


def rows(text: str) -> list[tuple[str, ...]]:
    """The cells of every row that begins with the name of a fact, in order."""
    lines = [line for line in text.splitlines() if re.match(r"\| `[\w.]+` \| ", line)]
    return [tuple(cell.strip() for cell in line.strip("|").split(" |")) for line in lines]


def cells(table: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The table as the page has it."""
    return [(f"`{name}`", *others) for name, *others in table]


def test_the_page_and_the_table_of_facts_agree_in_every_cell() -> None:
    """Rules are written from the page and checked against the table; nobody reads both."""
    of_node, heading, rest = PAGE.read_text(encoding="utf-8").partition("## Facts about each storage of a node")
    of_storage, *_ = rest.partition("\n## ")

    assert heading
    assert rows(of_node) == cells(FACTS.values())
    assert rows(of_storage) == cells(STORAGE_FACTS.values())


def test_every_fact_goes_by_its_own_name() -> None:
    """A mapping by name would hide a row that is there twice or under another name."""
    for table in (FACTS, STORAGE_FACTS):
        assert [fact.name for fact in table.values()] == list(table)
        assert all(fact.name.isascii() and fact.meaning for fact in table.values())
