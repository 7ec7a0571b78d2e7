"""Node reports survive the bus, and whatever else arrives there is refused without a crash."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, ProbeContext, Sequence, StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import Evidence, State
from leadsman.testing.reports import report, status, volume
from leadsman.wire.errors import WireError
from leadsman.wire.report import MAX_BODY_BYTES, MAX_STORAGES, MAX_VOLUMES, decode_report, encode_report

TEXT = st.text(max_size=12)
SECONDS = st.floats(0, 1e9, allow_nan=False).map(lambda value: round(value, 3))
SHARES = st.none() | st.floats(0, 1).map(lambda value: round(value, 4))
SLOTS = st.none() | st.integers(0, 2**31 - 1)
STATUSES = st.builds(
    StorageStatus,
    key=st.builds(StorageKey, TEXT, TEXT),
    state=st.sampled_from(list(State)),
    reason=st.none() | st.sampled_from(list(Reason)),
    evidence=st.sampled_from(list(Evidence)),
    message=TEXT,
    since_epoch_s=SECONDS,
    latency_s=st.none() | SECONDS,
    used=SHARES,
    inodes_used=SHARES,
    attach_limit=SLOTS,
    attached=SLOTS,
)
VOLUMES = st.builds(
    VolumeStatus,
    driver=TEXT,
    volume=TEXT,
    state=st.sampled_from(list(State)),
    reason=st.sampled_from(list(Reason)),
    message=TEXT,
    since_epoch_s=SECONDS,
)
REPORTS = st.builds(
    NodeReport,
    node=TEXT,
    sequence=st.builds(Sequence, st.integers(0, 2**50), st.integers(0, 2**50)),
    interval_s=st.floats(1, 60),
    storages=st.lists(STATUSES, max_size=4).map(tuple),
    node_uid=TEXT,
    boot_id=TEXT,
    labels=st.dictionaries(TEXT, TEXT, max_size=3),
    facts=st.dictionaries(TEXT, TEXT | SECONDS, max_size=3),
    sent_epoch_s=SECONDS,
    probe=st.none() | st.builds(ProbeContext, TEXT, TEXT, st.integers(0, 255)),
    bad_volumes=st.lists(VOLUMES, max_size=3).map(tuple),
    scope=TEXT,
)


@given(sent=REPORTS)
def test_a_report_comes_out_as_it_went_in(sent: NodeReport) -> None:
    """Every field, present or not."""
    assert sent == decode_report(encode_report(sent))


@given(
    body=st.binary()
    | st.text().map(str.encode)
    | st.recursive(st.none() | st.integers() | TEXT, st.lists).map(json.dumps).map(str.encode)
)
def test_what_is_no_report_is_refused(body: bytes) -> None:
    """Nothing but WireError comes out of any bytes."""
    with pytest.raises(WireError):
        decode_report(body)


def body_with(**changes: object) -> bytes:
    return json.dumps({"v": 1, "node": "n1", "epoch": 1, "seq": 1, **changes}).encode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v": 2}, "version 2"),
        ({"node": None}, "node"),
        ({"seq": "1"}, "seq"),
        ({"seq": -1}, "seq"),
        ({"seq": 2**63}, "seq"),
        ({"epoch": 10**400}, "epoch"),
        ({"epoch": -(2**63)}, "epoch"),
        ({"sent": -1.0}, "sent"),
        ({"sent": 10**400}, "sent"),
        ({"interval_s": 10**400}, "interval_s"),
        ({"facts": {"load": 10**400}}, "facts"),
        ({"storages": [{"driver": "x", "since": 1e300}]}, "since"),
        ({"storages": [{"driver": "x", "latency_s": -0.1}]}, "latency_s"),
        ({"trace": {"trace_id": "", "span_id": "", "flags": 256}}, "flags"),
        ({"storages": [{"driver": 5}]}, "driver"),
        ({"storages": [{"driver": "x"}] * (MAX_STORAGES + 1)}, "storages, over the limit"),
        ({"storages": [{"driver": "x", "used": -0.001}]}, "used"),
        ({"storages": [{"driver": "x", "used": 1.001}]}, "used"),
        ({"storages": [{"driver": "x", "inodes_used": 2}]}, "inodes_used"),
        ({"storages": [{"driver": "x", "attach_limit": -1}]}, "attach_limit"),
        ({"storages": [{"driver": "x", "attach_limit": 2**31}]}, "attach_limit"),
        ({"storages": [{"driver": "x", "attached": 1.5}]}, "attached"),
        ({"scope": 5}, "scope"),
        ({"bad_volumes": [{"driver": "x"}]}, "volume"),
        ({"bad_volumes": [{"driver": "x", "volume": "pv", "since": -1}]}, "since"),
        ({"bad_volumes": [{"driver": "x", "volume": "pv"}] * (MAX_VOLUMES + 1)}, "bad volumes, over the limit"),
    ],
)
def test_a_report_with_a_wrong_part_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    """The message names the place, so that an operator finds the collector's fault."""
    with pytest.raises(WireError, match=words):
        decode_report(body_with(**changes))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused_in_every_place(number: str) -> None:
    """No comparison of ours has to think of them."""
    places = (
        {"interval_s": 0},
        {"sent": 0},
        {"facts": {"load": 0}},
        {"storages": [{"driver": "x", "since": 0}]},
        {"storages": [{"driver": "x", "latency_s": 0}]},
        {"storages": [{"driver": "x", "used": 0}]},
        {"bad_volumes": [{"driver": "x", "volume": "pv", "since": 0}]},
    )
    for place in places:
        body = json.dumps({"v": 1, "node": "n1", "epoch": 1, "seq": 1, **place}).replace(": 0", f": {number}")
        assert number in body
        with pytest.raises(WireError):
            decode_report(body.encode())


