"""Thresholds up and down of one source."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman_health_collector.observation import Observation, Outcome, not_run
from leadsman_health_collector.strikes import SourceHealth, Thresholds

GOOD = Observation(Outcome.GOOD, latency_s=0.002)
ERROR = Observation(Outcome.ERROR, Reason.ENDPOINT_REFUSED, "refused")
TIMEOUT = Observation(Outcome.TIMEOUT, Reason.ENDPOINT_TIMEOUT, "silent")
ABSENT = Observation(Outcome.ABSENT, Reason.DRIVER_SOCKET_MISSING)
REMOVED = Observation(Outcome.REMOVED, Reason.DRIVER_SOCKET_MISSING)
IMPAIRED = Observation(Outcome.IMPAIRED, Reason.PATHS_DEGRADED, "2 of 4 paths")
STARTING = Observation(Outcome.STARTING, Reason.DRIVER_STARTING)
NOT_RUN = not_run("no")


def after(*looks: Observation, cautious: bool = False, thresholds: Thresholds | None = None) -> SourceHealth:
    health = SourceHealth(thresholds or Thresholds(), period_s=10.0, cautious=cautious)
    for number, seen in enumerate(looks):
        health.record(seen, now=10.0 * number)
    return health


def state(*looks: Observation, cautious: bool = False) -> State | None:
    level = after(*looks, cautious=cautious).level
    return level.state if level else None


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([], None),
        ([GOOD], State.HEALTHY),
        ([ERROR], None),
        ([ERROR, ERROR], State.UNHEALTHY),
        ([TIMEOUT, TIMEOUT], None),
        ([TIMEOUT, TIMEOUT, TIMEOUT], State.UNHEALTHY),
        ([GOOD, ERROR], State.HEALTHY),
        ([GOOD, ERROR, ERROR], State.UNHEALTHY),
        ([GOOD, TIMEOUT, TIMEOUT], State.HEALTHY),
        ([GOOD, TIMEOUT, ERROR], State.HEALTHY),
        ([GOOD, TIMEOUT, ERROR, ERROR], State.UNHEALTHY),
        ([GOOD, ERROR, TIMEOUT, TIMEOUT], State.UNHEALTHY),
        ([GOOD, ERROR, GOOD, ERROR], State.HEALTHY),
    ],
)
def test_strikes_down(looks, expected):
    """Two definite failures or three of any kind in a row; the first good look decides at once."""
    assert state(*looks) == expected


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([ERROR, ERROR, GOOD], State.UNHEALTHY),
        ([ERROR, ERROR, GOOD, GOOD], State.HEALTHY),
        ([ERROR, ERROR, GOOD, ERROR, GOOD], State.UNHEALTHY),
        ([ERROR, ERROR, GOOD, ERROR, GOOD, GOOD], State.HEALTHY),
    ],
)
def test_recovery_takes_two_good_looks_in_a_row(looks, expected):
    """A server in a crash loop must not flip each time it answers once."""
    assert state(*looks) == expected


def test_after_something_bad_before_the_start_even_the_first_good_look_is_confirmed():
    """A restart of the collector is no short cut to healthy."""
    assert state(GOOD, cautious=True) is None
    assert state(GOOD, GOOD, cautious=True) is State.HEALTHY


@pytest.mark.parametrize("before", [[GOOD], [ERROR, ERROR], [TIMEOUT, TIMEOUT], [ERROR, ERROR, GOOD], [STARTING]])
def test_a_look_that_was_not_had_changes_nothing(before):
    """Neither better nor worse, and no strike is forgiven."""
    assert after(*before, *[NOT_RUN] * 10).level == after(*before).level
    assert state(TIMEOUT, NOT_RUN, TIMEOUT, NOT_RUN, TIMEOUT) is State.UNHEALTHY


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([GOOD, ABSENT], State.HEALTHY),
        ([GOOD, ABSENT, ABSENT], State.DEGRADED),
        ([GOOD, *[ABSENT] * 3], State.DEGRADED),
        ([GOOD, *[ABSENT] * 4], State.UNHEALTHY),
        ([GOOD, ABSENT, ABSENT, GOOD], State.DEGRADED),
        ([GOOD, ABSENT, ABSENT, GOOD, GOOD], State.HEALTHY),
        ([ERROR, ERROR, ABSENT], State.UNHEALTHY),
        ([GOOD, REMOVED, REMOVED], State.DEGRADED),
        ([GOOD, *[REMOVED] * 4], State.NOT_APPLICABLE),
        ([GOOD, *[REMOVED] * 4, ABSENT], State.UNHEALTHY),
    ],
)
def test_a_vanished_plugin_gets_its_grace(looks, expected):
    """It may be restarting: degraded at the second strike, unhealthy (or gone) after three periods."""
    assert state(*looks) == expected


def test_starting_is_degraded_for_two_minutes_and_then_unhealthy():
    """Counted from the first time, and not started anew by a crash in between."""
    health = after(GOOD)
    health.record(STARTING, now=100.0)
    assert health.level
    assert health.level.state is State.DEGRADED
    for now in (110.0, 120.0):
        health.record(ERROR, now=now)
    for now in (130.0, 219.0):
        health.record(STARTING, now=now)
    assert health.level.state is State.DEGRADED
    health.record(STARTING, now=220.0)
    assert (health.level.state, health.level.reason) == (State.UNHEALTHY, Reason.DRIVER_STARTING)
    health.record(GOOD, now=230.0)
    assert health.level.state is State.UNHEALTHY
    health.record(GOOD, now=240.0)
    assert health.level.state is State.HEALTHY


def test_starting_once_does_not_lift_unhealthy():
    """A crash loop that says 'starting' each time stays unhealthy until it says so twice in a row."""
    assert state(ERROR, ERROR, STARTING) is State.UNHEALTHY
    assert state(ERROR, ERROR, STARTING, ERROR, STARTING) is State.UNHEALTHY
    assert state(ERROR, ERROR, STARTING, STARTING) is State.DEGRADED


def test_only_a_first_definite_failure_asks_for_a_second_look():
    """Silence is given its full time, and what is known as down is not hurried."""
    assert after(GOOD, ERROR).wants_second_look
    assert after(ERROR).wants_second_look
    assert not after(GOOD, TIMEOUT).wants_second_look
    assert not after(GOOD, ERROR, ERROR).wants_second_look
    assert not after(ERROR, ERROR, GOOD, ERROR).wants_second_look
    assert not after(GOOD).wants_second_look


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([IMPAIRED], None),
        ([IMPAIRED, IMPAIRED], State.DEGRADED),
        ([GOOD, IMPAIRED], State.HEALTHY),
        ([GOOD, IMPAIRED, IMPAIRED], State.DEGRADED),
        ([GOOD, IMPAIRED, IMPAIRED, GOOD], State.DEGRADED),
        ([GOOD, IMPAIRED, IMPAIRED, GOOD, GOOD], State.HEALTHY),
        ([ERROR, ERROR, IMPAIRED], State.UNHEALTHY),
        ([ERROR, ERROR, IMPAIRED, IMPAIRED], State.DEGRADED),
        ([ERROR, ERROR, IMPAIRED, GOOD], State.DEGRADED),
        ([ERROR, ERROR, GOOD, IMPAIRED], State.DEGRADED),
        ([ERROR, ERROR, GOOD, IMPAIRED, GOOD, IMPAIRED, GOOD], State.DEGRADED),
    ],
)
def test_what_is_impaired_works(looks, expected):
    """Degraded at the second look; what was down is up again, though not well, as soon as it works twice."""
    assert state(*looks) == expected


def test_one_slow_answer_is_no_news_and_many_are():
    """A lost packet costs a second; a server that always takes as long is slow, until it is clearly fast again."""
    slow, fast = (Observation(Outcome.GOOD, latency_s=seconds) for seconds in (2.0, 0.1))
    limit = Thresholds(slow_s=1.0)
    assert after(fast, slow, fast, thresholds=limit).level.state is State.HEALTHY
    health = after(fast, slow, slow, slow, thresholds=limit)
    assert (health.level.state, health.level.reason) == (State.DEGRADED, Reason.HIGH_LATENCY)
    health.record(fast, now=50.0)
    assert health.level.state is State.DEGRADED
    for now in range(60, 120, 10):
        health.record(fast, now=now)
    assert health.level.state is State.HEALTHY
    assert after(slow, slow, slow).level.state is State.HEALTHY


def test_latency_is_an_average_so_that_one_look_moves_no_score():
    """The newest counts 0.3; a look that does not tell leaves it, and a failure in between as well."""
    quick, slow = (Observation(Outcome.GOOD, latency_s=seconds) for seconds in (0.02, 0.12))
    assert after(quick, quick).level.latency_s == pytest.approx(0.02)
    assert after(quick, slow).level.latency_s == pytest.approx(0.05)
    assert after(quick, slow, ERROR, slow).level.latency_s == pytest.approx(0.071)
    assert after(quick, Observation(Outcome.GOOD)).level.latency_s is None


def test_a_source_that_needs_no_confirmation_asks_for_no_second_look():
    """One strike decides, so there is nothing to confirm."""
    health = after(ERROR, thresholds=Thresholds(definite=1, failures=1, up=1))
    assert health.level.state is State.UNHEALTHY
    assert not health.wants_second_look


def test_what_was_never_meant_for_the_node_has_no_grace_where_none_is_due():
    """There is nothing that could be restarting."""
    known = Thresholds(up=1, gone_at_once=True)
    assert after(REMOVED, REMOVED, thresholds=known).level.state is State.NOT_APPLICABLE
    assert after(ABSENT, ABSENT, thresholds=known).level.state is State.DEGRADED


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([GOOD, ABSENT, TIMEOUT, GOOD], State.HEALTHY),
        ([GOOD, ABSENT, ABSENT, TIMEOUT], State.DEGRADED),
        ([GOOD, ABSENT, ABSENT, ERROR], State.DEGRADED),
        ([GOOD, ABSENT, ABSENT, ERROR, ERROR], State.UNHEALTHY),
        ([GOOD, ABSENT, ABSENT, TIMEOUT, TIMEOUT, TIMEOUT], State.UNHEALTHY),
    ],
)
def test_a_process_that_listens_before_it_serves_is_still_being_restarted(looks, expected):
    """Its errors and silences are counted from then on, as anybody's."""
    assert state(*looks) == expected


def test_what_was_down_before_the_start_has_used_up_its_grace():
    """Until it has been well once."""
    health = SourceHealth(Thresholds(), period_s=10.0, cautious=True, was_down=True)
    for now in (0.0, 5.0):
        health.record(ABSENT, now)
    assert health.level.state is State.UNHEALTHY
