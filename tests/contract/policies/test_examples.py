"""Every policy in deploy/policies is good, means what it seems to, and does what the cases beside it say."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leadsman_cli.__main__ import cli

pytestmark = pytest.mark.contract

DIRECTORY = Path(__file__).parents[3] / "deploy" / "policies"
CASES = ".test.yaml"
EXAMPLES = sorted(path for path in DIRECTORY.glob("*.yaml") if not path.name.endswith(CASES))

MEANT = {"least-loaded": ["has no pods selector: it touches every pod"]}
"""Warnings that an example wants, and explains."""


def leadsman(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_there_are_examples_and_the_readme_names_each() -> None:
    """Whoever looks for one begins there."""
    readme = (DIRECTORY / "README.md").read_text()
    assert len(EXAMPLES) > 5
    assert [path.name for path in EXAMPLES if f"]({path.name})" not in readme] == []


def test_cases_lie_beside_a_policy() -> None:
    """No file of cases is left over."""
    cases = {path.name.removesuffix(CASES) for path in DIRECTORY.glob(f"*{CASES}")}
    assert cases == {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_good(example: Path) -> None:
    """With no other warnings than those it wants."""
    result = leadsman("policy", "check", str(example))
    lines = result.stdout.splitlines()
    assert result.exit_code == 0, result.stdout
    assert lines[0].startswith(f"{example}: ok (")
    wanted = MEANT.get(example.stem, [])
    assert len(lines) == 1 + len(wanted), result.stdout
    assert all(words in line for words, line in zip(wanted, lines[1:], strict=True))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_does_what_its_cases_say(example: Path) -> None:
    """Each has some."""
    result = leadsman("policy", "test", str(example), str(example.with_name(example.stem + CASES)))
    assert result.exit_code == 0, f"{result.output}{result.exception}"


def test_the_cases_in_the_readme_of_the_command_are_right(tmp_path: Path) -> None:
    """They are about the GPU driver's example."""
    readme = (DIRECTORY.parents[1] / "services" / "cli" / "README.md").read_text()
    cases = tmp_path / "readme.test.yaml"
    cases.write_text(readme.partition("```yaml\n")[2].partition("```")[0])
    result = leadsman("policy", "test", str(DIRECTORY / "gpu-driver.yaml"), str(cases))
    assert result.exit_code == 0, f"{result.output}{result.exception}"
