"""`leadsman config`: what may stand in the files that Leadsman reads."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from leadsman.config.policy_schema import policy_schema
from leadsman.config.schema import document_schema
from leadsman_health_collector.config_file import HealthCollectorConfiguration

_SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "scheduling-policy": policy_schema,
    "health-collector": lambda: document_schema(HealthCollectorConfiguration),
}


@click.group()
def config() -> None:
    """Know the configuration files of Leadsman."""


@config.command()
@click.argument("document", type=click.Choice(list(_SCHEMAS)), default="scheduling-policy")
def schema(document: str) -> None:
    """Print the JSON Schema (draft 2020-12) of DOCUMENT, for editors and other tools.

    \b
    scheduling-policy   kind: SchedulingPolicy, the file of --policy (default)
    health-collector    kind: HealthCollectorConfiguration, the file of the health-collector's --config

    \b
    With the YAML language server, write above a policy:
    # yaml-language-server: $schema=scheduling-policy.schema.json

    Exit code: 0.
    """  # noqa: D301 - click wants the character \b here
    click.echo(json.dumps(_SCHEMAS[document](), indent=2, ensure_ascii=False))
