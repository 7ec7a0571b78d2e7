"""One pretended node: fake kubelet directory, CSI driver, TCP backend, a mount where possible, and a real collector."""

import asyncio
import os
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from leadsman.domain.report import StorageKey
from leadsman.testing.sockets import accepts
from leadsman.testing.waiting import eventually
from leadsman_cli.janitor import mounts_below
from leadsman_cli.messages import How
from leadsman_cli.supervisor import Child, End, Supervisor
from leadsman_cli.workspace import Workspace

DRIVER = "nfs.csi.k8s.io"
BACKEND = "10.0.0.9"
EXPECTED = (StorageKey(DRIVER), StorageKey(DRIVER, BACKEND))
"""What every node must report on; the manifests in `demo/` name the same driver and server."""

_START_TIME_S = 90.0  # fifty nodes on two cores need most of it


@dataclass(eq=False, slots=True)
class DemoNode:
    """Names, places and processes of one node.

    `mount` is None where this machine cannot mount; `why_no_mount` then says why. `broken_by` lists the faults in
    force, oldest first.
    """

    name: str
    directory: Path
    backend_port: int
    csi: Child
    backend: Child
    mount: Child | None
    collector: Child
    why_no_mount: str = ""
    broken_by: list[How] = field(default_factory=list)

    @property
    def children(self) -> tuple[Child, ...]:
        """Its processes."""
        every = (self.csi, self.backend, self.mount, self.collector)
        return tuple(child for child in every if child is not None)


def plan_node(
    name: str, port: int, workspace: Workspace, supervisor: Supervisor, nats_url: str, *, why_no_mount: str
) -> DemoNode:
    """Lay out the directories of a node and say which processes it will have; starts nothing.

    `port` is for its TCP backend; `why_no_mount` is empty where this machine can mount.
    """
    directory = workspace.folder(name)
    _write_collector_config(directory / "collector.yaml", port)
    mount = (
        None if why_no_mount else supervisor.plan(f"{name}-mount", _mount_command(_mount_point(directory)), End.KILLED)
    )
    return DemoNode(
        name=name,
        directory=directory,
        backend_port=port,
        csi=supervisor.plan(f"{name}-csi-driver", _csi_command(csi_socket(directory)), End.KILLED),
        backend=supervisor.plan(f"{name}-tcp-backend", _backend_command(port), End.KILLED),
        mount=mount,
        collector=supervisor.plan(
            f"{name}-health-collector", _collector_command(name, directory, nats_url), End.DRAINED
        ),
        why_no_mount=why_no_mount,
    )


async def start_node(node: DemoNode, supervisor: Supervisor) -> None:
    """Start the doubles, wait until they serve, then start the collector.

    Raises:
        NotInTimeError: a double does not serve in time.
    """
    csi_socket(node.directory).parent.mkdir(parents=True, exist_ok=True)
    await asyncio.gather(start_csi(node, supervisor), start_backend(node, supervisor), _start_mount(node, supervisor))
    await supervisor.start(node.collector)


async def start_csi(node: DemoNode, supervisor: Supervisor) -> None:
    """Start the CSI driver (again) and wait until its socket accepts."""
    path = csi_socket(node.directory)
    path.unlink(missing_ok=True)
    await supervisor.start(node.csi)
    await eventually(f"{node.csi.name} serves its socket", lambda: accepts(str(path)), within_s=_START_TIME_S)


async def start_backend(node: DemoNode, supervisor: Supervisor) -> None:
    """Start the TCP backend (again) and wait until its port accepts."""
    address = ("127.0.0.1", node.backend_port)
    await supervisor.start(node.backend)
    await eventually(f"{node.backend.name} accepts", lambda: accepts(address), within_s=_START_TIME_S)


async def _start_mount(node: DemoNode, supervisor: Supervisor) -> None:
    mount = node.mount
    if mount is None:
        return
    point = _mount_point(node.directory)
    _write_volume_data(point.parent, node.name)
    await supervisor.start(mount, optional=True)  # being root is not always enough: some containers may not mount
    await eventually(
        f"{mount.name} is mounted",
        lambda: point in mounts_below(node.directory) or mount.ended,
        within_s=_START_TIME_S,
    )
    if mount.ended:
        last_line = mount.log_tail().splitlines()[-1].strip().removeprefix("Error: ")
        node.mount, node.why_no_mount = None, last_line.replace(str(point), "a directory")
    else:
        mount.wanted = True


def why_no_mounts() -> str:
    """Why this machine cannot mount a FUSE filesystem; empty if it looks as if it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be used: {error.strerror}"
    return ""


def csi_socket(directory: Path) -> Path:
    """Where the CSI driver of the node in `directory` listens; the folder has the driver's nickname, as in life."""
    return directory / "kubelet" / "plugins" / "csi-nfsplugin" / "csi.sock"


def _mount_point(directory: Path) -> Path:
    pod = uuid.uuid5(uuid.NAMESPACE_DNS, directory.name)
    return directory / "kubelet" / "pods" / str(pod) / "volumes" / "kubernetes.io~csi" / "data" / "mount"


def _write_volume_data(folder: Path, node: str) -> None:
    """Write what the kubelet keeps beside a CSI mount (facts: storage-health 3.3); it names the driver."""
    (folder / "mount").mkdir(parents=True, exist_ok=True)
    described = {
        "driverName": DRIVER,
        "nodeName": node,
        "specVolID": "data",
        "volumeHandle": f"{BACKEND}#export#data##",
        "volumeLifecycleMode": "Persistent",
    }
    (folder / "vol_data.json").write_bytes(msgspec.json.encode(described))


def _write_collector_config(path: Path, port: int) -> None:
    path.write_text(
        "apiVersion: leadsman.dev/v1alpha1\n"
        "kind: HealthCollectorConfiguration\n"
        "endpoints:\n"
        f"  - {{driver: {DRIVER}, backend: {BACKEND}, address: '127.0.0.1:{port}'}}\n"
        # Breaking and healing by hand, again and again, is what this pipeline is for.
        "flapping: {changes: 100}\n",
        encoding="utf-8",
    )


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs `module` with our interpreter, whatever lies in the current directory."""
    return (sys.executable, "-P", "-m", module, *arguments)


def _csi_command(path: Path) -> tuple[str, ...]:
    return python("leadsman.testing.csi_driver", "--socket", str(path), "--name", DRIVER)


def _backend_command(port: int) -> tuple[str, ...]:
    return python("leadsman.testing.tcp_backend", "--listen", f"127.0.0.1:{port}")


def _mount_command(point: Path) -> tuple[str, ...]:
    return python("leadsman.testing.fuse_mount", "--mountpoint", str(point), "--source", f"{BACKEND}:/export")


def _collector_command(name: str, directory: Path, nats_url: str) -> tuple[str, ...]:
    return python(
        "leadsman_health_collector",
        "run",
        *("--node-name", name),
        *("--kubelet-dir", str(directory / "kubelet")),
        *("--config", str(directory / "collector.yaml")),
        *("--state-file", str(directory / "collector-state.json")),
        *("--nats-url", nats_url),
        # A look as long as its period would make the collector skip every second round.
        *("--period", "1s", "--probe-deadline", "800ms", "--heartbeat", "2s"),
        *("--admin-listen", "127.0.0.1:0"),
    )