def test_words_of_a_newer_collector_are_never_read_as_healthy() -> None:
    """Unknown keys are skipped; an unknown state is UNKNOWN, an unknown reason unrecognised, evidence the weaker."""
    storage = {"driver": "x", "state": "WOBBLY", "reason": "SolarFlare", "evidence": "HEARSAY", "colour": "red"}
    (read,) = decode_report(body_with(storages=[storage], mood="good")).storages

    assert (read.state, read.reason, read.evidence) == (State.UNKNOWN, Reason.UNRECOGNISED, Evidence.CONTROL_PLANE)


def test_attach_slots_are_read_beside_words_of_a_newer_collector() -> None:
    """The tolerant decoder knows them as well."""
    storage = {"driver": "x", "state": "WOBBLY", "attach_limit": 39, "attached": 0}
    (read,) = decode_report(body_with(storages=[storage])).storages

    assert (read.attach_limit, read.attached) == (39, 0)


def test_words_of_a_newer_collector_about_a_volume_are_never_read_as_healthy() -> None:
    """With storages in words of today or of tomorrow; what is left out is unknown as well."""
    told = {"driver": "x", "volume": "pv-1", "state": "WOBBLY", "reason": "SolarFlare", "colour": "red"}
    for storages in ([], [{"driver": "x", "state": "WOBBLY"}]):
        body = body_with(storages=storages, bad_volumes=[told, {"driver": "x", "volume": "pv-2"}], scope="x")
        read = decode_report(body)

        assert read.scope == "x"
        assert read.bad_volumes == (
            VolumeStatus("x", "pv-1", State.UNKNOWN, Reason.UNRECOGNISED),
            VolumeStatus("x", "pv-2", State.UNKNOWN, Reason.UNRECOGNISED),
        )


def test_a_filesystem_that_counts_oddly_does_not_silence_its_node() -> None:
    """Receivers would refuse the whole report, so a share is moved into its bounds by the sender."""
    odd = status("nfs", State.HEALTHY)._replace(used=1.7, inodes_used=-0.2)
    (read,) = decode_report(encode_report(report("n1", odd))).storages

    assert (read.used, read.inodes_used) == (1.0, 0.0)


def test_a_report_without_news_of_volumes_is_as_short_as_before() -> None:
    """What is usual is not written: most reports of most nodes are so."""
    body = encode_report(report("n1", status("nfs", State.HEALTHY)))

    assert not any(word in body for word in (b"scope", b"bad_volumes", b"used", b"attach"))
    assert b"bad_volumes" in encode_report(report("n1", volumes=[volume("nfs/pv-1")]))


def test_empty_words_mean_what_absent_ones_mean() -> None:
    """A collector may write every field; the fast decoder does not know these words, the tolerant one does."""
    (read,) = decode_report(body_with(storages=[{"driver": "x", "reason": "", "state": "HEALTHY"}])).storages

    assert read == StorageStatus(StorageKey("x"), State.HEALTHY)


def test_nodes_that_report_one_storage_share_its_key() -> None:
    """Ten storages on 50,000 nodes are ten keys in memory."""
    first, second = [decode_report(body_with(node=node, storages=[{"driver": "x"}])) for node in ("a", "b")]

    assert first.storages[0].key is second.storages[0].key


@pytest.mark.parametrize(("sent", "expected"), [(0.001, 1.0), (3600, 60.0), (-5, 1.0)])
def test_a_heartbeat_period_out_of_bounds_is_moved_into_them(sent: float, expected: float) -> None:
    """No node can make itself fresh for ever."""
    assert expected == decode_report(body_with(interval_s=sent)).interval_s


def test_a_report_too_large_for_the_bus_is_refused_by_its_sender() -> None:
    """The stream would drop it silently; the error says how to make it smaller."""
    large = report(
        "n1", *[status(f"driver/{'x' * 100}{number}", State.HEALTHY) for number in range(MAX_BODY_BYTES // 100)]
    )

    with pytest.raises(WireError, match="watch fewer backends"):
        encode_report(large)


def test_a_report_that_every_receiver_would_refuse_is_refused_by_its_sender() -> None:
    """A node must not fall silent without a word; its collector leaves the least bad out."""
    with pytest.raises(WireError, match="65 bad volumes, over the limit"):
        encode_report(report("n1", volumes=[volume("nfs/pv")] * (MAX_VOLUMES + 1)))
    with pytest.raises(WireError, match="257 storages, over the limit"):
        encode_report(report("n1", *[status("nfs", State.HEALTHY)] * (MAX_STORAGES + 1)))
