"""Decision records survive the bus."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.wire.decision import (
    MAX_BODY_BYTES,
    Breakdown,
    DecisionRecord,
    RejectedNodes,
    decode_decision,
    encode_decision,
)
from leadsman.wire.errors import WireError

WORDS = st.text(max_size=8)
GROUPS = st.lists(
    st.builds(RejectedNodes, WORDS, WORDS, st.integers(1, 9_000), st.lists(WORDS, max_size=3)), max_size=2
)
COMPONENTS = st.dictionaries(WORDS, st.tuples(st.none() | st.floats(0, 1), st.floats(0, 10)), max_size=3)
RECORDS = st.builds(
    DecisionRecord,
    at=st.floats(0, 1e10),
    verb=st.sampled_from(["filter", "prioritize", "preempt"]),
    namespace=WORDS,
    pod=WORDS,
    uid=WORDS,
    outcome=st.sampled_from(["decided", "fast-path", "no-opinion", "failed-open", "failed-closed"]),
    candidates=st.integers(0, 10_000),
    rejected_total=st.integers(0, 10_000),
    rejections=GROUPS,
    shadow_total=st.integers(0, 10_000),
    shadow=GROUPS,
    scores=st.dictionaries(WORDS, st.integers(0, 10), max_size=3),
    breakdown=st.dictionaries(
        WORDS, st.builds(Breakdown, st.integers(0, 10), st.integers(0, 10), COMPONENTS), max_size=2
    ),
    storages=st.lists(WORDS, max_size=3),
    duration_ms=st.floats(0, 1e4),
    mode=st.sampled_from(["enforce", "shadow"]),
    policy=WORDS,
    degraded=st.lists(WORDS, max_size=2),
    generation=st.integers(0, 2**62),
)


@given(record=RECORDS)
def test_a_record_comes_out_as_it_went_in(record: DecisionRecord) -> None:
    """Every field, and the defaults of those left out."""
    assert record == decode_decision(encode_decision(record))


@given(body=st.binary())
def test_what_is_no_record_is_refused(body: bytes) -> None:
    """Nothing but WireError comes out of any bytes."""
    with pytest.raises(WireError):
        decode_decision(body)


def test_a_record_that_the_stream_would_drop_goes_without_its_breakdown() -> None:
    """Everything else of it counts more."""
    components = {f"rule:{'preference-' * 4}{number}": (0.5, 1.0) for number in range(300)}
    nodes = {f"node-{number}": Breakdown(5, 10, components) for number in range(10)}
    record = DecisionRecord(0, "prioritize", "ns", "pod", "uid", "decided", 10, scores={"node-1": 5}, breakdown=nodes)
    body = encode_decision(record)
    assert len(body) < MAX_BODY_BYTES
    assert decode_decision(body) == msgspec.structs.replace(record, breakdown={})
