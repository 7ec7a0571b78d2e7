"""Lines about decisions that matter are there, few enough to be affordable, and say what is missing."""

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from leadsman.testing.clock import FakeClock
from leadsman.wire.decision import DecisionRecord
from leadsman_gateway.decision_log import LINES_PER_S, DecisionLog


def record(outcome: str = "decided", rejected: int = 0) -> DecisionRecord:
    """A filter call."""
    return DecisionRecord(1.0, "filter", "shop", "db-0", "u-1", outcome, candidates=3, rejected_total=rejected)


@pytest.mark.parametrize(
    ("one", "lines"), [(record(), 0), (record(rejected=1), 1), (record("failed-open"), 1), (record("fast-path"), 0)]
)
def test_decisions_that_matter_to_people_have_a_line(one: DecisionRecord, lines: int) -> None:
    """Those that kept nodes from a pod and those that could not be made; the bus has all."""
    with capture_logs() as logged:
        DecisionLog(FakeClock(), CollectorRegistry()).write(one, {"MountHung": 1})

    assert [(line["pod"], line["reasons"]) for line in logged] == [("db-0", {"MountHung": 1})] * lines


def test_lines_beyond_some_per_second_are_counted_instead() -> None:
    """A storm of rejections must not cost more than the decisions; the next line tells how many were left out."""
    clock, registry = FakeClock(), CollectorRegistry()
    one = DecisionLog(clock, registry)
    with capture_logs() as logged:
        for _ in range(LINES_PER_S + 5):
            one.write(record(rejected=1), {})
        clock.advance(1)
        one.write(record(rejected=1), {})

    assert [line["omitted_before"] for line in logged] == [0] * LINES_PER_S + [5]
    assert registry.get_sample_value("leadsman_gateway_decision_log_lines_omitted_total") == 5
