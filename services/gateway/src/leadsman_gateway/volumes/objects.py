"""The few fields of PVC, PV, StorageClass and CSIDriver objects that we read, and their turning into records.

The API server's bytes are decoded straight into these structs: at 5,000 claims that costs a twentieth of the client
library's own models. Absent and null mean the same, as in Kubernetes' own codec.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from leadsman.wire.pod import InTreeSources
from leadsman_gateway.volumes.in_tree import (
    PLUGIN_OF_FIELD,
    attributes_of,
    driver_of_plugin,
    driver_of_provisioner,
)
from leadsman_gateway.volumes.records import Claim, CsiDriver, Kind, Record, StorageClass, Volume
from leadsman_gateway.volumes.topology import TopologyTerm, VolumeAffinity, near_class, near_volume

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_MIGRATED_TO = "pv.kubernetes.io/migrated-to"
_PROVISIONER = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")


class _Owner(msgspec.Struct, gc=False):
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _VolumeMeta(_Meta, rename="camel"):
    labels: dict[str, str] | None = None


class _ClaimSpec(msgspec.Struct, rename="camel", gc=False):
    volume_name: str | None = None
    storage_class_name: str | None = None


class ClaimObject(msgspec.Struct):
    """A PersistentVolumeClaim as the API server writes it."""

    metadata: _Meta
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)

    def record(self) -> Claim:
        """What we remember of it."""
        annotations = self.metadata.annotations or {}
        provisioner = next((annotations[key] for key in (_MIGRATED_TO, *_PROVISIONER) if annotations.get(key)), "")
        owners = self.metadata.owner_references or ()
        return Claim(
            namespace=self.metadata.namespace or "default",
            name=self.metadata.name,
            volume=self.spec.volume_name or "",
            storage_class=annotations.get(BETA_CLASS) or self.spec.storage_class_name or "",
            provisioner=driver_of_plugin(provisioner),
            owner_uid=next((owner.uid for owner in owners if owner.controller), ""),
        )


class _Csi(msgspec.Struct, rename="camel"):
    driver: str
    read_only: bool | None = None
    volume_attributes: dict[str, str] | None = None


class _FlexVolume(msgspec.Struct, rename="camel", gc=False):
    driver: str
    read_only: bool | None = None


_Source = dict[str, Any]


class _VolumeSpec(InTreeSources, rename="camel"):
    csi: _Csi | None = None
    flex_volume: _FlexVolume | None = None
    local: _Source | None = None
    host_path: _Source | None = None
    mount_options: list[str] | None = None
    nfs: _Source | None = None
    node_affinity: VolumeAffinity | None = None


class VolumeObject(msgspec.Struct):
    """A PersistentVolume as the API server writes it."""

    metadata: _VolumeMeta
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)

    def record(self) -> Volume:
        """What we remember of it."""
        driver, attributes, read_only = self._source()
        migrated = (self.metadata.annotations or {}).get(_MIGRATED_TO)
        # A CSI volume is served by the driver it names; the annotation tells who serves an in-tree one.
        if migrated and self.spec.csi is None:
            driver = migrated
        return Volume(
            name=self.metadata.name,
            driver=driver,
            attributes=attributes,
            read_only=read_only,
            mount_options=tuple(self.spec.mount_options or ()),
            near=near_volume(self.metadata.labels, self.spec.node_affinity),
        )

    def _source(self) -> tuple[str | None, dict[str, str], bool]:
        spec = self.spec
        if spec.csi is not None:
            return spec.csi.driver, spec.csi.volume_attributes or {}, bool(spec.csi.read_only)
        if spec.local is not None or spec.host_path is not None:
            return "", {}, False
        if spec.flex_volume is not None:
            return spec.flex_volume.driver, {}, bool(spec.flex_volume.read_only)
        for field, plugin in PLUGIN_OF_FIELD.items():
            source: _Source | None = getattr(spec, field)
            if source is not None:
                return driver_of_plugin(plugin), attributes_of(plugin, source), source.get("readOnly") is True
        return None, {}, False


class ClassObject(msgspec.Struct, rename="camel"):
    """A StorageClass as the API server writes it."""

    metadata: _Meta
    provisioner: str
    parameters: dict[str, str] | None = None
    volume_binding_mode: str | None = None
    mount_options: list[str] | None = None
    allowed_topologies: list[TopologyTerm] | None = None

    def record(self) -> StorageClass:
        """What we remember of it."""
        return StorageClass(
            name=self.metadata.name,
            driver=driver_of_provisioner(self.provisioner),
            parameters=self.parameters or {},
            waits=self.volume_binding_mode == "WaitForFirstConsumer",
            mount_options=tuple(self.mount_options or ()),
            near=near_class(self.allowed_topologies),
        )


class _DriverSpec(msgspec.Struct, rename="camel", gc=False):
    attach_required: bool | None = None


class DriverObject(msgspec.Struct):
    """A CSIDriver as the API server writes it."""

    metadata: _Meta
    spec: _DriverSpec = msgspec.field(default_factory=_DriverSpec)

    def record(self) -> CsiDriver:
        """What we remember of it."""
        return CsiDriver(name=self.metadata.name, attach_required=self.spec.attach_required is not False)


AnyObject = ClaimObject | VolumeObject | ClassObject | DriverObject


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind that the catalogue holds: where the API serves it and how its bytes are read.

    `essential` is whether decisions depend on it; the catalogue does not wait for the others.
    """

    kind: Kind
    plural: str
    root: str
    model: type[AnyObject]
    decode: Callable[[bytes | msgspec.Raw], AnyObject]
    essential: bool = True

    @property
    def collection(self) -> str:
        """Path of the whole collection, all namespaces."""
        return f"{self.root}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """Path of one object; both parts must be valid Kubernetes names."""
        if namespace:
            return f"{self.root}/namespaces/{namespace}/{self.plural}/{name}"
        return f"{self.root}/{self.plural}/{name}"


_CORE, _STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"

RESOURCES: dict[Kind, Resource] = {
    resource.kind: resource
    for resource in (
        Resource(
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            _CORE,
            ClaimObject,
            msgspec.json.Decoder(ClaimObject).decode,
        ),
        Resource(
            "PersistentVolume", "persistentvolumes", _CORE, VolumeObject, msgspec.json.Decoder(VolumeObject).decode
        ),
        Resource("StorageClass", "storageclasses", _STORAGE, ClassObject, msgspec.json.Decoder(ClassObject).decode),
        Resource(
            "CSIDriver",
            "csidrivers",
            _STORAGE,
            DriverObject,
            msgspec.json.Decoder(DriverObject).decode,
            essential=False,
        ),
    )
}


def record_of(kind: Kind, body: bytes | msgspec.Raw) -> tuple[Record, str]:
    """The record in one JSON object of `kind`, and the object's resourceVersion.

    Raises:
        msgspec.ValidationError: a field that we read has another type, or a required one is missing.
    """
    decoded = RESOURCES[kind].decode(body)
    return decoded.record(), decoded.metadata.resource_version
