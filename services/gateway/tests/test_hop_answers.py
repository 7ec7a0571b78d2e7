"""Answers of filter and scorer applied to candidates: who fails, with which text, and whether evictions could help."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.reasons import Reason
from leadsman.domain.verdicts import FilterAnswer, Rejection, ScoreAnswer
from leadsman.wire.extender_reply import NONE_FAILED, Failed
from leadsman_gateway.hop.answers import FilterTable, ScoreTable

HUNG = Rejection(Reason.MOUNT_HUNG, "nfs")
BAD_VOLUME = Rejection(Reason.STALE_FILE_HANDLE, "nfs")
SILENT = Rejection(Reason.NOT_OBSERVED, "nfs")
NO_GPU = Rejection(Reason.RULE_NOT_MET, "gpu")
BUSY = Rejection(Reason.RULE_NOT_MET, "idle-first", resolvable=True)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (FilterAnswer({"b": HUNG}), {"a": BAD_VOLUME.text, "b": HUNG.text}),
        (FilterAnswer({}), {"a": BAD_VOLUME.text, "b": BAD_VOLUME.text}),
        (FilterAnswer({"b": HUNG}, frozenset("ac"), SILENT), {"a": BAD_VOLUME.text, "b": HUNG.text, "d": SILENT.text}),
    ],
)
def test_nodes_with_a_bad_volume_fail_in_either_form(answer: FilterAnswer, expected: dict[str, str]) -> None:
    """The storage's reason goes first; the table that other pods share is left as it was."""
    shared = FilterTable(answer)
    own = shared.with_volumes({"a": BAD_VOLUME, "b": BAD_VOLUME, "elsewhere": BAD_VOLUME})

    assert own.failed(list("abcd")) == Failed(expected, {})
    assert own.failed(["c"]) == shared.failed(["c"]) == NONE_FAILED
    assert own.rejection("a") == BAD_VOLUME
    assert "a" not in shared.failed(list("abcd")).all
    assert own.size == shared.size


@pytest.mark.parametrize("otherwise", [None, NO_GPU, BUSY])
def test_rules_say_whether_evictions_could_help(otherwise: Rejection | None) -> None:
    """In either form, and for nodes that are in no list."""
    answer = FilterAnswer({"a": HUNG, "b": NO_GPU, "c": BUSY}, frozenset("d") if otherwise else frozenset(), otherwise)
    failed = FilterTable(answer).failed(list("abcde"))

    unlisted = {"e": otherwise.text} if otherwise else {}
    hopeless = {"a": HUNG.text, "b": NO_GPU.text}
    helped = {"c": BUSY.text}
    assert failed == (Failed(hopeless, helped | unlisted) if otherwise is BUSY else Failed(hopeless | unlisted, helped))
    assert failed.all == hopeless | helped | unlisted


def test_bad_volume_is_not_hidden_by_a_rule_that_evictions_could_help_against() -> None:
    """Whoever were evicted from such a node would be for nothing."""
    own = FilterTable(FilterAnswer({"a": BUSY, "b": BUSY})).with_volumes({"a": BAD_VOLUME})

    assert own.failed(["a", "b"]) == Failed({"a": BAD_VOLUME.text}, {"b": BUSY.text})
    assert own.rejection("a") == BAD_VOLUME


def test_nothing_of_a_dry_run_fails() -> None:
    """It is all shadow, whatever form it has."""
    for answer in (FilterAnswer({"a": HUNG}, dry_run=True), FilterAnswer({}, frozenset("b"), HUNG, dry_run=True)):
        table = FilterTable(answer).with_volumes({"b": BAD_VOLUME})

        assert table.failed(["a", "b"]) == NONE_FAILED
        assert table.shadow(["a", "b"]) == {"a": HUNG, "b": BAD_VOLUME}


def test_answers_are_as_large_as_the_nodes_they_name() -> None:
    """A shadow counts, too: all of it is kept."""
    shadow = FilterAnswer({"c": BUSY}, frozenset("de"), BUSY)

    assert FilterTable(FilterAnswer({"a": HUNG}, frozenset("b"), HUNG, shadow=shadow)).size == 5


def test_every_candidate_has_its_score() -> None:
    """Nodes that the scorer has never heard of get the default, and are not remembered."""
    table = ScoreTable(ScoreAnswer(("a", "b"), b"\x09\x00", 5))

    for _ in range(2):
        assert table.entries(["b", "x", "a"]) == [
            b'{"Host":"b","Score":0}',
            b'{"Host":"x","Score":5}',
            b'{"Host":"a","Score":9}',
        ]
    assert table.breakdown("x") is None


@given(scores=st.lists(st.integers(0, 10), max_size=40), known=st.integers(0, 40), count=st.integers(1, 5))
def test_best_candidates_are_the_best_of_all(scores: list[int], known: int, count: int) -> None:
    """Wherever among the candidates they stand, and whether the scorer knows them or not."""
    names = [f"n{number}" for number in range(len(scores))]
    table = ScoreTable(ScoreAnswer(tuple(names[:known]), bytes(scores[:known]), 10))
    given_scores = dict(zip(names, [*scores[:known], *[10] * len(names)], strict=False))

    assert list(table.best(names, count).items()) == sorted(given_scores.items(), key=lambda one: -one[1])[:count]
