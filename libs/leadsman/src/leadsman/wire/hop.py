"""The gRPC hop: domain values to and from protobuf, packed so that cost does not grow with strings."""

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leadsman.domain.pod_selectors import Operator, PodSelector, SelectorSet, Term
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Profile, Requirement
from leadsman.domain.verdicts import UNKNOWN_VALUE, Column, FilterAnswer, Rejection, ScoreAnswer
from leadsman.v1 import filter_pb2, requirements_pb2, scorer_pb2
from leadsman.wire.errors import WireError

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Limit on both sides of the hop; gRPC's own default of 4 MiB ends near 50,000 nodes."""

CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
]

_ONE_BYTE = 256
"""Distinct rejections in one message that an index of one byte for each node can tell apart; more take two."""

_SCORES = bytes(range(11))
_HUNDREDTHS = bytes([*range(101), UNKNOWN_VALUE])


@dataclass(frozen=True, slots=True)
class Hello:
    """Who answers on a stream, and what the gateway must know of the policy there.

    `selectors` are those of the rules of that service, `policy` is the fingerprint, and `backend_attributes` maps
    drivers to the volume attribute that names their backend.
    """

    instance: str
    version: str
    selectors: SelectorSet
    policy: str
    backend_attributes: Mapping[str, str]


def encode_hello(
    instance: str, version: str, selectors: Iterable[PodSelector], policy: SchedulingPolicy
) -> requirements_pb2.Hello:
    """What `instance` says first, and again when `policy` has changed."""
    return requirements_pb2.Hello(
        instance=instance,
        version=version,
        selectors=[_encode_selector(selector) for selector in selectors],
        policy=policy.fingerprint,
        backend_attributes=dict(policy.backend_attributes),
    )


def decode_hello(message: requirements_pb2.Hello) -> Hello:
    """The Hello in `message`.

    Raises:
        WireError: a selector has an operator that is not one of a label selector.
    """
    return Hello(
        message.instance,
        message.version,
        SelectorSet([_decode_selector(selector) for selector in message.selectors]),
        message.policy,
        dict(message.backend_attributes),
    )


def _encode_selector(selector: PodSelector) -> requirements_pb2.PodSelector:
    return requirements_pb2.PodSelector(
        labels=_encode_terms(selector.labels),
        annotations=_encode_terms(selector.annotations),
        namespaces=sorted(selector.namespaces),
        priority_classes=sorted(selector.priority_classes),
    )


def _encode_terms(terms: Iterable[Term]) -> list[requirements_pb2.SelectorTerm]:
    return [
        requirements_pb2.SelectorTerm(key=term.key, operator=term.operator.value, values=term.values) for term in terms
    ]


def _decode_selector(message: requirements_pb2.PodSelector) -> PodSelector:
    return PodSelector(
        tuple([_decode_term(term) for term in message.labels]),
        tuple([_decode_term(term) for term in message.annotations]),
        frozenset(message.namespaces),
        frozenset(message.priority_classes),
    )


def _decode_term(message: requirements_pb2.SelectorTerm) -> Term:
    try:
        operator = Operator(message.operator)
    except ValueError as error:
        raise WireError(f"a pod selector with the operator {message.operator!r}, which this build lacks") from error
    return Term(message.key, operator, tuple(message.values))


def encode_profile(profile: Profile) -> requirements_pb2.Profile:
    """`profile` as protobuf."""
    return requirements_pb2.Profile(
        namespace=profile.namespace,
        labels=dict(profile.labels),
        priority_class=profile.priority_class,
        annotations=dict(profile.annotations),
    )


def decode_profile(message: requirements_pb2.Profile) -> Profile:
    """The profile in `message`, with plain dicts."""
    return Profile(message.namespace, dict(message.labels), message.priority_class, dict(message.annotations))


def encode_requirements(requirements: Iterable[Requirement]) -> list[requirements_pb2.Requirement]:
    """`requirements` as protobuf, in their order."""
    return [
        requirements_pb2.Requirement(
            driver=need.driver, backend=need.backend, volume=need.volume, read_only=need.read_only
        )
        for need in requirements
    ]


def pack_rejections(rejected: Mapping[str, Rejection]) -> filter_pb2.NodeReasons:
    """Nodes and reasons in a few fields, whatever the number of nodes."""
    kinds: dict[Rejection, int] = {}
    numbers: dict[int, int] = {}  # by identity: hashing a Rejection for every node costs more than all the rest
    index: list[int] = []
    for rejection in rejected.values():
        number = numbers.get(id(rejection))
        if number is None:
            number = numbers[id(rejection)] = kinds.setdefault(rejection, len(kinds))
        index.append(number)
    listed = list(kinds)
    return filter_pb2.NodeReasons(
        reasons=[rejection.reason.value for rejection in listed],
        subjects=[rejection.subject for rejection in listed],
        resolvable=[rejection.resolvable for rejection in listed],
        nodes="\n".join(rejected),
        reason_index=bytes(index) if len(kinds) <= _ONE_BYTE else _two_bytes(index).tobytes(),
    )


