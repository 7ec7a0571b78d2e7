"""NodeReport as a JSON body on `leadsman.v1.status.<node>`, of a sidecar on `leadsman.v1.status.<node>.<driver>`.

Decoded by msgspec (schema-checked, the fastest in use), read tolerantly: unknown keys, states and reasons of a newer
collector are accepted and never read as healthy. A first decoder knows our own words only and is the fast one; what it
refuses is read again by one that takes any word.
"""

from functools import lru_cache
from typing import Annotated

import msgspec

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, ProbeContext, Sequence, StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import Evidence, State
from leadsman.wire.errors import WireError

MAX_BODY_BYTES = 16 * 1024
"""The stream refuses larger messages, so a collector must stay below."""

MAX_STORAGES = 256
"""More (driver, backend) pairs than any real node has; a longer list is refused as a whole."""

MAX_VOLUMES = 64
"""Bad volumes in one report. A longer list is refused as a whole: to cut it here would hide that some are missing."""

_INTERVAL_S = (1.0, 60.0)

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# JSON integers have no end: one of 400 digits would overflow wherever it meets a float.

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Slots = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]  # an int32 in CSINode

_KEYS = 65_536
"""Distinct (driver, backend) pairs that are kept; a cluster has some hundreds, and a liar must not fill our memory."""


class _Storage(msgspec.Struct, omit_defaults=True, gc=False):
    driver: str
    backend: str = ""
    state: State = State.UNKNOWN
    reason: Reason | None = None
    evidence: Evidence = Evidence.CONTROL_PLANE
    message: str = ""
    since: _Seconds = 0.0
    latency_s: _Seconds | None = None
    used: _Share | None = None
    inodes_used: _Share | None = None
    attach_limit: _Slots | None = None
    attached: _Slots | None = None


class _AnyStorage(msgspec.Struct):
    driver: str
    backend: str = ""
    state: str = "UNKNOWN"
    reason: str = ""
    evidence: str = "CONTROL_PLANE"
    message: str = ""
    since: _Seconds = 0.0
    latency_s: _Seconds | None = None
    used: _Share | None = None
    inodes_used: _Share | None = None
    attach_limit: _Slots | None = None
    attached: _Slots | None = None


class _Volume(msgspec.Struct, omit_defaults=True, gc=False):
    # Words, not enums as in a storage: a report rarely has any, and then an unknown word must not cost it the fast way.
    driver: str
    volume: str
    state: str = "UNKNOWN"
    reason: str = ""
    message: str = ""
    since: _Seconds = 0.0


class _Trace(msgspec.Struct):
    trace_id: str
    span_id: str
    flags: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0


class _Envelope(msgspec.Struct, omit_defaults=True, kw_only=True):
    v: int
    node: str
    scope: str = ""
    epoch: _Count
    seq: _Count
    interval_s: float = 10.0
    uid: str = ""
    boot_id: str = ""
    labels: dict[str, str] = {}
    facts: dict[str, float | str] = {}
    sent: _Seconds = 0.0
    trace: _Trace | None = None
    bad_volumes: list[_Volume] = []


class _Body(_Envelope, kw_only=True):
    storages: list[_Storage] = []


class _AnyBody(_Envelope, kw_only=True):
    storages: list[_AnyStorage] = []


_decoder = msgspec.json.Decoder(_Body)
_any_decoder = msgspec.json.Decoder(_AnyBody)
_encoder = msgspec.json.Encoder()
_new = tuple.__new__


def encode_report(report: NodeReport) -> bytes:
    """The JSON body of `report`.

    Raises:
        WireError: the body is over MAX_BODY_BYTES, and the stream would drop it without a word; or it lists more than
            MAX_STORAGES or MAX_VOLUMES, and every receiver would refuse it.
    """
    _check_lengths(len(report.storages), len(report.bad_volumes))
    probe = report.probe
    body = _encoder.encode(
        _Body(
            v=1,
            node=report.node,
            scope=report.scope,
            epoch=report.sequence.epoch,
            seq=report.sequence.seq,
            interval_s=report.interval_s,
            storages=[_encode_storage(status) for status in report.storages],
            uid=report.node_uid,
            boot_id=report.boot_id,
            labels=dict(report.labels),
            facts=dict(report.facts),
            sent=report.sent_epoch_s,
            trace=_Trace(probe.trace_id, probe.span_id, probe.flags) if probe else None,
            bad_volumes=[_encode_volume(status) for status in report.bad_volumes],
        )
    )
    if len(body) > MAX_BODY_BYTES:
        raise WireError(
            f"report of node {report.node} is {len(body)} bytes, over the bus limit of {MAX_BODY_BYTES}: "
            f"it lists {len(report.storages)} storages and {len(report.bad_volumes)} bad volumes; "
            "watch fewer backends on this node"
        )
    return body


