"""What pages say about the policy is so: examples load, messages read like that, defaults and limits are right."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from leadsman.config.cel_test import MAX_LENGTH
from leadsman.config.cel_variables import VARIABLES
from leadsman.config.policy_document import parse_policy
from leadsman.config.policy_schema import policy_schema
from leadsman.config.policy_structs import MAX_RULES, MAX_WEIGHT
from leadsman.domain.policy import DEFAULT_WEIGHTS
from leadsman_cli.__main__ import cli

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]
POLICY_PAGE = (ROOT / "docs" / "policy.md").read_text()
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}."
"""In place of what keys of a table have in common."""

HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicy\n"


def _blocks(language: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each block of `language`."""
    for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, found.start()) + 2, found[1]


EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{line}")
    for page in PAGES
    for line, block in _blocks("yaml", page.read_text())
    if "kind: SchedulingPolicy\n" in block
]
RULES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{line}")
    for page in PAGES
    for line, block in _blocks("yaml", page.read_text())
    if block.startswith("- name:")
]


def test_there_are_examples() -> None:
    """The search for them works."""
    assert len(EXAMPLES) >= 7
    assert RULES


@pytest.mark.parametrize("text", EXAMPLES)
def test_a_documented_policy_is_good(text: str) -> None:
    """For the loader, and for editors that go by the schema."""
    parse_policy(text, "example")
    assert list(Draft202012Validator(policy_schema()).iter_errors(yaml.safe_load(text))) == []


@pytest.mark.parametrize("text", RULES)
def test_documented_rules_are_good(text: str) -> None:
    """Where a page shows rules alone."""
    assert parse_policy(f"{HEAD}rules:\n{text}", "example").rules


def test_the_documented_mistakes_are_reported_like_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word for word, of a file like the page's."""
    monkeypatch.chdir(tmp_path)
    rules = (
        "mode: enforce\n\nrules:\n  - name: gpu-driver\n    pods: {matchLabels: {accelerator: gpu}}\n"
        "    require: {cel: node.gpu.drvMajor >= 550}\n"
    )
    messages = next(block for _, block in _blocks("console", POLICY_PAGE) if "policy check" in block).splitlines()[1:]
    assert len(messages) == 2
    for text, message in zip((rules, rules + "    onErorr: reject\n"), messages, strict=True):
        (tmp_path / "my.yaml").write_text(HEAD + text)
        result = CliRunner().invoke(cli, ["policy", "check", "my.yaml"])
        assert result.exit_code == 1
        assert message in result.output


def _rows(heading: str) -> dict[str, list[str]]:
    """Cells of the tables below `heading`, by the first one."""
    _, _, section = POLICY_PAGE.partition(f"\n## {heading}\n")
    rows = [line.strip("|").split("|") for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return {cells[0].strip().strip("`"): [cell.strip() for cell in cells[1:]] for cells in rows}


def test_the_page_names_every_key() -> None:
    """Of every part of the document."""
    keys = {key for definition in _definitions() for key in definition.get("properties", {})}
    assert len(keys) > 35
    assert [key for key in sorted(keys) if not re.search(rf"[`.{{ (]{key}[`:.,}} <)]", POLICY_PAGE)] == []


def _definitions() -> list[dict[str, Any]]:
    return list(policy_schema()["$defs"].values())


def test_the_page_has_the_default_weights() -> None:
    """Of all components."""
    rows = _rows("Weights")
    assert {name: float(rows[name][0]) for name in DEFAULT_WEIGHTS} == DEFAULT_WEIGHTS
    assert f"0-{MAX_WEIGHT} each" in POLICY_PAGE


@pytest.mark.parametrize(
    ("key", "definition", "name"),
    [
        ("storage.breaker.share", "BreakerEntry", "share"),
        ("storage.breaker.minNodes", "BreakerEntry", "minNodes"),
        ("storage.busFrozen.maxAge", "BusFrozenEntry", "maxAge"),
    ],
)
def test_the_page_has_the_defaults_of_storage(key: str, definition: str, name: str) -> None:
    """As the schema tells them."""
    default = policy_schema()["$defs"][definition]["properties"][name]["default"]
    assert _rows("Storage")[key][0].endswith(f"; `{default}`")


def test_the_page_has_the_defaults_of_drivers() -> None:
    """Written as durations, they are what a document without them gets."""
    rows = _rows("Storage")
    keys = ("unknown", "stale", "staleAfter", "holdUnhealthy")
    written = ", ".join(f"{key}: {rows[ELLIPSIS + key][0].rpartition('; ')[2].strip('`')}" for key in keys)
    assert parse_policy(f"{HEAD}storage: {{default: {{{written}}}}}", "x").storage == parse_policy(HEAD, "x").storage


def test_the_page_has_the_limits() -> None:
    """Of rules and expressions."""
    rows = _rows("Limits and costs")
    assert rows["rules"] == [str(MAX_RULES)]
    assert rows["an expression"][0].startswith(f"{MAX_LENGTH} characters")


def test_the_page_names_the_variables_that_are_no_facts() -> None:
    """Facts have a page of their own."""
    section = POLICY_PAGE.partition("\n## CEL\n")[2].partition("\n## ")[0]
    assert [
        name
        for name, variable in VARIABLES.items()
        if name.removeprefix("node.") != variable.reads
        and f"`{name}`" not in section
        and f"`.{name.rpartition('.')[2]}`" not in section
    ] == []
