"""Wake-ups and backend lists survive the bus."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.wire.errors import WireError
from leadsman.wire.notices import Backend, BackendList, WakeNotice, decode_backends, decode_wake, encode_notice

TEXTS = st.lists(st.text(), max_size=3)


@given(notice=st.builds(WakeNotice, st.text(), st.integers(0, 2**62), TEXTS))
def test_a_wake_notice_comes_out_as_it_went_in(notice: WakeNotice) -> None:
    """Generations are large numbers and must not lose digits."""
    assert notice == decode_wake(encode_notice(notice))


@given(listed=st.builds(BackendList, st.lists(st.builds(Backend, st.text(), st.text(), TEXTS), max_size=3)))
def test_a_backend_list_comes_out_as_it_went_in(listed: BackendList) -> None:
    """With and without endpoints."""
    assert listed == decode_backends(encode_notice(listed))


@given(body=st.binary())
def test_what_is_no_notice_is_refused(body: bytes) -> None:
    """Nothing but WireError comes out of any bytes."""
    with pytest.raises(WireError):
        decode_wake(body)
    with pytest.raises(WireError):
        decode_backends(body)


def test_a_backend_list_of_another_version_is_refused() -> None:
    """Guessing would make collectors probe the wrong addresses."""
    with pytest.raises(WireError, match="version 2"):
        decode_backends(b'{"v": 2, "backends": []}')
