"""The command line that filter and scorer have in common."""

from typing import Any

import click

from leadsman.bus.connect import BusSettings
from leadsman.bus.settling import STREAM_SETTLE_S
from leadsman.domain.errors import ConfigError
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy
from leadsman.runtime.app import run_service
from leadsman.runtime.hop.process import HopDefinition, HopSettings, serve_hop
from leadsman.runtime.options import AddressType, DurationType, common_options, context_settings, start_logs


def hop_command(definition: HopDefinition, grpc_port: int, words: str) -> click.Command:
    """The command that runs `definition`; `words` is its help, and the administrative port follows `grpc_port`."""
    component = definition.method.component

    def run(**options: Any) -> None:  # noqa: ANN401 - click's values, typed by the options below
        start_logs(options["log_level"], options["log_format"])
        settings = _settings(component, options)
        run_service(lambda shutdown: serve_hop(shutdown, definition, settings))

    run.__doc__ = words
    for option in reversed(_options(grpc_port)):
        run = option(run)
    command = click.command(f"leadsman-{component}", context_settings=context_settings(component))
    return command(common_options(run))


def _settings(component: str, options: dict[str, Any]) -> HopSettings:
    try:
        default = DriverPolicy(stale_after_s=options["stale_after"], hold_unhealthy_s=options["hold_unhealthy"])
        policy = StoragePolicy(default, bus_frozen_max_age_s=options["bus_frozen_max_age"])
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    return HopSettings(
        listen=options["listen"],
        admin_listen=options["admin_listen"],
        bus=BusSettings.for_service(tuple(options["nats_urls"]), component, options["nats_creds"]),
        policy=policy,
        port_file=options["port_file"],
        stream_settle_s=options["stream_settle"],
    )


def _options(grpc_port: int) -> list[Any]:
    return [
        click.option(
            "--listen",
            type=AddressType(),
            default=f"127.0.0.1:{grpc_port}",
            show_envvar=True,
            help="Where gateways connect (gRPC, grpc.health.v1 included); port 0 picks a free one.",
        ),
        click.option(
            "--admin-listen",
            type=AddressType(),
            default=f"127.0.0.1:{grpc_port + 1}",
            show_envvar=True,
            help="Where /livez, /readyz?verbose, /metrics and /version are served (HTTP).",
        ),
        click.option(
            "--stale-after",
            type=DurationType(),
            default="30s",
            show_envvar=True,
            help="Silence of a node after which its states are unknown; three heartbeats or more.",
        ),
        click.option(
            "--hold-unhealthy",
            type=DurationType(),
            default="5m",
            show_envvar=True,
            help="How much longer an unhealthy state holds on a silent node.",
        ),
        click.option(
            "--bus-frozen-max-age",
            type=DurationType(),
            default="15m",
            show_envvar=True,
            help="How long last known states stand while NATS is out of reach; then all are unknown.",
        ),
        click.option(
            "--stream-settle",
            type=DurationType(),
            default=f"{STREAM_SETTLE_S:g}s",
            show_envvar=True,
            help="Age that a new stream of reports must reach before a starting service is ready: until then nodes are "
            "missing in it. 0s: do not wait.",
        ),
    ]
