"""Command line of the collector: `python -m leadsman_health_collector`."""

import asyncio
import os
import platform
import shutil
import sys
from pathlib import Path

import click

from leadsman.bus.connect import BusSettings
from leadsman.domain.clock import SystemClock
from leadsman.domain.errors import ConfigError, LeadsmanError
from leadsman.runtime.app import Shutdown, run_service
from leadsman.runtime.options import Address, AddressType, DurationType, common_options, context_settings, start_logs
from leadsman.telemetry.logs import LogFormat
from leadsman_health_collector.check_report import EXIT_CODES, CheckReport, ExitCode, render_json
from leadsman_health_collector.check_table import render_table, wants_colour
from leadsman_health_collector.config_file import load_config
from leadsman_health_collector.look_options import FILE, connect_if_any, look_options, sidecar_of
from leadsman_health_collector.one_pass import take_pass
from leadsman_health_collector.service import COMPONENT, Collector
from leadsman_health_collector.settings import KubeSettings, LookSettings, Roots, Settings

CHECK_PERIOD_S = 10.0
"""The period that `check` judges by: that of a collector as shipped."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Sound the storage of one node.

    Never writes to storage (but for canaries that are asked for) and never repairs anything.
    """


@main.command(context_settings=context_settings(COMPONENT))
@click.option("--node-name", required=True, show_envvar=True, help="Name of this node's Node object.")
@look_options
@click.option(
    "--state-file",
    type=FILE,
    default=Path("/var/run/leadsman/health-collector/state.json"),
    show_envvar=True,
    help="Where the last report is kept for the next start, best on a tmpfs of the host that outlives the container.",
)
@click.option(
    "--period", type=DurationType(), default="10s", show_envvar=True, help="Time between looks of most probes."
)
@click.option(
    "--heartbeat",
    type=DurationType(),
    default="10s",
    show_envvar=True,
    help="Time between reports when nothing changes.",
)
@click.option(
    "--events/--no-events", default=True, show_envvar=True, help="Write Kubernetes Events when a state changes."
)
@click.option(
    "--node-condition/--no-node-condition",
    default=False,
    show_envvar=True,
    help="Keep the Node condition leadsman.dev/StorageReady; needs a right on Nodes.",
)
@click.option(
    "--admin-listen",
    type=AddressType(),
    default="127.0.0.1:9101",
    show_envvar=True,
    help="Address of /livez /readyz /metrics /version; port 0 for a free one.",
)
@common_options
def run(
    *,
    node_name: str,
    kubelet_dir: Path,
    mountinfo: Path,
    proc_root: Path,
    sys_root: Path,
    modules_root: Path,
    config: Path | None,
    csi_socket: Path | None,
    driver_name: str | None,
    probe_deadline: float,
    kubeconfig: Path | None,
    state_file: Path,
    period: float,
    heartbeat: float,
    events: bool,
    node_condition: bool,
    admin_listen: Address,
    port_file: Path | None,
    nats_urls: tuple[str, ...],
    nats_creds: str | None,
    log_level: str,
    log_format: LogFormat,
) -> None:
    """Look all the time and publish what is found.

    Looks at the node's CSI plugins, storage endpoints, mounted volumes and devices, and publishes one report per node
    on NATS: at once when a state changes, else as a heartbeat.
    """
    if probe_deadline >= period:
        raise click.UsageError(
            "--probe-deadline must be shorter than --period: a probe that may still be out is not started again, "
            "so every second look would be skipped"
        )
    sidecar = sidecar_of(csi_socket, driver_name)
    if node_condition and sidecar:
        raise click.UsageError("--node-condition is the agent's: several sidecars would overwrite each other's word")
    start_logs(log_level, log_format)

    async def serve(shutdown: Shutdown) -> None:
        look = LookSettings(
            kubelet_dir=kubelet_dir,
            mountinfo=mountinfo,
            config=config,
            period_s=period,
            deadline_s=probe_deadline,
            roots=Roots(proc_root, sys_root, modules_root),
            sidecar=sidecar,
        )
        settings = Settings(
            node=node_name,
            bus=BusSettings.for_collector(nats_urls, f"collector/{node_name}", nats_creds),
            look=look,
            state_file=state_file,
            heartbeat_s=heartbeat,
            admin=admin_listen,
            kube=KubeSettings(events, node_condition),
            port_file=port_file,
        )
        api = await connect_if_any(kubeconfig)
        if node_condition and api is None:
            raise ConfigError("--node-condition needs an API server: run in a pod or give --kubeconfig")
        await Collector(settings, api).run(shutdown)

    run_service(serve)


@main.command(context_settings=context_settings(COMPONENT), epilog=EXIT_CODES)
@look_options
@click.option(
    "--node-name", default=platform.node, show_default="the machine's", help="Name of this node's Node object."
)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="A table for people, or JSON."
)
def check(
    *,
    kubelet_dir: Path,
    mountinfo: Path,
    proc_root: Path,
    sys_root: Path,
    modules_root: Path,
    config: Path | None,
    csi_socket: Path | None,
    driver_name: str | None,
    probe_deadline: float,
    kubeconfig: Path | None,
    node_name: str,
    output: str,
) -> None:
    """Look once at this machine and show what was found.

    Every driver, mount, endpoint and device with its state, reason and latency, and what was skipped and why. Useful on
    any Linux machine, also without Kubernetes; as root it sees most. Writes nothing, sends nothing.
    """
    look = LookSettings(
        kubelet_dir=kubelet_dir,
        mountinfo=mountinfo,
        config=config,
        period_s=max(CHECK_PERIOD_S, probe_deadline),
        deadline_s=probe_deadline,
        roots=Roots(proc_root, sys_root, modules_root),
        sidecar=sidecar_of(csi_socket, driver_name),
    )
    start_logs("error", "console")
    try:
        report = asyncio.run(_check(look, kubeconfig, node_name))
    except LeadsmanError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(ExitCode.FAILED)
    if output == "json":
        click.echo(render_json(report))
    else:
        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else None
        colour = wants_colour(os.environ, terminal=terminal)
        click.echo(render_table(report, width=width, colour=colour), color=colour)
    sys.exit(report.exit_code)


async def _check(look: LookSettings, kubeconfig: Path | None, node: str) -> CheckReport:
    api = await connect_if_any(kubeconfig)
    talks = sys.stderr.isatty()

    def progress(words: str) -> None:
        if talks:
            click.echo(f"{words} ...", err=True)

    return await take_pass(look, load_config(look.config), api, SystemClock(), progress, node=node)


if __name__ == "__main__":
    main()
