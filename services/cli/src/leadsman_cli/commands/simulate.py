"""`leadsman simulate`: what would become of a pod now, and what another policy would change."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from leadsman.config.policy_document import load_policy, parse_policy
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.requirements import Profile
from leadsman.runtime.options import start_logs
from leadsman.wire.pod import Pod
from leadsman_cli.cluster import Cluster, bus_settings, choose_policy, read_cluster
from leadsman_cli.commands.bus_options import bus_options
from leadsman_cli.errors import CommandError
from leadsman_cli.pod_volumes import VolumeSource, resolve
from leadsman_cli.policy_tables import as_text, heading, simulation_table, summary
from leadsman_cli.scheduling import read_pod
from leadsman_cli.services import MANIFESTS
from leadsman_cli.simulation import Candidate, Question, Simulation
from leadsman_cli.simulation import simulate as ask
from leadsman_cli.tables import print_table

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("pod_file", metavar="POD", type=_FILE)
@click.option("--policy", "policy_file", type=_FILE, help="Compare with the policy in this file.")
@click.option("--kubeconfig", type=_FILE, help="Read the pod's claims and volumes from this cluster.")
@click.option(
    "--manifests",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Read them from the manifests in this directory.  [default: those of the running 'leadsman up']",
)
@bus_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="Columns for people (wide: with the score's components), or JSON or YAML for programs.",
)
def simulate(
    *,
    pod_file: Path,
    policy_file: Path | None,
    kubeconfig: Path | None,
    manifests: Path | None,
    nats_urls: tuple[str, ...],
    nats_creds: str | None,
    port: int | None,
    output: str,
) -> None:
    """Show what Leadsman would say of every node for the pod in the file POD, without scheduling anything.

    Reads the last report of every node from NATS and asks filters and scorers which policy they work by. With --policy
    FILE it shows what that policy would change: 'before -> after' wherever the two differ. Nodes for which nobody has
    reported are not listed.

    kube-scheduler's own plugins (resources, taints, affinity, volume binding, spreading) have no part in it: they may
    turn down a node that is allowed here, and add scores of their own.

    Exit code: 0 if some node may take the pod (by FILE, if it is given), 1 if none may, 2 for any error.
    """
    if kubeconfig and manifests:
        raise click.UsageError("claims and volumes come from --kubeconfig or from --manifests, not from both")
    start_logs("error", "auto")
    pod = _pod(pod_file)
    other = load_policy(policy_file)[0] if policy_file else None
    cluster = read_cluster(bus_settings(nats_urls, nats_creds, port), policies=True)
    demo = MANIFESTS if not nats_urls and not kubeconfig else None
    answer = _simulate(pod, VolumeSource(kubeconfig, manifests or demo), cluster, other, str(policy_file))
    _show(answer, output)
    sys.exit(0 if answer.fits else 1)


def _pod(path: Path) -> Pod:
    document: dict[str, Any] = read_pod(path)
    try:
        return msgspec.convert(document, Pod)
    except msgspec.ValidationError as error:
        raise CommandError(f"{path} is not a Pod: {error}") from error


def _simulate(
    pod: Pod, volumes: VolumeSource, cluster: Cluster, other: SchedulingPolicy | None, file: str
) -> Simulation:
    policy, source = _in_force(cluster)
    resolution = resolve(pod, volumes, policy.backend_attributes)
    in_force, proposed = Candidate(policy, source, resolution.requirements), None
    if other is not None:
        if other.backend_attributes != policy.backend_attributes:
            resolution = resolve(pod, volumes, other.backend_attributes)
        proposed = Candidate(other, file, resolution.requirements)
    meta = pod.metadata
    profile = Profile(meta.namespace, meta.labels or {}, pod.spec.priority_class_name, meta.annotations or {})
    question = Question(f"{meta.namespace}/{meta.name}", profile, resolution.near, resolution.unresolved)
    return ask(question, cluster.nats, cluster.reports, in_force, proposed)


def _in_force(cluster: Cluster) -> tuple[SchedulingPolicy, str]:
    """The policy in force and the replica that named it."""
    chosen, warnings = choose_policy(cluster.policies)
    for words in warnings:
        click.echo(f"warning: {words}", err=True)
    if chosen is None or not chosen.text:
        return SchedulingPolicy(), "built-in"
    return parse_policy(chosen.text, f"the policy of {chosen.instance}"), chosen.instance


def _show(answer: Simulation, output: str) -> None:
    for name in answer.unresolved:
        click.echo(f"warning: the driver behind volume {name} is not known, so it decides nothing", err=True)
    if output in {"json", "yaml"}:
        click.echo(as_text(answer, output))
        return
    click.echo("\n".join(heading(answer)))
    click.echo()
    print_table(simulation_table(answer, wide=output == "wide"))
    click.echo()
    click.echo("\n".join(summary(answer)))
