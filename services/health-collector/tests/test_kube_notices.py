"""Which transitions become Events, of which type, with which reason and words."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman_health_collector.kube.event_series import event_name
from leadsman_health_collector.kube.notices import MAX_MESSAGE_BYTES, printable, storage_notice, volume_notice

KEY = StorageKey("nfs.csi.k8s.io", "10.0.0.9")
HEALTHY = StorageStatus(KEY, State.HEALTHY)
HUNG = StorageStatus(KEY, State.UNHEALTHY, Reason.MOUNT_HUNG, message="statvfs has not returned for 15 s")
FULL = StorageStatus(KEY, State.DEGRADED, Reason.CAPACITY_LOW, message="96 % used")
UNKNOWN = StorageStatus(KEY, State.UNKNOWN, Reason.NOT_OBSERVED, message="nothing seen for 45 s")
GONE = StorageStatus(KEY, State.NOT_APPLICABLE, Reason.DRIVER_NOT_REGISTERED, message="uninstalled")
BAD_VOLUME = VolumeStatus(KEY.driver, "pv-1", State.UNHEALTHY, Reason.STALE_FILE_HANDLE, "ESTALE")


def told(before, after, *, bad_was_told=False):
    notice = storage_notice(before, after, bad_was_told=bad_was_told)
    return notice and (notice.type, notice.reason)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (HEALTHY, HUNG, ("Warning", "MountHung")),
        (HEALTHY, FULL, ("Warning", "CapacityLow")),
        (FULL, HUNG, ("Warning", "MountHung")),
        (HUNG, FULL, ("Warning", "CapacityLow")),
        (HUNG, HUNG._replace(reason=Reason.ENDPOINT_TIMEOUT), ("Warning", "EndpointTimeout")),
        (None, HUNG, ("Warning", "MountHung")),
        (UNKNOWN, HUNG, ("Warning", "MountHung")),
        (HUNG, HEALTHY, ("Normal", "StorageHealthy")),
        (FULL, HEALTHY, ("Normal", "StorageHealthy")),
        (HEALTHY, UNKNOWN, ("Normal", "NotObserved")),
        (HUNG, UNKNOWN, ("Normal", "NotObserved")),
        (HEALTHY, GONE, ("Normal", "DriverNotRegistered")),
    ],
)
def test_change_is_told(before, after, expected):
    """Warnings are about storage that is not well, and about nothing else."""
    assert told(before, after) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, HEALTHY),
        (UNKNOWN, HEALTHY),
        (GONE, HEALTHY),
        (None, UNKNOWN),
        (None, GONE),
        (UNKNOWN, GONE),
        (HUNG, HUNG._replace(message="for 30 s now", latency_s=30.0)),
        (HEALTHY, HEALTHY),
    ],
)
def test_what_is_no_news_is_not_told(before, after):
    """A start, a first good look, and other words for the same state are none."""
    assert told(before, after) is None


def test_recovery_is_told_also_after_a_time_without_knowledge():
    """Somebody has read the Warning and waits for the end of it."""
    assert told(UNKNOWN, HEALTHY, bad_was_told=True) == ("Normal", "StorageHealthy")


def test_words_name_storage_state_and_cause():
    """An event is read out of context."""
    down = storage_notice(HEALTHY, HUNG, bad_was_told=False)
    assert down is not None
    assert down.message == "nfs.csi.k8s.io/10.0.0.9 is UNHEALTHY: statvfs has not returned for 15 s"
    up = storage_notice(HUNG, HEALTHY, bad_was_told=True)
    assert up is not None
    assert up.message == "nfs.csi.k8s.io/10.0.0.9 is HEALTHY again; it was UNHEALTHY (MountHung)"
    wordless = storage_notice(HEALTHY, HUNG._replace(message=""), bad_was_told=False)
    assert wordless is not None
    assert wordless.message.endswith("is UNHEALTHY: MountHung")


def test_bad_volume_is_told_and_taken_back():
    """By the name of its PersistentVolume."""
    bad = volume_notice(None, BAD_VOLUME)
    assert bad is not None
    assert (bad.type, bad.reason, bad.single_volume) == ("Warning", "StaleFileHandle", True)
    assert bad.message == "PersistentVolume pv-1 of nfs.csi.k8s.io is UNHEALTHY: ESTALE"
    well = volume_notice(BAD_VOLUME, None)
    assert well is not None
    assert (well.type, well.reason) == ("Normal", "StorageHealthy")
    assert volume_notice(BAD_VOLUME, BAD_VOLUME._replace(message="ESTALE again")) is None
    assert volume_notice(BAD_VOLUME, BAD_VOLUME._replace(reason=Reason.MOUNT_HUNG)) is not None
    assert volume_notice(None, None) is None


def test_volume_called_like_a_backend_is_another_series():
    """A PersistentVolume may have any name."""
    volume = BAD_VOLUME._replace(volume=KEY.backend, reason=Reason.MOUNT_HUNG)
    one, other = storage_notice(HEALTHY, HUNG, bad_was_told=False), volume_notice(None, volume)
    assert one is not None
    assert other is not None
    assert one.series != other.series


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words", "plain words"),
        ("two\nlines\tand\r\nmore", "two lines and more"),
        ("\x1b[2Jcleared", "\N{REPLACEMENT CHARACTER}[2Jcleared"),
        ("a\u202eb\x00", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"),
        ("lone \udcff", "lone \N{REPLACEMENT CHARACTER}"),
        ("größer", "größer"),
    ],
)
def test_texts_cannot_steer_a_terminal(text, shown):
    """Messages hold what drivers, servers and mount tables say, and kubectl prints them as they are."""
    assert printable(text) == shown


@pytest.mark.parametrize("text", ["x" * 5000, "ß" * 5000, "€" * 400])
def test_long_texts_are_cut_within_the_limit(text):
    """The limit is in bytes, and no character is cut in two."""
    cut = printable(text)
    assert MAX_MESSAGE_BYTES - 3 <= len(cut.encode()) <= MAX_MESSAGE_BYTES
    assert cut.endswith("…")


def test_name_is_the_same_at_every_attempt_and_for_no_other_series():
    """So an answer that got lost costs no second Event."""
    notice, other = storage_notice(HEALTHY, HUNG, bad_was_told=False), storage_notice(HEALTHY, FULL, bad_was_told=False)
    assert notice is not None
    assert other is not None
    names = {event_name(node, one, at) for node in ("a", "b") for one in (notice, other) for at in (1.0, 2.0)}
    assert len(names) == 8
    assert event_name("a", notice, 1.0) in names
    long = event_name(f"{'n' * 235}.{'m' * 17}", notice, 1.0)
    assert len(long) <= 253
    assert ".." not in long
