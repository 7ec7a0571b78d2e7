from leadsman.bus.settling import StreamSettling


def test_a_young_stream_is_waited_for_by_the_servers_clock():
    """What counts is its age, not when we came."""
    settling = StreamSettling(20.0)
    assert settling.remaining("A", age_s=5.0, now=1000.0) == 15.0
    assert settling.remaining("A", age_s=20.0, now=1015.0) == 0.0
    assert StreamSettling(20.0).remaining("A", age_s=86_400.0, now=0.0) == 0.0


def test_a_wrong_clock_of_the_server_delays_by_no_more_than_the_time_to_settle():
    """A stream from the future must not keep a replica unready for ever."""
    settling = StreamSettling(20.0)
    assert settling.remaining("A", age_s=-3600.0, now=1000.0) == 20.0
    assert settling.remaining("A", age_s=-3580.0, now=1020.0) == 0.0
    assert settling.remaining("B", age_s=0.0, now=1020.0) == 20.0


def test_nothing_to_wait_for():
    """Zero seconds switch it off."""
    assert StreamSettling(0.0).remaining("A", age_s=0.0, now=0.0) == 0.0
