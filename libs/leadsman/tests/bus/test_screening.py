import pytest

from leadsman.bus.screening import Drop, ScreeningError, check_live, screen
from leadsman.bus.subjects import status_subject
from leadsman.domain.report import NodeReport, Sequence, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman.testing.reports import status, volume
from leadsman.wire.report import encode_report

NOW = 1_790_000_000.0


def body(node: str = "node-1", epoch_s: float = NOW) -> bytes:
    return encode_report(NodeReport(node, Sequence(int(epoch_s * 1000), 1), 10.0, ()))


def sidecar_body(scope: str, *storages: StorageStatus, volumes: tuple[VolumeStatus, ...] = ()) -> bytes:
    sequence = Sequence(int(NOW * 1000), 1)
    return encode_report(NodeReport("node-1", sequence, 10.0, storages, bad_volumes=volumes, scope=scope))


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


def test_an_honest_sidecar_passes():
    """It speaks for its driver on its node: of the driver, of its backends and of its volumes."""
    content = sidecar_body(
        "nfs.X",
        status("nfs.X", State.HEALTHY),
        status("nfs.X/a", State.HEALTHY),
        volumes=(volume("nfs.X/pv-1"),),
    )
    assert screen("leadsman.v1.status.node-1.nfs_X", content, NOW).reporter == "node-1/nfs.X"


@pytest.mark.parametrize(
    ("subject", "scope"),
    [
        ("leadsman.v1.status.node-1.nfs", "smb"),
        ("leadsman.v1.status.node-1.nfs", "NFS"),
        ("leadsman.v1.status.node-1.nfs", ""),
        ("leadsman.v1.status.node-1", "nfs"),
        ("leadsman.v1.status.node-2.nfs", "nfs"),
        ("leadsman.v1.status.node-1.nfs.more", "nfs"),
        ("leadsman.v1.status.node-1.n_fs", "n_fs"),
        ("leadsman.v1.status.node-1.kubernetes_io/nfs", "kubernetes.io/nfs"),
    ],
)
def test_a_sidecar_cannot_speak_for_another_driver_or_for_the_agent(subject, scope):
    """What the server lets publish on the subject is what the body must say, and nothing but a driver's name fits."""
    assert refused(subject, sidecar_body(scope)) is Drop.SUBJECT_MISMATCH


@pytest.mark.parametrize(
    "content",
    [
        sidecar_body("nfs", status("nfs", State.HEALTHY), status("smb", State.UNHEALTHY)),
        sidecar_body("nfs", status("nfs", State.HEALTHY), volumes=(volume("smb/pv-1"),)),
        sidecar_body("nfs", status("NFS", State.UNHEALTHY)),
    ],
    ids=["storage", "volume", "case"],
)
def test_a_sidecar_that_speaks_of_another_driver_is_refused_as_a_whole(content):
    """It can lie only about its own driver on its own node."""
    assert refused("leadsman.v1.status.node-1.nfs", content) is Drop.FOREIGN_DRIVER


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
