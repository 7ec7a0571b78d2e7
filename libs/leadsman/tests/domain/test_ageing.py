"""Who is looked at when, so that a tick costs nothing for those whose age can make no difference."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.ageing import Ageing


def test_a_thing_is_due_when_it_reaches_its_next_limit() -> None:
    """Once for each limit, and not after the last."""
    ageing = Ageing((30.0, 330.0))
    ageing.schedule("n1", 10.0, 100.0)
    assert ageing.pop_due(119.9) == []
    assert ageing.pop_due(120.0) == ["n1"]
    assert ageing.pop_due(500.0) == []

    ageing.schedule("n1", 30.0, 120.0)
    assert ageing.late == {"n1"}
    assert ageing.pop_due(420.0) == ["n1"]
    ageing.schedule("n1", 330.0, 420.0)
    assert ageing.pop_due(10_000.0) == []
    assert ageing.late == {"n1"}


def test_heartbeats_neither_pile_up_nor_make_it_miss_a_limit() -> None:
    """A look that turns out to be too early sets the next one."""
    ageing = Ageing((30.0, 330.0))
    for second in range(0, 1000, 10):
        ageing.schedule("n1", 0.0, float(second))
    assert ageing.pop_due(30.0) == ["n1"]
    ageing.schedule("n1", 0.0, 990.0)
    assert ageing.pop_due(1019.0) == []
    assert ageing.pop_due(1020.0) == ["n1"]


def test_what_is_forgotten_is_never_due_unless_it_comes_back() -> None:
    """A new life of the same name begins anew."""
    ageing = Ageing((30.0, 330.0))
    ageing.schedule("n1", 40.0, 0.0)
    ageing.forget("n1")
    assert ageing.late == set()
    assert ageing.pop_due(1000.0) == []

    ageing.schedule("n1", 0.0, 1000.0)
    assert ageing.pop_due(1030.0) == ["n1"]


@given(age=st.floats(0, 30, exclude_max=True), now=st.floats(0, 1e12))
def test_rounding_does_not_hold_a_tick_up_for_ever(age: float, now: float) -> None:
    """An age just below the limit may be due at this very moment by the clock's numbers, again and again."""
    ageing = Ageing((30.0,))
    ageing.schedule("n1", age, now)
    for name in ageing.pop_due(now):
        ageing.schedule(name, age, now)
    assert ageing.late == set()
