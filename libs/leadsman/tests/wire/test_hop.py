"""Answers cross the hop packed and come out as they went in; what does not fit is refused in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Profile, Requirement
from leadsman.domain.verdicts import FilterAnswer, Rejection, ScoreAnswer
from leadsman.v1 import filter_pb2, scorer_pb2
from leadsman.wire.errors import WireError
from leadsman.wire.hop import (
    decode_filter_answer,
    decode_score_answer,
    encode_filter_answer,
    encode_profile,
    encode_requirements,
    encode_score_answer,
)

NODES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
REJECTIONS = st.builds(Rejection, st.sampled_from(list(Reason)), st.sampled_from(["nfs.csi.k8s.io", "smb", "x"]))


@given(
    rejected=st.dictionaries(NODES, REJECTIONS),
    allowed=st.frozensets(NODES),
    otherwise=st.none() | REJECTIONS,
    volumes=st.dictionaries(NODES, REJECTIONS),
)
def test_a_verdict_comes_out_as_it_went_in(
    rejected: dict[str, Rejection],
    allowed: frozenset[str],
    otherwise: Rejection | None,
    volumes: dict[str, Rejection],
) -> None:
    """Both forms, any number of nodes and reasons, with id and generation."""
    answer = FilterAnswer(rejected, allowed if otherwise else frozenset(), otherwise, volumes)
    message = filter_pb2.FilterResponse.FromString(encode_filter_answer(7, 8, answer).SerializeToString())

    assert answer == decode_filter_answer(message)
    assert (message.id, message.generation) == (7, 8)


@pytest.mark.parametrize("kinds", [254, 255, 256, 400])
def test_more_kinds_of_rejection_than_one_byte_can_count_still_reject(kinds: int) -> None:
    """Nodes beyond the 255th kind are rejected for a general reason; none is lost."""
    rejected = {f"n{number}": Rejection(Reason.MOUNT_HUNG, f"driver-{number}") for number in range(kinds)}
    decoded = decode_filter_answer(encode_filter_answer(1, 1, FilterAnswer(rejected)))

    assert rejected.keys() == decoded.rejected.keys()
    first = {node: decoded.rejected[node] for node in list(rejected)[:255]}
    assert dict(list(rejected.items())[:255]) == first
    assert {Reason.UNRECOGNISED} >= {decoded.rejected[node].reason for node in list(rejected)[255:]}


@given(scores=st.dictionaries(NODES, st.integers(0, 10)), default=st.integers(0, 10))
def test_scores_come_out_as_they_went_in(scores: dict[str, int], default: int) -> None:
    """One byte for each node."""
    message = scorer_pb2.ScoreResponse.FromString(
        encode_score_answer(7, 8, ScoreAnswer(scores, default)).SerializeToString()
    )

    assert ScoreAnswer(scores, default) == decode_score_answer(message)
    assert (message.id, message.generation) == (7, 8)


REQUIREMENTS = st.builds(Requirement, st.text(), st.text(), st.text(), st.booleans())
WORDS = st.dictionaries(st.text(), st.text())


@given(needs=st.lists(REQUIREMENTS), profile=st.builds(Profile, st.text(), WORDS, st.text(), WORDS))
def test_a_question_comes_out_as_it_went_in(needs: list[Requirement], profile: Profile) -> None:
    """Requirements keep their order; labels and annotations are plain dicts again."""
    request = filter_pb2.FilterRequest(profile=encode_profile(profile), requirements=encode_requirements(needs))
    read = filter_pb2.FilterRequest.FromString(request.SerializeToString())

    assert needs == [Requirement(one.driver, one.backend, one.volume, one.read_only) for one in read.requirements]
    asked = read.profile
    assert profile == Profile(asked.namespace, dict(asked.labels), asked.priority_class, dict(asked.annotations))


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
        (scorer_pb2.ScoreResponse(scores=scorer_pb2.NodeScores(nodes="a", scores=b"\x0b")), "over 10"),
        (scorer_pb2.ScoreResponse(scores=scorer_pb2.NodeScores(default_score=11)), "over 10"),
    ],
)
def test_scores_that_do_not_fit_are_refused(message: scorer_pb2.ScoreResponse, words: str) -> None:
    """kube-scheduler would take a score over 10 as an error of the extender."""
    with pytest.raises(WireError, match=words):
        decode_score_answer(message)
