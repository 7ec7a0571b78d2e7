"""How the words of drivers and of the kubelet about storage and volumes are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.csi.v1 import csi_pb2
from leadsman.domain.reasons import Reason
from leadsman_health_collector.csi_client import shown
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.csi_storage_health import Finding, _finding, judge
from leadsman_health_collector.probes.csi_volume_health import judge_condition, judge_health

BackendHealth = csi_pb2.NodeGetStorageHealthResponse.StorageBackendHealth
AccessMode = csi_pb2.VolumeCapability.AccessMode

UNREACHABLE = Finding("StorageUnreachable", "NoRoute", "gone")
DEGRADED = Finding("StorageDegraded", "Slow", "9 s")


def volume_answer(*statuses: int, volume_id: str = "v") -> csi_pb2.NodeGetVolumeHealthResponse:
    entries = [csi_pb2.VolumeHealth.VolumeHealthEntry(status=number, reason=f"R{number}") for number in statuses]
    health = csi_pb2.VolumeHealth(volume_id=volume_id, health_statuses=entries)
    return csi_pb2.NodeGetVolumeHealthResponse(volume_health=health)


def test_the_worst_of_several_findings_counts_wherever_it_stands():
    """And people see that there are more."""
    seen = judge([DEGRADED, UNREACHABLE, DEGRADED])
    assert (seen.outcome, seen.reason) == (Outcome.ERROR, Reason.STORAGE_UNREACHABLE)
    assert seen.message == "StorageUnreachable: NoRoute: gone (and 2 more)"
    assert judge([DEGRADED]).reason is Reason.STORAGE_DEGRADED
    assert judge([]).outcome is Outcome.GOOD


def test_what_concerns_some_volumes_only_keeps_no_pod_away():
    """The others work, and which of them a pod has is not known here."""
    capability = csi_pb2.VolumeCapability(
        block=csi_pb2.VolumeCapability.BlockVolume(), access_mode=AccessMode(mode=AccessMode.MULTI_NODE_MULTI_WRITER)
    )
    entry = BackendHealth(status=csi_pb2.STORAGE_UNREACHABLE, reason="R", volume_capability=capability)
    seen = judge([_finding(entry)])
    assert (seen.outcome, seen.reason) == (Outcome.IMPAIRED, Reason.STORAGE_DEGRADED)
    assert seen.message == "for block volumes with MULTI_NODE_MULTI_WRITER only: StorageUnreachable: R"


@pytest.mark.parametrize(
    ("capability", "limits"),
    [
        (csi_pb2.VolumeCapability(), "some volumes"),
        (csi_pb2.VolumeCapability(mount=csi_pb2.VolumeCapability.MountVolume()), "mounted volumes"),
        (csi_pb2.VolumeCapability(access_mode=AccessMode(mode=99)), "some volumes"),
    ],
)
def test_odd_limits_are_limits(capability, limits):
    """Their words may be missing or of a newer version."""
    assert _finding(BackendHealth(status=1, volume_capability=capability)).limits == limits


@pytest.mark.parametrize("status", [0, 3, 99, -1])
def test_a_status_of_a_newer_version_is_adverse_and_condemns_nothing(status):
    """It is listed, so something is wrong; what, only a newer version knows."""
    seen = judge([_finding(BackendHealth(status=status, reason="Newer"))])
    assert seen.outcome is Outcome.IMPAIRED
    assert seen.message == f"adverse, but of a kind not known here: status {status}: Newer"
    assert judge_health("v", volume_answer(status if status != 3 else 4)).outcome is Outcome.IMPAIRED


def test_numbers_of_the_release_are_used():
    """CSI v1.13.0 numbers them otherwise than the text of KEP-1432 did."""
    assert judge([_finding(BackendHealth(status=1))]).outcome is Outcome.IMPAIRED
    assert judge([_finding(BackendHealth(status=2))]).outcome is Outcome.ERROR
    assert [judge_health("v", volume_answer(number)).outcome for number in (1, 2, 3)] == [
        Outcome.IMPAIRED,
        Outcome.ERROR,
        Outcome.ERROR,
    ]


def test_a_volume_without_findings_is_well():
    """The volume may be named or not."""
    assert judge_health("v", volume_answer()).outcome is Outcome.GOOD
    assert judge_health("v", volume_answer(volume_id="")).outcome is Outcome.GOOD


def test_the_worst_of_a_volumes_conditions_counts():
    """Degraded alone keeps nobody away."""
    seen = judge_health("v", volume_answer(csi_pb2.DEGRADED, csi_pb2.DATA_LOSS))
    assert (seen.outcome, seen.reason) == (Outcome.ERROR, Reason.VOLUME_UNHEALTHY)
    assert seen.message == "data loss: R3 (and 1 more)"


@pytest.mark.parametrize(
    "answer", [csi_pb2.NodeGetVolumeHealthResponse(), volume_answer(csi_pb2.INACCESSIBLE, volume_id="another")]
)
def test_an_answer_that_does_not_speak_of_the_volume_is_no_information(answer):
    """Neither an empty one, nor one about something else."""
    assert judge_health("v", answer).outcome is Outcome.NOT_RUN


def test_a_missing_condition_is_no_information():
    """And an explicit one is believed both ways."""
    abnormal = csi_pb2.VolumeCondition(abnormal=True)
    assert judge_condition(csi_pb2.NodeGetVolumeStatsResponse()).outcome is Outcome.NOT_RUN
    assert judge_condition(csi_pb2.NodeGetVolumeStatsResponse(volume_condition=abnormal)).outcome is Outcome.ERROR
    normal = csi_pb2.NodeGetVolumeStatsResponse(volume_condition=csi_pb2.VolumeCondition())
    assert judge_condition(normal).outcome is Outcome.GOOD


@given(st.lists(st.builds(Finding, st.text(), st.text(), st.text(), st.text()), min_size=1, max_size=5))
def test_no_finding_whatever_its_words_reads_as_healthy(findings):
    """Nor does it make a message that is long or breaks a line."""
    seen = judge(findings)
    assert seen.outcome in {Outcome.ERROR, Outcome.IMPAIRED}
    assert seen.reason is not None


@given(st.text())
def test_shown_words_are_one_short_printable_line(text):
    """They travel in reports, events and logs."""
    line = shown(text)
    assert line.isprintable()
    assert len(line) <= 201
    assert line.strip() == line


def test_long_words_are_cut():
    """A driver may tell its life story."""
    assert shown("x" * 10_000) == "x" * 200 + "…"
    assert shown("a\n\tb\x00c") == "a b c"
