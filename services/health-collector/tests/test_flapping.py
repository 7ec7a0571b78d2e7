"""Storage that keeps changing its state."""

from itertools import cycle

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.flapping import Damping, FlapDamper
from leadsman_health_collector.strikes import Level

KEY = StorageKey("d", "b")
GOOD = Level(State.HEALTHY)
BAD = Level(State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
UNKNOWN = Level(State.UNKNOWN, Reason.NOT_OBSERVED)


class Link:
    """One storage whose raw level is fed to a damper."""

    def __init__(self) -> None:
        self.damper = FlapDamper(Damping())

    def at(self, now: float, level: Level) -> tuple[State, Reason | None]:
        shown = self.damper.level(KEY, level, now)
        return shown.state, shown.reason


def test_two_changes_are_an_outage_and_the_third_is_flapping():
    """A break that is mended is shown as mended at once."""
    link = Link()
    assert link.at(0, GOOD) == (State.HEALTHY, None)
    assert link.at(10, BAD) == (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
    assert link.at(20, GOOD) == (State.HEALTHY, None)
    assert link.at(30, BAD) == (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
    assert link.at(40, GOOD) == (State.DEGRADED, Reason.FLAPPING)


def test_a_way_down_through_degraded_is_one_change():
    """A driver that vanishes is degraded before it is unhealthy; its return is shown at once."""
    link = Link()
    degraded = Level(State.DEGRADED, Reason.DRIVER_SOCKET_MISSING)
    for now, level in ((0, GOOD), (10, degraded), (20, BAD), (30, degraded)):
        link.at(now, level)
    assert link.at(40, GOOD) == (State.HEALTHY, None)


def test_what_is_down_is_down_also_while_it_flaps():
    """Damping holds back good news, never bad ones."""
    link = Link()
    for now, level in zip(range(0, 60, 10), cycle([GOOD, BAD]), strict=False):
        shown = link.at(now, level)
        if level is BAD:
            assert shown == (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)


def test_it_is_held_for_five_minutes_after_the_last_change():
    """And not a moment longer."""
    link = Link()
    for now, level in ((0, GOOD), (10, BAD), (20, GOOD), (30, BAD), (40, GOOD)):
        link.at(now, level)
    assert link.at(339, GOOD) == (State.DEGRADED, Reason.FLAPPING)
    assert link.at(341, GOOD) == (State.HEALTHY, None)


def test_each_relapse_doubles_the_time_up_to_half_an_hour():
    """A link that cannot be trusted is trusted less each time."""
    link, now, holds = Link(), 0.0, []
    for _ in range(5):
        for level in (GOOD, BAD, GOOD, BAD, GOOD):
            now += 10
            link.at(now, level)
        begin = now
        while link.at(now, GOOD)[0] is State.DEGRADED:
            now += 10
        holds.append(now - begin)
    assert holds == [300, 600, 1200, 1800, 1800]


def test_changes_that_are_far_apart_are_not_flapping():
    """Three outages in an hour are three outages."""
    link = Link()
    for now, level in zip(range(0, 3600, 400), cycle([GOOD, BAD]), strict=False):
        assert link.at(now, level)[1] is not Reason.FLAPPING


def test_not_knowing_is_no_change():
    """A collector that starts late or is blind for a while makes nothing flap."""
    link = Link()
    for now, level in zip(range(0, 100, 10), cycle([GOOD, UNKNOWN]), strict=False):
        assert link.at(now, level)[1] is not Reason.FLAPPING


def test_what_is_gone_is_forgotten():
    """Memory does not grow with storage that comes and goes."""
    link = Link()
    for now, level in ((0, GOOD), (10, BAD), (20, GOOD), (30, BAD)):
        link.at(now, level)
    link.damper.keep(set())
    assert link.at(40, GOOD) == (State.HEALTHY, None)


def test_only_what_seems_well_is_held():
    """Not knowing, and a driver that is not meant for the node, are no good news and stay what they are."""
    link = Link()
    for now, level in ((0, GOOD), (10, BAD), (20, GOOD), (30, BAD)):
        link.at(now, level)
    gone = Level(State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING)
    assert link.at(40, UNKNOWN) == (State.UNKNOWN, Reason.NOT_OBSERVED)
    assert link.at(50, gone) == (State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING)
    assert link.at(60, GOOD) == (State.DEGRADED, Reason.FLAPPING)
