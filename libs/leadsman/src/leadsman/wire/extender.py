"""What kube-scheduler sends to an extender: the bodies of filter, prioritize and preempt calls.

kube-scheduler writes PascalCase keys; tagged Go types of old extenders wrote lower case, and Go reads any case. The
first decoder of each call accepts exactly the usual spelling and is the fast one; whatever it refuses is read again
without regard to case in the argument and victim structs (objects inside keep Kubernetes' own spelling).

Nodes stay raw bytes: no decoder that builds objects keeps up with full nodes (a factor of 4 to 20, measured).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec

from leadsman.wire.errors import WireError
from leadsman.wire.extender_spelling import respell_victims
from leadsman.wire.pod import Pod, decode_with_nulls

T = TypeVar("T")

_NAME_PREFIX = b'{"metadata":{"name":"'
_NAME_START = len(_NAME_PREFIX)
_NAME_WINDOW = _NAME_START + 256
"""A node name has at most 253 bytes (DNS subdomain)."""


class BodyError(WireError):
    """A request body that cannot be answered. `reason` is a short code for metrics."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Candidates:
    """The nodes that a call is about, in the form in which they were sent; None means null or absent.

    `items` are the bytes of whole Node objects and `item_names` their names, index by index.
    """

    names: list[str] | None = None
    items: list[msgspec.Raw] | None = None
    item_names: list[str] | None = None

    def all_names(self) -> list[str]:
        """Every candidate's name in the order sent; names first if both forms were filled."""
        if self.names is None:
            return self.item_names or []
        if not self.item_names:
            return self.names
        known = set(self.names)
        return self.names + [name for name in self.item_names if name not in known]


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A filter or prioritize call."""

    pod: Pod
    candidates: Candidates


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would be evicted from one node, most important first, by UID."""

    uids: list[str]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptCall:
    """A preempt call: the pod, and node to victims in the order sent."""

    pod: Pod
    victims: dict[str, Victims]


class _RawNodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _NameOnly(msgspec.Struct):
    name: str


class _NodeName(msgspec.Struct):
    metadata: _NameOnly


class _NamedNodes(msgspec.Struct):
    items: list[_NodeName] | None = None


_SPELLING = {"pod": "Pod", "nodes": "Nodes", "names": "NodeNames"}


class _FilterArgs(msgspec.Struct, rename=_SPELLING, forbid_unknown_fields=True):
    pod: Pod
    nodes: _RawNodes | None = None
    names: list[str] | None = None


class _PrioritizeArgs(msgspec.Struct, rename=_SPELLING, forbid_unknown_fields=True):
    pod: Pod
    nodes: _NamedNodes | None = None
    names: list[str] | None = None


class _MetaPod(msgspec.Struct, rename={"uid": "UID"}, forbid_unknown_fields=True):
    uid: str = ""


class _VictimMeta(msgspec.Struct):
    uid: str = ""


class _VictimPod(msgspec.Struct):
    metadata: _VictimMeta = msgspec.field(default_factory=_VictimMeta)


_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_VICTIM_SPELLING = {"pods": "Pods", "pdb_violations": "NumPDBViolations"}


class _MetaVictims(msgspec.Struct, rename=_VICTIM_SPELLING, forbid_unknown_fields=True):
    pods: list[_MetaPod | None] | None = None
    pdb_violations: _Int64 = 0


class _FullVictims(msgspec.Struct, rename=_VICTIM_SPELLING, forbid_unknown_fields=True):
    pods: list[_VictimPod | None] | None = None
    pdb_violations: _Int64 = 0


_MetaMap = dict[str, _MetaVictims | None]
_FullMap = dict[str, _FullVictims | None]


class _PreemptArgs(
    msgspec.Struct,
    rename={"pod": "Pod", "full": "NodeNameToVictims", "meta": "NodeNameToMetaVictims"},
    forbid_unknown_fields=True,
):
    pod: Pod
    full: _FullMap | None = None
    meta: _MetaMap | None = None


_filter_args = msgspec.json.Decoder(_FilterArgs)
_prioritize_args = msgspec.json.Decoder(_PrioritizeArgs)
_preempt_args = msgspec.json.Decoder(_PreemptArgs)
_node_name = msgspec.json.Decoder(_NodeName)
_any_object = msgspec.json.Decoder(dict[str, msgspec.Raw])

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_filter(body: bytes) -> NodeCall:
    """The filter call in `body`, whole nodes kept as the bytes they came in.

    Raises:
        BodyError: empty, not JSON, of a wrong type, without a Pod, or with a node that has no name.
    """
    args = _decode(body, _filter_args.decode, lambda: _decode_folded(body, _FilterArgs))
    items = None if args.nodes is None else args.nodes.items or []
    return NodeCall(args.pod, Candidates(args.names, items, None if items is None else _names_of(items)))