def decode_report(body: bytes) -> NodeReport:
    """The report in `body`.

    Raises:
        WireError: not JSON, a wrong type, an unknown major version, or out of bounds.
    """
    try:
        raw = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # the last: nested without end
        raise WireError(f"not a node report: {error}") from error
    if raw.v != 1:
        raise WireError(f"node report of version {raw.v}; this build reads version 1")
    _check_lengths(len(raw.storages), len(raw.bad_volumes))
    low, high = _INTERVAL_S
    return NodeReport(
        node=raw.node,
        sequence=Sequence(raw.epoch, raw.seq),
        interval_s=min(max(raw.interval_s, low), high),
        storages=tuple([_status(one) for one in raw.storages]),
        node_uid=raw.uid,
        boot_id=raw.boot_id,
        labels=raw.labels,
        facts=raw.facts,
        sent_epoch_s=raw.sent,
        probe=ProbeContext(raw.trace.trace_id, raw.trace.span_id, raw.trace.flags) if raw.trace else None,
        bad_volumes=tuple([_volume(one) for one in raw.bad_volumes]) if raw.bad_volumes else (),
        scope=raw.scope,
    )


def _check_lengths(storages: int, volumes: int) -> None:
    if storages > MAX_STORAGES:
        raise WireError(f"node report lists {storages} storages, over the limit of {MAX_STORAGES}")
    if volumes > MAX_VOLUMES:
        raise WireError(f"node report lists {volumes} bad volumes, over the limit of {MAX_VOLUMES}")


def _decode(body: bytes) -> _Body:
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        pass
    raw = _any_decoder.decode(body)
    others = {name: getattr(raw, name) for name in _Envelope.__struct_fields__}
    return _Body(**others, storages=[_in_our_words(storage) for storage in raw.storages])


def _in_our_words(raw: _AnyStorage) -> _Storage:
    return _Storage(
        driver=raw.driver,
        backend=raw.backend,
        state=State.parse(raw.state),
        reason=Reason.parse(raw.reason) if raw.reason else None,
        evidence=Evidence.parse(raw.evidence),
        message=raw.message,
        since=raw.since,
        latency_s=raw.latency_s,
        used=raw.used,
        inodes_used=raw.inodes_used,
        attach_limit=raw.attach_limit,
        attached=raw.attached,
    )


def _encode_storage(status: StorageStatus) -> _Storage:
    return _Storage(
        driver=status.key.driver,
        backend=status.key.backend,
        state=status.state,
        reason=status.reason,
        evidence=status.evidence,
        message=status.message,
        since=round(status.since_epoch_s, 3),
        latency_s=status.latency_s,
        used=_share(status.used),
        inodes_used=_share(status.inodes_used),
        attach_limit=status.attach_limit,
        attached=status.attached,
    )


def _share(value: float | None) -> float | None:
    """Within the bounds: a filesystem that counts oddly must not get the whole report refused."""
    return None if value is None else round(min(max(value, 0.0), 1.0), 4)


def _encode_volume(status: VolumeStatus) -> _Volume:
    return _Volume(
        driver=status.driver,
        volume=status.volume,
        state=status.state.value,
        reason=status.reason.value,
        message=status.message,
        since=round(status.since_epoch_s, 3),
    )


@lru_cache(_KEYS)
def _key(driver: str, backend: str) -> StorageKey:
    """One object for all nodes that report a storage: quick to compare, and kept once."""
    return StorageKey(driver, backend)


def _status(raw: _Storage) -> StorageStatus:
    # Not StorageStatus(...): its constructor is a Python function, a third of the whole decoding for long reports.
    return _new(
        StorageStatus,
        (
            _key(raw.driver, raw.backend),
            raw.state,
            raw.reason,
            raw.evidence,
            raw.message,
            raw.since,
            raw.latency_s,
            raw.used,
            raw.inodes_used,
            raw.attach_limit,
            raw.attached,
        ),
    )


def _volume(raw: _Volume) -> VolumeStatus:
    return VolumeStatus(
        raw.driver, raw.volume, State.parse(raw.state), Reason.parse(raw.reason), raw.message, raw.since
    )
