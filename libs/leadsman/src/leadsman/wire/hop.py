"""The gRPC hop: domain values to and from protobuf, packed so that cost does not grow with strings."""

from collections.abc import Iterable, Mapping

from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Profile, Requirement
from leadsman.domain.verdicts import FilterAnswer, Rejection, ScoreAnswer
from leadsman.v1 import filter_pb2, requirements_pb2, scorer_pb2
from leadsman.wire.errors import WireError

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Limit on both sides of the hop; gRPC's own default of 4 MiB ends near 50,000 nodes."""

CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
]

_MAX_KINDS = 255
"""Distinct (reason, driver) pairs in one message: the index is one byte."""


def encode_profile(profile: Profile) -> requirements_pb2.Profile:
    """`profile` as protobuf."""
    return requirements_pb2.Profile(
        namespace=profile.namespace,
        labels=dict(profile.labels),
        priority_class=profile.priority_class,
        annotations=dict(profile.annotations),
    )


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
    index = bytearray()
    for rejection in rejected.values():
        number = numbers.get(id(rejection))
        if number is None:
            number = (
                kinds.setdefault(rejection, len(kinds)) if len(kinds) < _MAX_KINDS else kinds.get(rejection, _MAX_KINDS)
            )
            numbers[id(rejection)] = number
        index.append(number)
    drivers = [rejection.driver for rejection in kinds]
    reasons = [rejection.reason.value for rejection in kinds]
    if len(kinds) == _MAX_KINDS:
        reasons.append(Reason.UNRECOGNISED.value)
        drivers.append(drivers[0])
    return filter_pb2.NodeReasons(
        reasons=reasons, drivers=drivers, nodes="\n".join(rejected), reason_index=bytes(index)
    )


def unpack_rejections(message: filter_pb2.NodeReasons) -> dict[str, Rejection]:
    """Node to rejection.

    Raises:
        WireError: the packed fields do not fit each other.
    """
    nodes = message.nodes.split("\n") if message.nodes else []
    if len(message.reasons) != len(message.drivers):
        raise WireError(f"filter answer lists {len(message.reasons)} reasons but {len(message.drivers)} drivers")
    kinds = [
        Rejection(Reason.parse(reason), driver) for reason, driver in zip(message.reasons, message.drivers, strict=True)
    ]
    if len(nodes) != len(message.reason_index):
        raise WireError(f"filter answer names {len(nodes)} nodes but gives {len(message.reason_index)} reasons")
    try:
        return {node: kinds[number] for node, number in zip(nodes, message.reason_index, strict=True)}
    except IndexError as error:
        raise WireError("filter answer points at a reason that it does not list") from error


def encode_filter_answer(request_id: int, generation: int, answer: FilterAnswer) -> filter_pb2.FilterResponse:
    """A whole answer as one message."""
    rejected = pack_rejections(answer.rejected)
    volumes = pack_rejections(answer.volumes) if answer.volumes else None
    if answer.otherwise is None:
        return filter_pb2.FilterResponse(id=request_id, generation=generation, rejected=rejected, volumes=volumes)
    allowed = filter_pb2.AllowedNodes(
        nodes="\n".join(sorted(answer.allowed)),
        rejected=rejected,
        reason=answer.otherwise.reason.value,
        driver=answer.otherwise.driver,
    )
    return filter_pb2.FilterResponse(id=request_id, generation=generation, allowed=allowed, volumes=volumes)


def decode_filter_answer(message: filter_pb2.FilterResponse) -> FilterAnswer:
    """The answer in `message`, which holds `rejected` or `allowed`, with what it says of the pod's own volumes.

    Raises:
        WireError: it holds neither, or its fields do not fit each other.
    """
    kind = message.WhichOneof("answer")
    volumes = unpack_rejections(message.volumes)
    if kind == "rejected":
        return FilterAnswer(unpack_rejections(message.rejected), volumes=volumes)
    if kind == "allowed":
        allowed = message.allowed
        names = frozenset(allowed.nodes.split("\n")) if allowed.nodes else frozenset()
        otherwise = Rejection(Reason.parse(allowed.reason), allowed.driver)
        return FilterAnswer(unpack_rejections(allowed.rejected), names, otherwise, volumes)
    raise WireError(f"filter answered with {kind or 'nothing'} where a verdict was expected")


def encode_score_answer(request_id: int, generation: int, answer: ScoreAnswer) -> scorer_pb2.ScoreResponse:
    """A whole answer as one message."""
    scores = scorer_pb2.NodeScores(
        nodes="\n".join(answer.scores), scores=bytes(answer.scores.values()), default_score=answer.default
    )
    return scorer_pb2.ScoreResponse(id=request_id, generation=generation, scores=scores)


def decode_score_answer(message: scorer_pb2.ScoreResponse) -> ScoreAnswer:
    """The scores in `message`.

    Raises:
        WireError: it holds none, its fields do not fit each other, or a score is over 10.
    """
    if message.WhichOneof("answer") != "scores":
        raise WireError(f"scorer answered with {message.WhichOneof('answer') or 'nothing'} where scores were expected")
    packed = message.scores
    nodes = packed.nodes.split("\n") if packed.nodes else []
    if len(nodes) != len(packed.scores):
        raise WireError(f"scorer names {len(nodes)} nodes but gives {len(packed.scores)} scores")
    if max(packed.scores, default=0) > 10 or packed.default_score > 10:
        raise WireError("scorer gave a score over 10")
    return ScoreAnswer(dict(zip(nodes, packed.scores, strict=True)), packed.default_score)
