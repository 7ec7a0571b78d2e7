"""The command line that filter and scorer have in common."""

from pathlib import Path
from typing import Any

import click

from leadsman.bus.connect import BusSettings
from leadsman.bus.settling import STREAM_SETTLE_S
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
    return HopSettings(
        listen=options["listen"],
        admin_listen=options["admin_listen"],
        bus=BusSettings.for_service(tuple(options["nats_urls"]), component, options["nats_creds"]),
        policy_file=options["policy"],
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
            "--policy",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            show_envvar=True,
            help="The SchedulingPolicy document (YAML). A new version in this file is taken within about a second; a "
            "bad one is refused and the last good one stays. Without it the built-in policy holds: storage states "
            "decide, no rules.",
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
