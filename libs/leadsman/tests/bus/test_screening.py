import pytest

from leadsman.bus.screening import Drop, ScreeningError, check_live, screen
from leadsman.bus.subjects import status_subject
from leadsman.domain.report import NodeReport, Sequence
from leadsman.wire.report import encode_report

NOW = 1_790_000_000.0


def body(node: str = "node-1", epoch_s: float = NOW) -> bytes:
    return encode_report(NodeReport(node, Sequence(int(epoch_s * 1000), 1), 10.0, ()))


def refused(subject: str, content: bytes) -> Drop:
    with pytest.raises(ScreeningError) as caught:
        screen(subject, content, NOW)
    return caught.value.reason


def test_an_honest_report_passes():
    """Body, subject and bounds agree; a clock four minutes fast is still accepted."""
    assert screen(status_subject("n.x"), body("n.x", NOW + 240), NOW).node == "n.x"


def test_a_node_cannot_speak_for_another():
    """The body's node must be the one that the server let publish on the subject."""
    assert refused(status_subject("node-2"), body("node-1")) is Drop.SUBJECT_MISMATCH


def test_a_body_with_an_impossible_node_name_is_a_mismatch():
    """No subject exists for it."""
    raw = body("node-1").replace(b'"node-1"', b'"node_1"')
    assert refused("leadsman.v1.status.node_1", raw) is Drop.SUBJECT_MISMATCH


def test_an_epoch_far_in_the_future_is_refused():
    """Otherwise one forged epoch would block the node's true reports for ever."""
    assert refused(status_subject("node-1"), body(epoch_s=NOW + 301)) is Drop.FUTURE_EPOCH


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"v":2,"node":"node-1","epoch":1,"seq":1}',
        b'{"v":1,"node":"node-1","epoch":"1","seq":1}',
        b'{"v":1,"node":"node-1","epoch":1,"seq":1,"x":' + b"[" * 8000 + b"]" * 8000 + b"}",
    ],
    ids=["empty", "bytes", "list", "version", "type", "nested"],
)
def test_what_is_no_report_is_malformed(content):
    """Nothing in a body can do more than get itself dropped, not even 8,000 nested brackets."""
    assert refused(status_subject("node-1"), content) is Drop.MALFORMED


def test_a_body_over_the_limit_is_not_even_parsed():
    """The stream refuses such bodies, a live subscription does not."""
    assert refused(status_subject("node-1"), b" " * 16_385) is Drop.OVERSIZED


def test_a_copy_of_a_stored_message_is_not_live():
    """A direct-get answer aimed at a status subject carries headers that only the server adds."""
    check_live(None)
    check_live({"traceparent": "00-x"})
    for name in ("Nats-Stream", "Nats-Subject"):
        with pytest.raises(ScreeningError):
            check_live({name: "x"})
