"""Answers cross the hop packed and come out as they went in; what does not fit is refused in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.pod_selectors import Operator, PodSelector, Term
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Profile, Requirement
from leadsman.domain.verdicts import UNKNOWN_VALUE, Column, FilterAnswer, Rejection, ScoreAnswer
from leadsman.v1 import filter_pb2, requirements_pb2, scorer_pb2
from leadsman.wire.errors import WireError
from leadsman.wire.hop import (
    decode_filter_answer,
    decode_hello,
    decode_profile,
    decode_score_answer,
    encode_filter_answer,
    encode_hello,
    encode_profile,
    encode_requirements,
    encode_score_answer,
    pack_rejections,
    unpack_rejections,
)

NODES = st.text("ab09-.", min_size=1, max_size=6)
REJECTIONS = st.builds(
    Rejection, st.sampled_from(list(Reason)), st.sampled_from(["nfs.csi.k8s.io", "smb", "x"]), st.booleans()
)
REJECTED = st.dictionaries(NODES, REJECTIONS, max_size=5)
VERDICTS = REJECTED.map(FilterAnswer) | st.tuples(REJECTED, st.frozensets(NODES, max_size=5), REJECTIONS).map(
    lambda fields: FilterAnswer(*fields)
)


@given(verdicts=VERDICTS, volumes=REJECTED, shadow=st.none() | VERDICTS, dry_run=st.booleans())
def test_a_verdict_comes_out_as_it_went_in(
    verdicts: FilterAnswer, volumes: dict[str, Rejection], shadow: FilterAnswer | None, dry_run: bool
) -> None:
    """Both forms, any number of nodes and reasons, enforced and not."""
    answer = verdicts._replace(volumes=volumes, shadow=shadow, dry_run=dry_run)
    message = filter_pb2.FilterResponse.FromString(encode_filter_answer(answer).SerializeToString())

    assert answer == decode_filter_answer(message)


def test_a_verdict_joins_the_fields_that_the_service_adds() -> None:
    """Protobuf messages join by concatenation: an answer is encoded once, for whoever asks."""
    header = filter_pb2.FilterResponse(id=7, generation=8, policy="p1", frozen=True, degraded=["blind"])
    answer = FilterAnswer({"a": Rejection(Reason.RULE_NOT_MET, "gpu", resolvable=True)}, dry_run=True)
    body = header.SerializeToString() + encode_filter_answer(answer).SerializeToString()
    message = filter_pb2.FilterResponse.FromString(body)

    assert answer == decode_filter_answer(message)
    assert (message.id, message.generation, message.policy, list(message.degraded)) == (7, 8, "p1", ["blind"])


@pytest.mark.parametrize("kinds", [255, 256, 257, 1000])
def test_more_kinds_of_rejection_than_one_byte_can_count_still_reject(kinds: int) -> None:
    """Each with its own reason, in an order that does not matter: as many rules as a policy may have can reject."""
    rejected = {f"n{number}": Rejection(Reason.MOUNT_HUNG, f"driver-{number}") for number in range(kinds)}
    decoded = decode_filter_answer(encode_filter_answer(FilterAnswer(rejected)))

    assert decoded.rejected == rejected


VALUES = st.integers(0, 100) | st.just(UNKNOWN_VALUE)


@given(
    rows=st.dictionaries(NODES, st.tuples(st.integers(0, 10), st.integers(0, 10), VALUES, VALUES)),
    default=st.integers(0, 10),
    dry_run=st.booleans(),
)
def test_scores_come_out_as_they_went_in(
    rows: dict[str, tuple[int, int, int, int]], default: int, dry_run: bool
) -> None:
    """One byte for each node in every column."""
    scores, caps, *values = (bytes(row[number] for row in rows.values()) for number in range(4))
    columns = (Column("storageLatency", 3.0, values[0]), Column("rule:near", 0.5, values[1]))
    answer = ScoreAnswer(tuple(rows), scores, default, caps, columns, dry_run)
    message = scorer_pb2.ScoreResponse.FromString(encode_score_answer(answer).SerializeToString())

    assert answer == decode_score_answer(message)


VALUE_LISTS = st.lists(st.text(max_size=5), max_size=3).map(tuple)
TERMS = st.lists(st.builds(Term, st.text(max_size=5), st.sampled_from(Operator), VALUE_LISTS), max_size=2).map(tuple)
NAMES = st.frozensets(st.text(max_size=5), max_size=2)
SELECTORS = st.builds(PodSelector, TERMS, TERMS, NAMES, NAMES)


@given(selectors=st.lists(SELECTORS, max_size=3), attributes=st.dictionaries(st.text(), st.text()))
def test_a_hello_comes_out_as_it_went_in(selectors: list[PodSelector], attributes: dict[str, str]) -> None:
    """Who it is, which pods its rules touch, in their order, and what names the backends."""
    policy = SchedulingPolicy(backend_attributes=attributes, fingerprint="4f2a")
    body = encode_hello("filter-1", "0.3.0", selectors, policy).SerializeToString()
    hello = decode_hello(requirements_pb2.Hello.FromString(body))

    assert tuple(selectors) == hello.selectors.selectors
    assert (hello.instance, hello.version, hello.policy) == ("filter-1", "0.3.0", "4f2a")
    assert attributes == hello.backend_attributes


def test_a_selector_of_a_newer_version_is_refused() -> None:
    """To guess which pods it touches would let some take the fast path that must not."""
    term = requirements_pb2.SelectorTerm(key="team", operator="Matches", values=["a.*"])
    hello = requirements_pb2.Hello(selectors=[requirements_pb2.PodSelector(labels=[term])])

    with pytest.raises(WireError, match="Matches"):
        decode_hello(hello)


REQUIREMENTS = st.builds(Requirement, st.text(), st.text(), st.text(), st.booleans())
WORDS = st.dictionaries(st.text(), st.text())


@given(needs=st.lists(REQUIREMENTS), profile=st.builds(Profile, st.text(), WORDS, st.text(), WORDS))
def test_a_question_comes_out_as_it_went_in(needs: list[Requirement], profile: Profile) -> None:
    """Requirements keep their order; labels and annotations are plain dicts again."""
    request = filter_pb2.FilterRequest(profile=encode_profile(profile), requirements=encode_requirements(needs))
    read = filter_pb2.FilterRequest.FromString(request.SerializeToString())

    assert needs == [Requirement(one.driver, one.backend, one.volume, one.read_only) for one in read.requirements]
    assert profile == decode_profile(read.profile)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (filter_pb2.FilterResponse(), "nothing"),
        (filter_pb2.FilterResponse(rejected=filter_pb2.NodeReasons(nodes="a\nb", reason_index=b"\0")), "2 nodes"),
        (filter_pb2.FilterResponse(rejected=filter_pb2.NodeReasons(nodes="a", reason_index=b"\0")), "does not list"),
        (
            filter_pb2.FilterResponse(
                rejected=filter_pb2.NodeReasons(reasons=["Stale"], nodes="a", reason_index=b"\0")
            ),
            "1 reasons",
        ),
        (
            filter_pb2.FilterResponse(
                rejected=filter_pb2.NodeReasons(
                    reasons=["Stale"], subjects=["x"], resolvable=[True, False], nodes="a", reason_index=b"\0"
                )
            ),
            "of 2 whether",
        ),
        (filter_pb2.FilterResponse(unchanged=requirements_pb2.Unchanged()), "unchanged"),
    ],
)
def test_a_verdict_whose_fields_do_not_fit_is_refused(message: filter_pb2.FilterResponse, words: str) -> None:
    """The decoder says what does not fit instead of guessing."""
    with pytest.raises(WireError, match=words):
        decode_filter_answer(message)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (scorer_pb2.ScoreResponse(), "nothing"),
        (scorer_pb2.ScoreResponse(scores=scorer_pb2.NodeScores(nodes="a\nb", scores=b"\1")), "2 nodes"),
        (scorer_pb2.ScoreResponse(scores=scorer_pb2.NodeScores(nodes="a", scores=b"\x0b")), "out of range"),
        (scorer_pb2.ScoreResponse(scores=scorer_pb2.NodeScores(default_score=11)), "default score of 11"),
        (scorer_pb2.ScoreResponse(scores=scorer_pb2.NodeScores(nodes="a", scores=b"\1", caps=b"\1\2")), "of caps"),
        (
            scorer_pb2.ScoreResponse(
                scores=scorer_pb2.NodeScores(
                    nodes="a", scores=b"\1", components=[scorer_pb2.ScoreComponent(name="cpu", values=b"\x65")]
                )
            ),
            "cpu that are out of range",
        ),
    ],
)
def test_scores_that_do_not_fit_are_refused(message: scorer_pb2.ScoreResponse, words: str) -> None:
    """kube-scheduler would take a score over 10 as an error of the extender."""
    with pytest.raises(WireError, match=words):
        decode_score_answer(message)


def test_an_answer_of_a_version_without_rules_is_read() -> None:
    """While filters and gateways are updated one after the other, broken storage must go on rejecting."""
    old = pack_rejections({"a": Rejection(Reason.MOUNT_HUNG, "nfs")})
    del old.resolvable[:]
    assert unpack_rejections(old) == {"a": Rejection(Reason.MOUNT_HUNG, "nfs")}
