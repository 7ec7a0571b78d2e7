"""What the API server says about this node, as far as probes and reports need it. Plain data, filled by `kube`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class KubeletVerdict(NamedTuple):
    """One condition of a driver in `CSINode.status.storageHealth` (alpha in v1.37): the kubelet's own finding.

    `status` is the KEP's word (`StorageUnreachable`, `StorageDegraded`); words of a newer version may appear.
    """

    driver: str
    status: str
    reason: str = ""
    message: str = ""


class AttachSlots(NamedTuple):
    """How many volumes a driver can attach to this node, and how many are attached; None if that is not known."""

    limit: int
    attached: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """This node as the API server has it.

    `registered` are the drivers in the node's CSINode, None while that is not known (no API server, no right, or not
    read yet), which is different from none registered. `cluster_drivers` are the names of all CSIDriver objects.
    `attach_slots` has the registered drivers that have told the kubelet a limit.
    """

    node_uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    registered: frozenset[str] | None = None
    cluster_drivers: frozenset[str] = frozenset()
    storage_health: tuple[KubeletVerdict, ...] = ()
    attach_slots: Mapping[str, AttachSlots] = field(default_factory=dict)


NOTHING_KNOWN = ClusterView()
"""Without an API server."""