def unpack_rejections(message: filter_pb2.NodeReasons) -> dict[str, Rejection]:
    """Node to rejection.

    Raises:
        WireError: the packed fields do not fit each other.
    """
    nodes = _split(message.nodes)
    reasons, subjects = message.reasons, message.subjects
    # A filter of a version without rules says nothing of it: during an update one may be asked.
    resolvable = message.resolvable or [False] * len(reasons)
    if not len(reasons) == len(subjects) == len(resolvable):
        raise WireError(
            f"filter answer lists {len(reasons)} reasons but {len(subjects)} subjects and says of {len(resolvable)} "
            "whether evictions help"
        )
    kinds = [
        Rejection(Reason.parse(reason), subject, helps)
        for reason, subject, helps in zip(reasons, subjects, resolvable, strict=True)
    ]
    index: Sequence[int] = message.reason_index
    if len(kinds) > _ONE_BYTE and len(index) == 2 * len(nodes):
        index = _two_bytes(message.reason_index)
    if len(nodes) != len(index):
        raise WireError(f"filter answer names {len(nodes)} nodes but gives {len(index)} reasons")
    try:
        return {node: kinds[number] for node, number in zip(nodes, index, strict=True)}
    except IndexError as error:
        raise WireError("filter answer points at a reason that it does not list") from error


def _two_bytes(numbers: Iterable[int] | bytes) -> "array[int]":
    """`numbers` of two bytes each, little-endian on the wire whatever this machine is."""
    found = array("H", numbers)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def encode_filter_answer(answer: FilterAnswer) -> filter_pb2.FilterResponse:
    """A whole answer as the fields of one response, without those about the request and the service."""
    message = filter_pb2.FilterResponse(
        volumes=pack_rejections(answer.volumes) if answer.volumes else None, dry_run=answer.dry_run
    )
    _write_verdicts(answer, message)
    if answer.shadow is not None:
        _write_verdicts(answer.shadow, message.shadow)
    return message


def _write_verdicts(answer: FilterAnswer, target: filter_pb2.FilterResponse | filter_pb2.ShadowVerdicts) -> None:
    rejected = pack_rejections(answer.rejected)
    if answer.otherwise is None:
        target.rejected.CopyFrom(rejected)
        return
    target.allowed.CopyFrom(
        filter_pb2.AllowedNodes(
            nodes="\n".join(sorted(answer.allowed)),
            rejected=rejected,
            reason=answer.otherwise.reason.value,
            subject=answer.otherwise.subject,
            resolvable=answer.otherwise.resolvable,
        )
    )


def decode_filter_answer(message: filter_pb2.FilterResponse) -> FilterAnswer:
    """The answer in `message`, which holds `rejected` or `allowed`, with what it says of the pod's own volumes.

    Raises:
        WireError: it holds neither, or its fields do not fit each other.
    """
    return _read_verdicts(message, message.WhichOneof("answer"))._replace(
        volumes=unpack_rejections(message.volumes),
        shadow=_read_verdicts(message.shadow, message.shadow.WhichOneof("form"))
        if message.HasField("shadow")
        else None,
        dry_run=message.dry_run,
    )


def _read_verdicts(message: filter_pb2.FilterResponse | filter_pb2.ShadowVerdicts, form: str | None) -> FilterAnswer:
    if form == "rejected":
        return FilterAnswer(unpack_rejections(message.rejected))
    if form == "allowed":
        allowed = message.allowed
        otherwise = Rejection(Reason.parse(allowed.reason), allowed.subject, allowed.resolvable)
        return FilterAnswer(unpack_rejections(allowed.rejected), frozenset(_split(allowed.nodes)), otherwise)
    raise WireError(f"filter answered with {form or 'nothing'} where a verdict was expected")


def encode_score_answer(answer: ScoreAnswer) -> scorer_pb2.ScoreResponse:
    """A whole answer as the fields of one response, without those about the request and the service."""
    scores = scorer_pb2.NodeScores(
        nodes="\n".join(answer.nodes),
        scores=answer.scores,
        default_score=answer.default,
        caps=answer.caps,
        components=[
            scorer_pb2.ScoreComponent(name=column.name, weight=column.weight, values=column.values)
            for column in answer.columns
        ],
    )
    return scorer_pb2.ScoreResponse(scores=scores, dry_run=answer.dry_run)


def decode_score_answer(message: scorer_pb2.ScoreResponse) -> ScoreAnswer:
    """The scores in `message`, and how they came about; the columns stay the bytes that they are.

    Raises:
        WireError: it holds none, its fields do not fit each other, or a value is out of its range.
    """
    if message.WhichOneof("answer") != "scores":
        raise WireError(f"scorer answered with {message.WhichOneof('answer') or 'nothing'} where scores were expected")
    packed = message.scores
    nodes = tuple(_split(packed.nodes))
    columns = tuple([Column(one.name, one.weight, one.values) for one in packed.components])
    _check("scores", packed.scores, len(nodes), _SCORES)
    if packed.caps:
        _check("caps", packed.caps, len(nodes), _SCORES)
    for column in columns:
        _check(column.name, column.values, len(nodes), _HUNDREDTHS)
    if packed.default_score > _SCORES[-1]:
        raise WireError(f"scorer gave a default score of {packed.default_score}")
    return ScoreAnswer(nodes, packed.scores, packed.default_score, packed.caps, columns, message.dry_run)


def _check(what: str, values: bytes, count: int, allowed: bytes) -> None:
    if len(values) != count:
        raise WireError(f"scorer names {count} nodes but gives {len(values)} values of {what}")
    if values.translate(None, allowed):
        raise WireError(f"scorer gave {what} that are out of range")


def _split(joined: str) -> list[str]:
    return joined.split("\n") if joined else []
