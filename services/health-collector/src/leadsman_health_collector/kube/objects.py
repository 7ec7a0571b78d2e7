"""The few fields of Node, CSINode and CSIDriver objects that a collector reads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from leadsman.kube.watched import Decoded, Watched
from leadsman_health_collector.cluster_view import KubeletVerdict

MAX_LABEL_BYTES = 6 * 1024
"""Room for the node's labels in a report, of which the bus takes 16 KiB in all; 100 labels of 50 bytes fit."""

MAX_VERDICTS = 64
MAX_TEXT = 512
"""Characters of a reason or message that are kept."""

_PER_LABEL = len('"":"",')

_UNREACHABLE, _DEGRADED = "StorageUnreachable", "StorageDegraded"

_CSI_VOLUME = "kubernetes.io/csi/"
"""A volume in a Node's status is `kubernetes.io/csi/<driver>^<volume handle>`; those of other plugins have no limit."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta


class _Node(_Object):
    # Read apart: whatever is wrong with it must not hide the labels.
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Attached(msgspec.Struct):
    name: str


class _NodeStatus(msgspec.Struct, rename="camel"):
    volumes_attached: list[_Attached] | None = None


class _Driver(msgspec.Struct):
    name: str
    allocatable: Any = None


class _Allocatable(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None


class _Spec(msgspec.Struct):
    drivers: list[Any] | None = None


class _CsiNode(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    # Alpha: whatever becomes of its shape must not hide which drivers are registered.
    status: Any = None


class _Condition(msgspec.Struct, rename="camel"):
    status: str
    reason: str = ""
    message: str = ""
    access_mode: str | None = None
    volume_mode: str | None = None


class _StorageHealth(msgspec.Struct, rename="camel"):
    name: str
    health_conditions: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class OwnNode:
    """This node's Node object. `labels_cut` is the number of labels left out of `labels`.

    `attached` is the number of attached volumes by CSI driver, of those that have any; None if it could not be read.
    """

    uid: str
    labels: Mapping[str, str]
    labels_cut: int = 0
    attached: Mapping[str, int] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnCsiNode:
    """This node's CSINode object.

    `unread` is the number of conditions in its status that could not be read, `odd_drivers` that of entries in its
    spec which name no driver. `attach_limits` has how many volumes a driver can attach, of those that have a limit.
    """

    drivers: frozenset[str]
    verdicts: tuple[KubeletVerdict, ...] = ()
    unread: int = 0
    odd_drivers: int = 0
    attach_limits: Mapping[str, int] = field(default_factory=dict)


def watched_node(name: str) -> Watched[OwnNode]:
    """The Node `name`, whole, because its status has the attached volumes: some 10 KB each time the kubelet writes it.

    That is every 5 minutes, or when something changes.
    """
    return Watched("Node", "/api/v1/nodes", _node, _only(name))


def watched_csi_node(name: str) -> Watched[OwnCsiNode]:
    """The CSINode `name`."""
    return Watched("CSINode", "/apis/storage.k8s.io/v1/csinodes", _csi_node, _only(name))


def watched_csi_drivers() -> Watched[None]:
    """Every CSIDriver; its name is all there is to know, and that is its key."""
    return Watched("CSIDriver", "/apis/storage.k8s.io/v1/csidrivers", _csi_driver, metadata_only=True)


def short_labels(labels: Mapping[str, str], limit: int = MAX_LABEL_BYTES) -> dict[str, str]:
    """The labels that fit into `limit` bytes of JSON, the shortest first.

    Long ones are mostly what node-feature-discovery has found out about the CPU; those that people write and select by
    are short.
    """
    kept: dict[str, str] = {}
    for key, value in sorted(labels.items(), key=lambda label: (len(label[0]) + len(label[1]), label)):
        limit -= len(key.encode()) + len(value.encode()) + _PER_LABEL
        if limit < 0:
            break
        kept[key] = value
    return kept


def _only(name: str) -> tuple[tuple[str, str], ...]:
    return (("fieldSelector", f"metadata.name={name}"),)


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_node = msgspec.json.Decoder(_Node).decode
_decode_node_status = msgspec.json.Decoder(_NodeStatus).decode
_decode_csi_node = msgspec.json.Decoder(_CsiNode).decode


def _node(body: msgspec.Raw) -> Decoded[OwnNode]:
    found = _decode_node(body)
    meta = found.metadata
    labels = meta.labels or {}
    kept = short_labels(labels)
    node = OwnNode(meta.uid, kept, len(labels) - len(kept), _attached(found.status))
    return Decoded(("", meta.name), node, meta.resource_version)


def _attached(status: msgspec.Raw) -> Mapping[str, int] | None:
    try:
        volumes = _decode_node_status(status).volumes_attached or ()
    except msgspec.DecodeError:
        return None
    names = [one.name.removeprefix(_CSI_VOLUME) for one in volumes if one.name.startswith(_CSI_VOLUME)]
    return dict(Counter(name.partition("^")[0] for name in names))


def _csi_node(body: msgspec.Raw) -> Decoded[OwnCsiNode]:
    found = _decode_csi_node(body)
    verdicts, unread = _verdicts(found.status)
    entries = [_driver(entry) for entry in found.spec.drivers or ()]
    drivers = [entry for entry in entries if entry is not None and entry.name]
    limits = {driver.name: limit for driver in drivers if (limit := _limit(driver.allocatable)) is not None}
    names = frozenset(driver.name for driver in drivers)
    csi_node = OwnCsiNode(names, verdicts, unread, len(entries) - len(drivers), limits)
    return Decoded(("", found.metadata.name), csi_node, found.metadata.resource_version)


def _driver(entry: object) -> _Driver | None:
    """None if `entry` names no driver; the others are registered all the same."""
    try:
        return msgspec.convert(entry, _Driver)
    except msgspec.ValidationError:
        return None


def _limit(allocatable: object) -> int | None:
    """`count` of a CSINode's driver. Absent, or unreadable, it is not known; the driver is registered all the same."""
    try:
        return msgspec.convert(allocatable or {}, _Allocatable).count
    except msgspec.ValidationError:
        return None


