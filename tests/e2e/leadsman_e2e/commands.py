"""The command line of each control plane binary."""

from __future__ import annotations

import shutil
from pathlib import Path

LOOPBACK = "127.0.0.1"

# Nodes here have no kubelets, so nobody renews their leases: the node lifecycle controller would
# declare every one of them dead, and taint eviction would then delete their pods.
CONTROLLERS_OFF = (
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "node-ipam-controller",
)


def binary(bin_dir: Path, name: str) -> str:
    """The path of one binary; etcd may be on PATH instead. Raises FileNotFoundError."""
    path = bin_dir / name
    if path.is_file():
        return str(path)
    installed = shutil.which(name) if name == "etcd" else None
    if installed is None:
        raise FileNotFoundError(f"{path} does not exist: run tests/e2e/controlplane/build.py")
    return installed


def etcd(bin_dir: Path, data: Path, client_url: str, peer_url: str) -> list[str]:
    """etcd with one member that does not wait for the disk: its data is dropped afterwards."""
    return [
        binary(bin_dir, "etcd"),
        "--name=e2e",
        f"--data-dir={data}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=e2e={peer_url}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(bin_dir: Path, *, etcd_url: str, port: int, certificates: Path, tokens: Path) -> list[str]:
    """kube-apiserver with RBAC and static tokens; it signs its own certificate.

    The key of that certificate also signs service account tokens, which saves making another.
    """
    return [
        binary(bin_dir, "kube-apiserver"),
        f"--etcd-servers={etcd_url}",
        f"--secure-port={port}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--cert-dir={certificates}",
        f"--service-account-key-file={certificates / 'apiserver.key'}",
        f"--service-account-signing-key-file={certificates / 'apiserver.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        # No kubelet ever mounts a token, and tests need not wait for a namespace's account.
        "--disable-admission-plugins=ServiceAccount",
        # One API server: no lease that says where it is.
        "--endpoint-reconciler-type=none",
        "-v=2",
    ]


def controller_manager(bin_dir: Path, port: int, kubeconfig: Path, certificates: Path) -> list[str]:
    """kube-controller-manager: binds claims, makes ephemeral claims, runs Deployments."""
    off = [f"-{name}" for name in CONTROLLERS_OFF]
    return [
        binary(bin_dir, "kube-controller-manager"),
        *own_endpoint(port, certificates),
        *api_access(kubeconfig),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--controllers={','.join(['*', *off])}",
        # Its default of 20 requests per second would be the slowest part of a test.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "-v=2",
    ]


def scheduler(bin_dir: Path, *, config: Path, port: int, kubeconfig: Path, certificates: Path) -> list[str]:
    """kube-scheduler from a KubeSchedulerConfiguration file."""
    return [
        binary(bin_dir, "kube-scheduler"),
        f"--config={config}",
        *own_endpoint(port, certificates),
        *api_access(kubeconfig),
        "-v=2",
    ]


def own_endpoint(port: int, certificates: Path) -> list[str]:
    """Where a component serves its health and metrics; it signs its own certificate too."""
    return [
        f"--secure-port={port}",
        f"--bind-address={LOOPBACK}",
        f"--cert-dir={certificates}",
    ]


def api_access(kubeconfig: Path) -> list[str]:
    """How a component asks the API server whether somebody may read its endpoint."""
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]
