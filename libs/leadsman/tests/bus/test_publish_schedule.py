import math

import pytest

from leadsman.bus.publish import PublishSchedule


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def connected_schedule(uniform=middle) -> PublishSchedule:
    schedule = PublishSchedule(10.0, uniform)
    schedule.connected(0.0)
    schedule.sent(0.0)
    return schedule


def test_nothing_is_due_before_the_first_connection():
    """A collector that starts before NATS does not count failures."""
    schedule = PublishSchedule(10.0, middle)
    schedule.changed(1.0)
    assert schedule.due_at == math.inf
    schedule.connected(5.0)
    assert schedule.due_at == 5.0


@pytest.mark.parametrize(("chance", "due"), [(min, 8.0), (middle, 10.0), (max, 12.0)])
def test_heartbeats_are_spread_by_a_fifth(chance, due):
    """Without jitter a fleet that started together would publish together for ever."""
    assert connected_schedule(chance).due_at == pytest.approx(due)


def test_a_change_is_due_at_once_but_at_most_once_a_second():
    """The first change goes out now, the next ones together one second later."""
    schedule = connected_schedule()
    schedule.changed(5.0)
    assert schedule.due_at == 5.0
    schedule.sent(5.0)
    schedule.changed(5.1)
    schedule.changed(5.9)
    assert schedule.due_at == 6.0


def test_a_change_never_puts_a_heartbeat_off():
    """The earlier of the two counts."""
    schedule = connected_schedule()
    due = schedule.due_at
    schedule.changed(due + 1.0)
    assert schedule.due_at == due


def test_a_reconnect_spreads_the_fleet_over_five_seconds():
    """After NATS comes back not all nodes may speak in the same moment."""
    schedule = connected_schedule(lambda _low, high: high)
    schedule.connected(100.0)
    assert schedule.due_at == 105.0


def test_a_failure_is_retried_soon_only_while_connected():
    """Without a connection the next one asks for a report anyway."""
    schedule = connected_schedule()
    schedule.failed(20.0, connected=True)
    assert schedule.due_at == 21.0
    schedule.failed(20.0, connected=False)
    assert schedule.due_at == 30.0
