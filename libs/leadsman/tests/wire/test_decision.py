"""Decision records survive the bus."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.wire.decision import DecisionRecord, decode_decision, encode_decision
from leadsman.wire.errors import WireError

RECORDS = st.builds(
    DecisionRecord,
    at=st.floats(0, 1e10),
    verb=st.sampled_from(["filter", "prioritize", "preempt"]),
    namespace=st.text(),
    pod=st.text(),
    uid=st.text(),
    outcome=st.sampled_from(["decided", "fast-path", "no-opinion", "failed-open", "failed-closed"]),
    candidates=st.integers(0, 10_000),
    rejected_total=st.integers(0, 10_000),
    rejected=st.dictionaries(st.text(), st.text(), max_size=3),
    scores=st.dictionaries(st.text(), st.integers(0, 10), max_size=3),
    storages=st.lists(st.text(), max_size=3),
    duration_ms=st.floats(0, 1e4),
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
