"""Command-line options that `run` and `check` share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from leadsman.kube.api import Api, connect, in_cluster
from leadsman.runtime.options import DurationType
from leadsman_health_collector.settings import Sidecar
from leadsman_health_collector.volume_data import DRIVER_NAME

Command = Callable[..., Any]

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)

_OPTIONS = (
    click.option(
        "--kubelet-dir",
        type=FOLDER,
        default=Path("/var/lib/kubelet"),
        show_envvar=True,
        help="The kubelet's root directory; k3s and microk8s have other ones.",
    ),
    click.option(
        "--mountinfo",
        type=FILE,
        default=Path("/proc/self/mountinfo"),
        show_envvar=True,
        help="List of the host's mounts; /proc/1/mountinfo with hostPID.",
    ),
    click.option("--proc-root", type=FOLDER, default=Path("/proc"), show_envvar=True, help="The host's /proc."),
    click.option("--sys-root", type=FOLDER, default=Path("/sys"), show_envvar=True, help="The host's /sys."),
    click.option(
        "--modules-root",
        type=FOLDER,
        default=Path("/lib/modules"),
        show_envvar=True,
        help="The host's kernel modules; without them nothing is said about kernel support.",
    ),
    click.option(
        "--config",
        type=FILE,
        show_envvar=True,
        help="HealthCollectorConfiguration file: endpoints, canaries, probes to leave out.",
    ),
    click.option(
        "--csi-socket",
        type=FILE,
        show_envvar=True,
        help="Watch the driver behind this socket and nothing else: for a sidecar in its pod. Needs --driver-name.",
    ),
    click.option(
        "--driver-name", show_envvar=True, help="Name of the driver behind --csi-socket, as GetPluginInfo tells it."
    ),
    click.option(
        "--probe-deadline",
        type=DurationType(),
        default="3s",
        show_envvar=True,
        help="Time to answer; mounts 5/3 of it.",
    ),
    click.option(
        "--kubeconfig",
        type=FILE,
        show_envvar=True,
        help="Access to the API server; by default the pod's service account, or none outside a pod.",
    ),
)


def look_options(command: Command) -> Command:
    """Adds the options to a command, in their order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def sidecar_of(csi_socket: Path | None, driver_name: str | None) -> Sidecar | None:
    """What the two options ask for.

    Raises:
        click.UsageError: one of them without the other, or a name that no driver can have.
    """
    if csi_socket is None and driver_name is None:
        return None
    if csi_socket is None or driver_name is None:
        raise click.UsageError("--csi-socket and --driver-name belong together: a sidecar speaks for one driver only")
    if not DRIVER_NAME.fullmatch(driver_name):
        raise click.UsageError(f"--driver-name {driver_name!r} is not the name of a CSI driver, such as nfs.csi.k8s.io")
    return Sidecar(driver_name, csi_socket)


async def connect_if_any(kubeconfig: Path | None) -> Api | None:
    """The API server of `kubeconfig`, or that of the cluster whose pod this is; None where there is neither.

    Raises:
        ConfigError: the credentials cannot be used.
    """
    if kubeconfig is None and not in_cluster():
        return None
    return await connect(kubeconfig, user_agent="leadsman-health-collector")
