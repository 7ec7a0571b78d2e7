"""Reply texts are closed vocabulary: stable, short, and free of anything that changes."""

import re

import pytest

from leadsman.domain.reasons import Reason, evidence_of, reply_text
from leadsman.domain.states import Evidence, State, severity


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_text_that_follows_a_count(reason: Reason) -> None:
    """`3 node(s) had … (driver)`, without a digit, at most about 80 characters for a usual driver name."""
    text = reply_text(reason, "ebs.csi.aws.com")
    assert re.fullmatch(r"node\(s\) had [a-zA-Z -]+ \(ebs\.csi\.aws\.com\)", text)
    assert len(text) <= 80


def test_texts_of_different_reasons_differ() -> None:
    """kube-scheduler counts equal texts together, so two reasons must not share one."""
    assert len({reply_text(reason, "d") for reason in Reason}) == len(Reason)


def test_codes_are_camel_case() -> None:
    """The same word serves as metric label, span attribute and document heading."""
    assert all(re.fullmatch(r"(?:[A-Z]+[a-z]*)+", reason.value) for reason in Reason)


def test_what_a_newer_version_says_is_never_read_as_healthy() -> None:
    """Unknown names fall to the side that claims least."""
    assert State.parse("BRILLIANT") is State.UNKNOWN
    assert Reason.parse("DiskOnFire") is Reason.UNRECOGNISED
    assert Evidence.parse("HEARSAY") is Evidence.CONTROL_PLANE


def test_a_dead_plugin_is_control_plane_evidence_and_a_dead_path_is_not() -> None:
    """Only control-plane evidence may be overruled by the mass-failure breaker."""
    assert evidence_of(Reason.DRIVER_NOT_RESPONDING) is Evidence.CONTROL_PLANE
    assert evidence_of(Reason.MOUNT_HUNG) is Evidence.DATA_PATH
    assert evidence_of(Reason.ENDPOINT_TIMEOUT) is Evidence.DATA_PATH


def test_states_have_an_order_in_which_the_worst_wins() -> None:
    """UNKNOWN is worse than healthy and better than broken."""
    assert sorted(State, key=severity) == [
        State.HEALTHY,
        State.NOT_APPLICABLE,
        State.UNKNOWN,
        State.DEGRADED,
        State.UNHEALTHY,
    ]
