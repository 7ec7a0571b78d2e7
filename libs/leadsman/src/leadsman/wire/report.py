"""NodeReport as a JSON body on `leadsman.v1.status.<node>`.

Decoded by msgspec (schema-checked, the fastest in use), read tolerantly: unknown keys, states and reasons of a newer
collector are accepted and never read as healthy.
"""

import msgspec

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, ProbeContext, Sequence, StorageKey, StorageStatus
from leadsman.domain.states import Evidence, State
from leadsman.wire.errors import WireError

MAX_BODY_BYTES = 16 * 1024
"""The stream refuses larger messages, so a collector must stay below."""

MAX_STORAGES = 256
"""More (driver, backend) pairs than any real node has; a longer list is refused as a whole."""

_INTERVAL_S = (1.0, 60.0)


class _Storage(msgspec.Struct, omit_defaults=True):
    driver: str
    backend: str = ""
    state: str = "UNKNOWN"
    reason: str = ""
    evidence: str = "CONTROL_PLANE"
    message: str = ""
    since: float = 0.0
    latency_s: float | None = None


class _Trace(msgspec.Struct):
    trace_id: str
    span_id: str
    flags: int = 0


class _Body(msgspec.Struct, omit_defaults=True):
    v: int
    node: str
    epoch: int
    seq: int
    interval_s: float = 10.0
    storages: list[_Storage] = []
    uid: str = ""
    boot_id: str = ""
    labels: dict[str, str] = {}
    facts: dict[str, float | str] = {}
    sent: float = 0.0
    trace: _Trace | None = None


_decoder = msgspec.json.Decoder(_Body)
_encoder = msgspec.json.Encoder()


def encode_report(report: NodeReport) -> bytes:
    """The JSON body of `report`.

    Raises:
        WireError: the body is over MAX_BODY_BYTES; the stream would drop it without a word.
    """
    probe = report.probe
    body = _encoder.encode(
        _Body(
            v=1,
            node=report.node,
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
        )
    )
    if len(body) > MAX_BODY_BYTES:
        raise WireError(
            f"report of node {report.node} is {len(body)} bytes, over the bus limit of {MAX_BODY_BYTES}: "
            f"it lists {len(report.storages)} storages; watch fewer backends on this node"
        )
    return body


def decode_report(body: bytes) -> NodeReport:
    """The report in `body`.

    Raises:
        WireError: not JSON, a wrong type, an unknown major version, or out of bounds.
    """
    try:
        raw = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # the last: nested without end
        raise WireError(f"not a node report: {error}") from error
    if raw.v != 1:
        raise WireError(f"node report of version {raw.v}; this build reads version 1")
    if len(raw.storages) > MAX_STORAGES:
        raise WireError(f"node report lists {len(raw.storages)} storages, over the limit of {MAX_STORAGES}")
    low, high = _INTERVAL_S
    return NodeReport(
        node=raw.node,
        sequence=Sequence(raw.epoch, raw.seq),
        interval_s=min(max(raw.interval_s, low), high),
        storages=tuple([_decode_storage(storage) for storage in raw.storages]),
        node_uid=raw.uid,
        boot_id=raw.boot_id,
        labels=raw.labels,
        facts=raw.facts,
        sent_epoch_s=raw.sent,
        probe=ProbeContext(raw.trace.trace_id, raw.trace.span_id, raw.trace.flags) if raw.trace else None,
    )


def _encode_storage(status: StorageStatus) -> _Storage:
    return _Storage(
        driver=status.key.driver,
        backend=status.key.backend,
        state=status.state.value,
        reason=status.reason.value if status.reason else "",
        evidence=status.evidence.value,
        message=status.message,
        since=round(status.since_epoch_s, 3),
        latency_s=status.latency_s,
    )


def _decode_storage(raw: _Storage) -> StorageStatus:
    return StorageStatus(
        key=StorageKey(raw.driver, raw.backend),
        state=State.parse(raw.state),
        reason=Reason.parse(raw.reason) if raw.reason else None,
        evidence=Evidence.parse(raw.evidence),
        message=raw.message,
        since_epoch_s=raw.since,
        latency_s=raw.latency_s,
    )
