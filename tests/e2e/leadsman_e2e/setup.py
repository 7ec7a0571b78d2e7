"""What a cluster for scenarios is made of."""

from __future__ import annotations

from dataclasses import dataclass

DRIVER = "nfs.csi.k8s.io"
BACKENDS = ("nfs-a", "nfs-b")


@dataclass(frozen=True, slots=True)
class Setup:
    """Nodes and storage, and how Leadsman is run. What is not given here is as shipped.

    `policy` is the text of the policy file at the start; without it the built-in policy holds. With `labels` the
    collectors have access to the API server.
    """

    nodes: tuple[str, ...] = ("node-1", "node-2", "node-3")
    policy: str | None = None
    labels: bool = False
    heartbeat: str = "10s"
