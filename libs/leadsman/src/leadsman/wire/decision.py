"""Decision records: what was asked, what was answered and why, one JSON body per call on `leadsman.v1.decision.*`."""

import msgspec

from leadsman.wire.errors import WireError

MAX_NODES = 100
"""Nodes listed by name in one record; the rest are counted in `rejected_total` and `candidates`."""


class DecisionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One extender call of one pod.

    `outcome` is `decided`, `fast-path`, `no-opinion` or `failed-open` / `failed-closed`; `rejected` maps node to
    reason code, `scores` node to 0-10; `unresolved` lists volumes whose driver could not be found.
    """

    at: float
    verb: str
    namespace: str
    pod: str
    uid: str
    outcome: str
    candidates: int
    rejected_total: int = 0
    rejected: dict[str, str] = {}
    scores: dict[str, int] = {}
    storages: list[str] = []
    unresolved: list[str] = []
    duration_ms: float = 0.0
    generation: int = 0
    instance: str = ""
    v: int = 1


_decoder = msgspec.json.Decoder(DecisionRecord)
_encoder = msgspec.json.Encoder()


def encode_decision(record: DecisionRecord) -> bytes:
    """The JSON body of `record`."""
    return _encoder.encode(record)


def decode_decision(body: bytes) -> DecisionRecord:
    """The record in `body`.

    Raises:
        WireError: the body is not a decision record.
    """
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"not a decision record: {error}") from error
