"""Lines about decisions that matter are there, few enough to be affordable, and say what is missing."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from leadsman.testing.clock import FakeClock
from leadsman.wire.decision import DecisionRecord, RejectedNodes
from leadsman_gateway.decision_log import LINES_PER_S, DecisionLog


def record(outcome: str = "decided", rejected: int = 0, shadow: int = 0) -> DecisionRecord:
    """A filter call."""
    record = DecisionRecord(1.0, "filter", "shop", "db-0", "u-1", outcome, candidates=3)
    groups = {"rejections": rejected, "shadow": shadow}
    lists = {name: [RejectedNodes("MountHung", "nfs", total)] for name, total in groups.items() if total}
    return msgspec.structs.replace(record, rejected_total=rejected, shadow_total=shadow, **lists)


@pytest.mark.parametrize(
    ("one", "lines"),
    [
        (record(), 0),
        (record(rejected=1), 1),
        (record(shadow=1), 1),
        (record("failed-open"), 1),
        (record("fast-path"), 0),
    ],
)
def test_decisions_that_matter_to_people_have_a_line(one: DecisionRecord, lines: int) -> None:
    """Those that kept nodes from a pod, or would have, and those that could not be made; the bus has all."""
    with capture_logs() as logged:
        DecisionLog(FakeClock(), CollectorRegistry()).write(one)

    assert [line["pod"] for line in logged] == ["db-0"] * lines


def test_a_line_counts_nodes_by_reason_and_keeps_apart_what_is_not_enforced() -> None:
    """Two drivers with one reason are one number; without a shadow there is no word about it."""
    both = msgspec.structs.replace(
        record(rejected=1, shadow=2), rejections=[RejectedNodes("MountHung", name, 2) for name in ("nfs", "smb")]
    )
    with capture_logs() as logged:
        for one in (both, record(rejected=1)):
            DecisionLog(FakeClock(), CollectorRegistry()).write(one)

    assert logged[0]["reasons"] == {"MountHung": 4}
    assert (logged[0]["would_reject"], logged[0]["would_reasons"]) == (2, {"MountHung": 2})
    assert "would_reject" not in logged[1]


def test_lines_beyond_some_per_second_are_counted_instead() -> None:
    """A storm of rejections must not cost more than the decisions; the next line tells how many were left out."""
    clock, registry = FakeClock(), CollectorRegistry()
    one = DecisionLog(clock, registry)
    with capture_logs() as logged:
        for _ in range(LINES_PER_S + 5):
            one.write(record(rejected=1))
        clock.advance(1)
        one.write(record(rejected=1))

    assert [line["omitted_before"] for line in logged] == [0] * LINES_PER_S + [5]
    assert registry.get_sample_value("leadsman_gateway_decision_log_lines_omitted_total") == 5
