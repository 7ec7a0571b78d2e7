"""Decision records: what was asked, what was answered and why, one JSON body per call on `leadsman.v1.decision.*`."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from leadsman.wire.errors import WireError

MAX_NODES = 100
"""Nodes listed by name in one record; the others are only counted."""

MAX_BREAKDOWNS = 10
"""Nodes whose score is taken apart in one record."""


MAX_BODY_BYTES = 64 * 1024
"""The stream refuses larger messages, and nobody is told: what is published is not acknowledged."""


class RejectedNodes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Candidates that fail alike: `total` of them, `nodes` by name as far as the record has room.

    `subject` is the CSI driver, or the policy rule, that `reason` is about.
    """

    reason: str
    subject: str
    total: int
    nodes: list[str] = []


class Breakdown(msgspec.Struct, frozen=True):
    """How one score came about.

    `score` and `cap` are 0-10. `components` maps a component, or `rule:` and a rule's name, to its value (0-1, None
    where it is not known) and its weight.
    """

    score: int
    cap: int
    components: dict[str, tuple[float | None, float]]


class DecisionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One extender call of one pod.

    `outcome` is `decided`, `fast-path`, `no-opinion` or `failed-open` / `failed-closed`; `unresolved` lists volumes
    whose driver could not be found. `policy` is the fingerprint of the policy behind the answer, `mode` the policy's.
    `rejections` are what the pod was kept from, `shadow` is what it would be kept from besides: by rules that are not
    enforced, and with mode `shadow` by everything. `scores` are those of the best candidates, and `breakdown` takes the
    very best apart; with mode `shadow` kube-scheduler was given none of them. `degraded` is what the service behind the
    answer said it could not do as it should.
    """

    at: float
    verb: str
    namespace: str
    pod: str
    uid: str
    outcome: str
    candidates: int
    rejected_total: int = 0
    rejections: list[RejectedNodes] = []
    shadow_total: int = 0
    shadow: list[RejectedNodes] = []
    scores: dict[str, int] = {}
    breakdown: dict[str, Breakdown] = {}
    storages: list[str] = []
    unresolved: list[str] = []
    duration_ms: float = 0.0
    mode: Literal["enforce", "shadow"] = "enforce"
    policy: str = ""
    degraded: list[str] = []
    generation: int = 0
    instance: str = ""
    v: int = 1


_decoder = msgspec.json.Decoder(DecisionRecord)
_encoder = msgspec.json.Encoder()


def reasons_by_node(groups: Iterable[RejectedNodes]) -> dict[str, str]:
    """Node to reason code, for the nodes that `groups` name."""
    return {node: group.reason for group in groups for node in group.nodes}


def encode_decision(record: DecisionRecord) -> bytes:
    """The JSON body of `record`; without its breakdown if that makes it too large, as hundreds of preferences can."""
    body = _encoder.encode(record)
    if len(body) <= MAX_BODY_BYTES:
        return body
    return _encoder.encode(msgspec.structs.replace(record, breakdown={}))


def decode_decision(body: bytes) -> DecisionRecord:
    """The record in `body`.

    Raises:
        WireError: the body is not a decision record.
    """
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise WireError(f"not a decision record: {error}") from error
