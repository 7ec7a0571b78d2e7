"""`leadsman policy check`, `test` and `facts` as they are typed: what they print, and how they end."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from leadsman.domain.fact_table import FACTS, STORAGE_FACTS
from leadsman_cli.commands.policy import policy

GOOD = """apiVersion: leadsman.dev/v1alpha1
kind: SchedulingPolicy
rules:
  - name: gpu-driver
    pods: {matchLabels: {accelerator: gpu}}
    require: {cel: node.gpu.driverMajor >= 550}
    onError: reject
"""
ODD = """apiVersion: leadsman.dev/v1alpha1
kind: SchedulingPolicy
mode: shadow
storage:
  default: {unknown: reject}
rules:
  - name: gpu-nodes
    pods: {matchLabels: {accelerator: gpu}}
    require: {labels: {node-type: gpu}}
  - name: everywhere
    require: {labels: {node-type: gpu}}
  - name: again
    pods: {matchLabels: {accelerator: gpu}}
    require: {labels: {node-type: gpu}}
"""
CASES = """apiVersion: leadsman.dev/v1alpha1
kind: SchedulingPolicyTest
nodes:
  new: {facts: {gpu.driverMajor: 565}}
  old: {facts: {gpu.driverMajor: 470}}
  none: {}
cases:
  - name: an old driver will not do
    pod: {labels: {accelerator: gpu}}
    expect: {rejected: {old: RuleNotMet, none: RuleUndecided}}
  - name: this case is wrong
    pod: {labels: {accelerator: gpu}}
    expect: {rejected: {old: {reason: RuleNotMet, rule: other}}}
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File names are short, and no colours are wanted."""
    monkeypatch.chdir(tmp_path)


def _file(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(policy, arguments)


def test_a_good_policy_is_one_line() -> None:
    """With its fingerprint, mode and number of rules."""
    result = _run("check", _file("good.yaml", GOOD))
    assert result.exit_code == 0
    [line] = result.stdout.splitlines()
    assert line.startswith("good.yaml: ok (")
    assert line.endswith(", enforce, 1 rule)")


def test_what_is_probably_not_meant_is_warned_about() -> None:
    """Each with its line, and the file is good all the same."""
    result = _run("check", _file("odd.yaml", ODD))
    assert result.exit_code == 0
    first, *warnings = result.stdout.splitlines()
    assert first.endswith(", shadow, 3 rules)")
    assert [line.partition(": warning: ")[0] for line in warnings] == ["odd.yaml:5", "odd.yaml:10", "odd.yaml:12"]
    assert "unknown: reject for every driver" in warnings[0]
    assert "rule everywhere has no pods selector" in warnings[1]
    assert "rule again never decides: rule gpu-nodes requires the same" in warnings[2]


def test_every_problem_of_every_file_is_told() -> None:
    """A bad file does not hide what is wrong with the next; exit code 1."""
    bad = GOOD.replace("driverMajor", "drvMajor")
    result = _run("check", _file("a.yaml", bad), _file("b.yaml", GOOD), _file("c.yaml", CASES))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("a.yaml:6: rules[0].require.cel: ")
    assert any(line.startswith("b.yaml: ok (") for line in lines)
    assert any(line.startswith("c.yaml:2: kind: ") for line in lines)


@pytest.mark.parametrize("arguments", [("check",), ("check", "none.yaml"), ("test", "none.yaml"), ("test",)])
def test_a_missing_file_is_a_mistake_of_the_user(arguments: tuple[str, ...]) -> None:
    """Exit code 2."""
    result = _run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_cases_are_one_line_each_and_a_difference_is_a_table() -> None:
    """Exit code 1 as one of them failed; no colours in a pipe."""
    result = _run("test", _file("good.yaml", GOOD), _file("cases.yaml", CASES))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "ok   cases.yaml:8 an old driver will not do",
        "FAIL cases.yaml:11 this case is wrong",
        "  NODE  EXPECTED                           GOT",
    ]
    assert lines[3].startswith("  none  allowed                            rejected: RuleUndecided (rule gpu-driver): ")
    assert "gpu.driverMajor" in lines[3]
    assert lines[4:] == [
        "  old   rejected: RuleNotMet (rule other)  rejected: RuleNotMet (rule gpu-driver)",
        "2 cases, 1 failed",
    ]


def test_cases_that_are_as_they_should_be_end_with_0() -> None:
    """In every file."""
    right = CASES[: CASES.index("  - name: this case")]
    result = _run("test", _file("good.yaml", GOOD), _file("a.yaml", right), _file("b.yaml", right))
    assert result.exit_code == 0
    assert result.stdout == (
        "ok   a.yaml:8 an old driver will not do\nok   b.yaml:8 an old driver will not do\n2 cases, 0 failed\n"
    )


def test_programs_get_the_cases_as_json() -> None:
    """With every difference."""
    result = _run("test", _file("good.yaml", GOOD), _file("cases.yaml", CASES), "-o", "json")
    assert result.exit_code == 1
    good, bad = json.loads(result.stdout)
    assert good == {
        "file": "cases.yaml",
        "line": 8,
        "name": "an old driver will not do",
        "passed": True,
        "differences": [],
    }
    assert [one["node"] for one in bad["differences"]] == ["none", "old"]


def test_a_document_that_cannot_be_used_is_not_a_failed_case() -> None:
    """It is told as a mistake, which `leadsman` ends with exit code 2."""
    result = _run("test", _file("good.yaml", GOOD), _file("cases.yaml", CASES.replace("driverMajor", "drvMajor")))
    assert 'cases.yaml:4: nodes.new.facts."gpu.drvMajor": there is no such fact' in str(result.exception)


def test_the_table_of_facts_has_them_all() -> None:
    """By the names that expressions use, with type, unit, age and meaning; no colours in a pipe."""
    result = _run("facts")
    assert result.exit_code == 0
    shown = {line.split("  ")[0] for line in result.stdout.splitlines()}
    assert {f"node.{name}" for name in FACTS} <= shown
    assert {f"node.storage.{name}[...]" for name in STORAGE_FACTS} <= shown
    assert {"node.name", "node.labels", "node.zone", "node.region", "node.facts"} <= shown
    assert (
        "node.cpu.count                    whole number  CPUs      1 period   CPUs that are online (/proc/stat)\n"
        in result.stdout
    )
    assert "`" not in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_the_facts_as_a_document(output: str) -> None:
    """All columns of the table."""
    document = yaml.safe_load(_run("facts", "-o", output).stdout)  # JSON is YAML
    assert [one["name"] for one in document["facts"]] == list(FACTS)
    assert document["storage_facts"][1]["unit"] == "seconds"
