"""`leadsman config schema` prints schemas that the documents of this repository fit."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from leadsman.config import parse_document
from leadsman_cli.__main__ import cli
from leadsman_health_collector.config_file import HealthCollectorConfiguration

POLICIES = Path(__file__).parents[3] / "deploy" / "policies"
COLLECTOR = "apiVersion: leadsman.dev/v1alpha1\nkind: HealthCollectorConfiguration\n"


def schema(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["config", "schema", *arguments])
    assert result.exit_code == 0, result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    Draft202012Validator.check_schema(printed)
    return printed


def test_the_schema_of_the_policy_is_the_usual_one() -> None:
    """It is asked for most."""
    assert schema()["title"] == "SchedulingPolicy"
    assert schema() == schema("scheduling-policy")
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    "policy",
    [path for path in sorted(POLICIES.glob("*.yaml")) if ".test." not in path.name],
    ids=lambda path: path.stem,
)
def test_the_example_policies_fit(policy: Path) -> None:
    """All that an operator may copy."""
    assert list(Draft202012Validator(schema()).iter_errors(yaml.safe_load(policy.read_text()))) == []


@pytest.mark.parametrize(
    ("text", "fits"), [("", True), ("heartbeet: 1s\n", False), ("kind: SchedulingPolicy\n", False)]
)
def test_the_schema_of_the_collector_is_as_strict_as_its_loader(text: str, *, fits: bool) -> None:
    """A key that it does not know, and a document of another kind."""
    validator = Draft202012Validator(schema("health-collector"))
    assert validator.is_valid(yaml.safe_load(COLLECTOR + text)) is fits
    if fits:
        parse_document(COLLECTOR + text, HealthCollectorConfiguration, "collector.yaml")


def test_an_unknown_document_is_refused() -> None:
    """With those that there are."""
    result = CliRunner().invoke(cli, ["config", "schema", "pod"])
    assert result.exit_code == 2
    assert "'scheduling-policy', 'health-collector'" in result.output
