"""The parts of a Pod that decide about storage, as they stand in a request of kube-scheduler.

Everything else in the object is skipped by the decoder. Absent and null mean the same, as in Kubernetes' own codec: the
types take null where Kubernetes writes it, and `decode_with_nulls` takes it everywhere, slowly.
"""

from typing import Any

import msgspec


class ObjectMeta(msgspec.Struct, rename="camel"):
    """`metadata` of a Pod."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ClaimSource(msgspec.Struct, rename="camel", gc=False):
    """`volumes[].persistentVolumeClaim`."""

    claim_name: str = ""
    read_only: bool | None = None


class TemplateSpec(msgspec.Struct, rename="camel", gc=False):
    """`volumes[].ephemeral.volumeClaimTemplate.spec`, as far as it names storage."""

    storage_class_name: str | None = None
    volume_name: str | None = None


class TemplateMeta(msgspec.Struct):
    """`volumes[].ephemeral.volumeClaimTemplate.metadata`."""

    annotations: dict[str, str] | None = None


class ClaimTemplate(msgspec.Struct):
    """`volumes[].ephemeral.volumeClaimTemplate`."""

    metadata: TemplateMeta | None = None
    spec: TemplateSpec | None = None


class EphemeralSource(msgspec.Struct, rename="camel"):
    """`volumes[].ephemeral`."""

    volume_claim_template: ClaimTemplate | None = None


class CsiSource(msgspec.Struct, rename="camel"):
    """`volumes[].csi`, an inline CSI volume."""

    driver: str = ""
    read_only: bool | None = None
    volume_attributes: dict[str, str] | None = None


class NfsSource(msgspec.Struct, rename="camel", gc=False):
    """`volumes[].nfs`."""

    server: str = ""
    path: str = ""
    read_only: bool | None = None


InTree = dict[str, Any]
"""An in-tree source that has moved to CSI; only its presence matters here."""


class InTreeSources(msgspec.Struct, rename="camel"):
    """The in-tree sources that pods and PersistentVolumes have under the same names."""

    aws_elastic_block_store: InTree | None = None
    gce_persistent_disk: InTree | None = None
    azure_disk: InTree | None = None
    azure_file: InTree | None = None
    cinder: InTree | None = None
    vsphere_volume: InTree | None = None
    portworx_volume: InTree | None = None
    rbd: InTree | None = None
    cephfs: InTree | None = None
    iscsi: InTree | None = None
    fc: InTree | None = None
    glusterfs: InTree | None = None


class Volume(InTreeSources, rename="camel"):
    """`spec.volumes[]`: exactly one source is set, and the ones without storage behind them are not listed here."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    csi: CsiSource | None = None
    nfs: NfsSource | None = None


class PodSpec(msgspec.Struct, rename="camel"):
    """`spec` of a Pod."""

    volumes: list[Volume] | None = None
    priority_class_name: str = ""


class Pod(msgspec.Struct):
    """A Pod as kube-scheduler sends it: no apiVersion, no kind."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


_TEXT_MAPS = {"labels", "annotations", "volumeAttributes"}


def decode_with_nulls(raw: bytes | msgspec.Raw) -> Pod:
    """The Pod in `raw`, every null read as Go does: as the zero value. For what the types have refused.

    Raises:
        msgspec.DecodeError: not a Pod all the same.
    """
    return msgspec.convert(_without_nulls(msgspec.json.decode(raw)), Pod)


def _without_nulls(value: Any, *, texts: bool = False) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return [{} if item is None else _without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    if texts:
        return {key: "" if member is None else member for key, member in value.items()}
    return {key: _without_nulls(member, texts=key in _TEXT_MAPS) for key, member in value.items() if member is not None}