def _csi_driver(body: msgspec.Raw) -> Decoded[None]:
    meta = _decode_object(body).metadata
    return Decoded(("", meta.name), None, meta.resource_version)


def _verdicts(status: object) -> tuple[tuple[KubeletVerdict, ...], int]:
    """`status.storageHealth` as k8s.io/api v0.37.2 has it, and how many of its conditions are unreadable."""
    listed = status.get("storageHealth") if isinstance(status, dict) else None
    if not listed:
        return (), 0
    if not isinstance(listed, list):
        return (), 1
    found = [verdict for entry in listed for verdict in _of_driver(entry)]
    known = [verdict for verdict in found if verdict is not None][:MAX_VERDICTS]
    return tuple(known), len(found) - len(known)


def _of_driver(entry: object) -> list[KubeletVerdict | None]:
    """The conditions of one driver; None for each that cannot be read."""
    try:
        one = msgspec.convert(entry, _StorageHealth)
    except msgspec.ValidationError:
        return [None]
    return [_verdict(one.name, condition) for condition in one.health_conditions or ()]


def _verdict(driver: str, condition: object) -> KubeletVerdict | None:
    try:
        one = msgspec.convert(condition, _Condition)
    except msgspec.ValidationError:
        return None
    limits = [limit for limit in (one.access_mode, one.volume_mode) if limit]
    return KubeletVerdict(
        driver, _of_some(one.status, limits), one.reason[:MAX_TEXT], _words(one.message, limits)[:MAX_TEXT]
    )


def _of_some(status: str, limits: Sequence[str]) -> str:
    """`status` for the driver as a whole: what cannot be reached in some access modes only still works in others."""
    return _DEGRADED if status == _UNREACHABLE and limits else status


def _words(message: str, limits: Sequence[str]) -> str:
    return f"only {', '.join(limits)}: {message}" if limits else message
