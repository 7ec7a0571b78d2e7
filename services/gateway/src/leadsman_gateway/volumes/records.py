"""What the gateway remembers of claims, volumes, classes and drivers: only what decides about storage.

Records are compact because a cluster may hold tens of thousands of them, and comparable because an update that changes
none of these fields (a status, a heartbeat) must not look like a change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from leadsman.domain.requirements import NOWHERE, Near

Kind = Literal["PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSIDriver"]
Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is empty."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """An object that a decision needed and the catalogue did not have."""

    kind: Literal["PersistentVolumeClaim", "PersistentVolume", "StorageClass"]
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim.

    `volume` is empty while unbound. `storage_class` is empty when none is named. `provisioner` is the CSI driver that
    the volume controller wrote on the claim, if it did. `owner_uid` is the UID of the controlling owner (a pod, for a
    generic ephemeral volume).
    """

    namespace: str
    name: str
    volume: str = ""
    storage_class: str = ""
    provisioner: str = ""
    owner_uid: str = ""

    @property
    def key(self) -> Key:
        """Where the store keeps it."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume.

    `driver` is empty when no driver stands behind it (local, hostPath), and None when its source is of a kind that we
    do not know. In-tree sources are written in the terms of a CSI driver: name and attributes. `near` is where its data
    is.
    """

    name: str
    driver: str | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    mount_options: tuple[str, ...] = ()
    near: Near = NOWHERE

    @property
    def key(self) -> Key:
        """Where the store keeps it."""
        return ("", self.name)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A StorageClass.

    `driver` is empty when nothing is provisioned (`kubernetes.io/no-provisioner`). `waits` is whether binding waits for
    the first consumer, that is, for the scheduler. `near` is where its volumes may be.
    """

    name: str
    driver: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    waits: bool = False
    mount_options: tuple[str, ...] = ()
    near: Near = NOWHERE

    @property
    def key(self) -> Key:
        """Where the store keeps it."""
        return ("", self.name)


@dataclass(frozen=True, slots=True)
class CsiDriver:
    """A CSIDriver: one that an administrator has installed in the cluster."""

    name: str
    attach_required: bool = True

    @property
    def key(self) -> Key:
        """Where the store keeps it."""
        return ("", self.name)


Record = Claim | Volume | StorageClass | CsiDriver

KIND_OF: dict[type, Kind] = {
    Claim: "PersistentVolumeClaim",
    Volume: "PersistentVolume",
    StorageClass: "StorageClass",
    CsiDriver: "CSIDriver",
}
