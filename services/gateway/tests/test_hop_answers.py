"""A filter's answer and what it says of one pod's volumes, applied to candidates."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.verdicts import FilterAnswer, Rejection
from leadsman_gateway.hop.answers import FilterTable

HUNG = Rejection(Reason.MOUNT_HUNG, "nfs")
BAD_VOLUME = Rejection(Reason.STALE_FILE_HANDLE, "nfs")
SILENT = Rejection(Reason.NOT_OBSERVED, "nfs")


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

    assert own.failed(list("abcd")) == expected
    assert own.failed(["c"]) == shared.failed(["c"]) == {}
    assert own.reason("a") is BAD_VOLUME.reason
    assert "a" not in shared.failed(list("abcd"))
    assert own.size == shared.size