def decode_prioritize(body: bytes) -> NodeCall:
    """The prioritize call in `body`; of whole nodes only the names are read, so `items` is None.

    Raises:
        BodyError: see `decode_filter`.
    """
    args = _decode(body, _prioritize_args.decode, lambda: _decode_folded(body, _PrioritizeArgs))
    names = None if args.nodes is None else [node.metadata.name for node in args.nodes.items or []]
    return NodeCall(args.pod, Candidates(args.names, None, names))


def decode_preempt(body: bytes) -> PreemptCall:
    """The preempt call in `body`, from either form of the victims; the meta form counts if both are filled.

    Null victims and null pods are read as none (an empty list is legal from Kubernetes 1.38 on).

    Raises:
        BodyError: see `decode_filter`.
    """
    args = _decode(body, _preempt_args.decode, lambda: _decode_folded(body, _PreemptArgs))
    victims: dict[str, Victims] = {}
    if args.meta is not None:
        for node, meta in args.meta.items():
            uids = [] if meta is None else [pod.uid for pod in meta.pods or [] if pod is not None]
            victims[node] = Victims(uids, meta.pdb_violations if meta else 0)
    else:
        for node, full in (args.full or {}).items():
            uids = [] if full is None else [pod.metadata.uid for pod in full.pods or [] if pod is not None]
            victims[node] = Victims(uids, full.pdb_violations if full else 0)
    return PreemptCall(args.pod, victims)


def _decode(body: bytes, usual: Callable[[bytes], T], any_case: Callable[[], T]) -> T:
    if not body:
        raise BodyError("empty_body", "the body is empty; expected the JSON arguments of a scheduler extender call")
    try:
        return usual(body)
    except msgspec.ValidationError:
        pass
    except _UNREADABLE as error:
        raise _not_json(error) from error
    try:
        return any_case()
    except msgspec.ValidationError as error:
        raise BodyError("wrong_type", f"the body does not have the shape of an extender call: {error}") from error
    except _UNREADABLE as error:
        raise _not_json(error) from error


def _not_json(error: Exception) -> BodyError:
    return BodyError("not_json", f"the body is not JSON: {error}")


def _decode_folded(body: bytes, args: type[T]) -> T:
    """Decode `body` as `args` with top-level keys in any case; unknown keys are ignored and the last spelling wins."""
    parts = {key.casefold(): value for key, value in _any_object.decode(body).items()}
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(args):  # type: ignore[arg-type]
        raw = parts.get(field.encode_name.casefold())
        if raw is not None:
            values[field.name] = _decode_part(field.encode_name, raw, field.type)
    if values.get("pod") is None:
        raise BodyError("missing_pod", "the body has no Pod; an extender call is about one pod")
    return args(**values)


def _decode_part(key: str, raw: msgspec.Raw, kind: Any) -> Any:  # noqa: ANN401 - whatever the struct's field holds
    source: bytes | msgspec.Raw = raw
    try:
        if key == "Pod":
            return _decode_pod(raw)
        if key in {"NodeNameToVictims", "NodeNameToMetaVictims"}:
            source = respell_victims(raw, meta=key == "NodeNameToMetaVictims")
        return msgspec.json.decode(source, type=kind)
    except msgspec.ValidationError as error:
        raise BodyError("wrong_type", f"{key} has a wrong type: {error}") from error


def _decode_pod(raw: msgspec.Raw) -> Pod | None:
    try:
        return msgspec.json.decode(raw, type=Pod | None)
    except msgspec.ValidationError:
        return decode_with_nulls(raw)


def _names_of(items: Iterable[msgspec.Raw]) -> list[str]:
    """Name of each node: from the bytes that Go always writes first, or by a real decode if they look otherwise."""
    names: list[str] = []
    for raw in items:
        head = bytes(memoryview(raw)[:_NAME_WINDOW])
        end = head.find(b'"', _NAME_START)
        if end > _NAME_START and head.startswith(_NAME_PREFIX) and b"\\" not in (name := head[_NAME_START:end]):
            names.append(_text(name))
        else:
            names.append(_decode_name(raw, len(names)))
    return names


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise _not_json(error) from error


def _decode_name(raw: msgspec.Raw, index: int) -> str:
    try:
        return _node_name.decode(raw).metadata.name
    except _UNREADABLE as error:
        raise BodyError("wrong_type", f"Nodes.items[{index}] is not a node with a name: {error}") from error
