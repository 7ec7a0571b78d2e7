"""The snippet that operators copy names options that exist."""

from pathlib import Path

import yaml

from leadsman_health_collector.__main__ import run

SNIPPET = Path(__file__).parents[3] / "deploy/sidecar/container.yaml"


def test_the_sidecar_of_the_snippet_can_be_started_with_its_arguments():
    """Every option is known, and with the variable of the environment none is missing."""
    container = yaml.safe_load(SNIPPET.read_text())
    command, *arguments = container["args"]
    assert command == run.name
    variables = {one["name"]: "worker-1" for one in container["env"]}
    name = next(option for option in run.params if option.name == "node_name")
    assert f"{run.context_settings['auto_envvar_prefix']}_{name.name.upper()}" in variables
    context = run.make_context("run", [*arguments, "--node-name", "worker-1"])
    assert context.params["driver_name"] == "nfs.csi.k8s.io"
