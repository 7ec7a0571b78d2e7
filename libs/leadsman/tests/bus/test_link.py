from hypothesis import given
from hypothesis import strategies as st

from leadsman.bus.link import LinkTime


def linked(grace: float = 2.0) -> LinkTime:
    link = LinkTime(grace, now=0.0)
    link.resumed(0.0)
    return link


def test_link_time_is_real_time_while_the_bus_is_heard():
    """With a PONG every second ages are exact."""
    link = linked()
    for second in range(1, 11):
        link.heard(float(second))
    assert link.value(10.5) == 10.5
    assert not link.frozen(10.5)


def test_silence_stops_link_time_after_the_grace():
    """A server that hangs ages nobody by more than the grace."""
    link = linked(grace=2.0)
    link.heard(10.0)
    assert not link.frozen(12.0)
    assert link.frozen(12.1)
    assert link.value(1_000.0) == link.value(12.0)
    assert link.silent_for(25.0) == 15.0


def test_a_disconnect_freezes_at_once_and_the_gap_does_not_count():
    """Ten minutes without NATS make no report ten minutes older."""
    link = linked()
    link.heard(5.0)
    link.lost(5.5)
    assert link.frozen(5.5)
    before = link.value(600.0)
    link.resumed(600.0)
    assert not link.frozen(600.0)
    assert link.value(600.0) == before
    assert link.value(601.0) == before + 1.0


def test_a_stopped_process_does_not_age_its_cache():
    """When we ourselves were stopped for an hour, the first message afterwards adds no hour."""
    link = linked(grace=2.0)
    link.heard(1.0)
    link.heard(3_600.0)
    assert link.value(3_600.0) == 3.0


@given(st.lists(st.tuples(st.sampled_from(["heard", "lost", "resumed"]), st.floats(0, 100)), max_size=40))
def test_link_time_never_goes_back_and_never_outruns_the_clock(events):
    """Whatever happens to the connection, ages only grow, and no faster than time."""
    link, now, last = LinkTime(2.0, now=0.0), 0.0, 0.0
    for event, later in events:
        now += later
        getattr(link, event)(now)
        value = link.value(now)
        assert last <= value <= now + 1e-6
        last = value
