"""Command line of the collector: `python -m leadsman_health_collector`."""

from pathlib import Path

import click

from leadsman.bus.connect import BusSettings
from leadsman.runtime.app import Shutdown, run_service
from leadsman.runtime.options import Address, AddressType, DurationType, common_options, context_settings, start_logs
from leadsman.telemetry.logs import LogFormat
from leadsman_health_collector.service import COMPONENT, Collector, Settings

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(context_settings=context_settings(COMPONENT))
@click.option("--node-name", required=True, show_envvar=True, help="Name of this node's Node object.")
@click.option(
    "--kubelet-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/lib/kubelet"),
    show_envvar=True,
    help="The kubelet's root directory; k3s and microk8s have other ones.",
)
@click.option(
    "--mountinfo",
    type=_FILE,
    default=Path("/proc/self/mountinfo"),
    show_envvar=True,
    help="List of the host's mounts; /proc/1/mountinfo with hostPID.",
)
@click.option(
    "--state-file",
    type=_FILE,
    default=Path("/var/run/leadsman/health-collector/state.json"),
    show_envvar=True,
    help="Where the last report is kept for the next start, best on a tmpfs of the host that outlives the container.",
)
@click.option("--config", type=_FILE, show_envvar=True, help="HealthCollectorConfiguration file with endpoints.")
@click.option(
    "--period", type=DurationType(), default="10s", show_envvar=True, help="Time between looks; mounts 1.5 of it."
)
@click.option(
    "--probe-deadline",
    type=DurationType(),
    default="3s",
    show_envvar=True,
    help="Time to answer, shorter than --period; mounts 5/3 of it.",
)
@click.option(
    "--heartbeat",
    type=DurationType(),
    default="10s",
    show_envvar=True,
    help="Time between reports when nothing changes.",
)
@click.option(
    "--admin-listen",
    type=AddressType(),
    default="127.0.0.1:9101",
    show_envvar=True,
    help="Address of /livez /readyz /metrics /version; port 0 for a free one.",
)
@common_options
def main(
    *,
    node_name: str,
    kubelet_dir: Path,
    mountinfo: Path,
    state_file: Path,
    config: Path | None,
    period: float,
    probe_deadline: float,
    heartbeat: float,
    admin_listen: Address,
    port_file: Path | None,
    nats_urls: tuple[str, ...],
    nats_creds: str | None,
    log_level: str,
    log_format: LogFormat,
) -> None:
    """Sound the storage of one node and publish what is found.

    Looks at the node's CSI plugins, storage endpoints and mounted volumes, and publishes one report per node on NATS:
    at once when a state changes, else as a heartbeat. Never writes to storage and never repairs anything.
    """
    if probe_deadline >= period:
        raise click.UsageError(
            "--probe-deadline must be shorter than --period: a probe that may still be out is not started again, "
            "so every second look would be skipped"
        )
    start_logs(log_level, log_format)

    async def serve(shutdown: Shutdown) -> None:
        settings = Settings(
            node=node_name,
            bus=BusSettings.for_collector(nats_urls, f"collector/{node_name}", nats_creds),
            kubelet_dir=kubelet_dir,
            mountinfo=mountinfo,
            state_file=state_file,
            config=config,
            period_s=period,
            deadline_s=probe_deadline,
            heartbeat_s=heartbeat,
            admin=admin_listen,
            port_file=port_file,
        )
        await Collector(settings).run(shutdown)

    run_service(serve)


if __name__ == "__main__":
    main()
