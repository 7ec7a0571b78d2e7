"""The `leadsman-gateway` command."""

from pathlib import Path
from typing import Any

import click

from leadsman.bus.connect import BusSettings
from leadsman.runtime.app import run_service
from leadsman.runtime.options import AddressType, DurationType, common_options, context_settings, start_logs
from leadsman_gateway.service import run_gateway
from leadsman_gateway.settings import GatewaySettings, SizeType, check_source, parse_attributes

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("leadsman-gateway", context_settings=context_settings("gateway"))
@click.option(
    "--listen",
    type=AddressType(),
    default=":8099",
    show_envvar=True,
    help="Where kube-scheduler calls (:PORT: every address, IPv4 and IPv6); "
    "/livez, /readyz?verbose, /metrics and /version are served there, too.",
)
@click.option(
    "--url-prefix", default="", show_envvar=True, help="Path before the verbs, as in kube-scheduler's urlPrefix."
)
@click.option(
    "--filter",
    "filters",
    type=AddressType(peer=True),
    multiple=True,
    default=("127.0.0.1:9201",),
    show_envvar=True,
    help="A filter replica, in order of preference; give it several times.",
)
@click.option(
    "--scorer",
    "scorers",
    type=AddressType(peer=True),
    multiple=True,
    default=("127.0.0.1:9301",),
    show_envvar=True,
    help="A scorer replica, in order of preference; give it several times.",
)
@click.option(
    "--deadline",
    type=DurationType(positive=True),
    default="800ms",
    show_envvar=True,
    help="Time for what is behind the gateway, from a call's arrival; 250ms of it are left even after a slow upload. "
    "Keep kube-scheduler's httpTimeout above it by 250ms and more.",
)
@click.option(
    "--on-failure",
    type=click.Choice(["allow", "reject"]),
    default="allow",
    show_envvar=True,
    help="What a pod with storage gets when no verdict can be had: every node, or none.",
)
@click.option("--max-body", type=SizeType(), default="64MiB", show_envvar=True, help="Largest request body.")
@click.option("--kubeconfig", type=_FILE, show_envvar=True, help="Know volumes from this cluster.")
@click.option("--in-cluster", is_flag=True, show_envvar=True, help="Know volumes from the cluster this pod runs in.")
@click.option(
    "--manifests", type=_FOLDER, show_envvar=True, help="Know volumes from manifests; for use without a cluster."
)
@click.option(
    "--namespace", default="leadsman-system", show_envvar=True, help="Namespace of the object that wakes pods."
)
@click.option(
    "--wake/--no-wake",
    default=True,
    show_envvar=True,
    help="Wake rejected pods when storage recovers (needs a cluster).",
)
@click.option(
    "--backend-attribute",
    "backend_attributes",
    metavar="DRIVER=ATTRIBUTE",
    multiple=True,
    show_envvar=True,
    help="The volume attribute that names a driver's backend; give it several times.",
)
@common_options
def main(**options: Any) -> None:  # noqa: ANN401 - click's values, typed by the options above
    """Answer kube-scheduler's extender calls: keep pods off nodes whose storage is broken for them."""
    check_source(options)
    start_logs(options.pop("log_level"), options.pop("log_format"))
    bus = BusSettings.for_service(tuple(options.pop("nats_urls")), "gateway", options.pop("nats_creds"))
    settings = GatewaySettings(
        filters=tuple(options.pop("filters")),
        scorers=tuple(options.pop("scorers")),
        deadline_s=options.pop("deadline"),
        backend_attributes=parse_attributes(options.pop("backend_attributes")),
        bus=bus,
        **options,
    )
    run_service(lambda shutdown: run_gateway(shutdown, settings))


if __name__ == "__main__":
    main()
