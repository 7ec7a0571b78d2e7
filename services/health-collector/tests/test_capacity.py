"""How full filesystems are, and when that is worth a word."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.capacity import Capacity, shares
from leadsman_health_collector.mountinfo import Mount
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.capacity import CapacityProbe
from leadsman_health_collector.volumes import VolumeMount

KEY = StorageKey("d", "b")


def filled(percent, inodes_percent=0):
    return Capacity(1000, 1000 - percent * 10, 1000, 1000 - inodes_percent * 10)


def mount(device="0:52", key=KEY, *options, super_options=("rw",)):
    places = tuple(Mount(1, 0, device, "/", "/x", "nfs4", "s:/e", (option,), super_options) for option in options)
    return VolumeMount(device, "/x", "nfs4", key, places, ("pv-1",))


@pytest.mark.parametrize(
    ("total", "available", "used"),
    [
        (1000, 250, 0.75),
        (1000, 0, 1.0),
        (1000, 1000, 0.0),
        (0, 0, None),
        (0, 5, None),
        (1000, 1001, None),
        (1000, (1 << 64) - 7, 1.0),
        (-1, 0, None),
    ],
)
def test_what_is_used_is_what_is_not_available(total, available, used):
    """Less than nothing may be left, and some filesystems tell nothing or nonsense."""
    assert Capacity(total, available, 0, 0).used == used
    assert Capacity(0, 0, total, available).inodes_used == used


def test_the_fullest_filesystem_of_a_key_speaks_for_it():
    """By space and by inodes apart; those that cannot be written, or are not mounted, have no say."""
    mounts = {
        "0:1": mount("0:1"),
        "0:2": mount("0:2"),
        "0:3": mount("0:3", StorageKey("e")),
        "0:4": mount("0:4", KEY, "ro"),
    }
    known = {
        "0:1": filled(50, 90),
        "0:2": filled(70, 10),
        "0:3": Capacity(0, 0, 0, 0),
        "0:4": filled(100),
        "0:5": filled(100),
    }
    found = shares(known, mounts)
    assert found == {KEY: (pytest.approx(0.7), pytest.approx(0.9)), StorageKey("e"): (None, None)}
    assert shares({}, mounts) == {}


class Table:
    """Mounts as told."""

    def __init__(self, *mounts):
        self.mounts = mounts

    def current(self):
        return {one.device: one for one in self.mounts}


class Stage:
    """The probe over one mount whose figures change."""

    def __init__(self, *mounts):
        self.table = Table(*mounts or [mount()])
        self.known = {}
        self.probe = CapacityProbe(self.table, lambda: self.known)

    async def look(self, capacity=None):
        if capacity is not None:
            self.known = {"0:52": capacity}
        self.probe.discover()
        return await self.probe.look("0:52")


async def test_low_at_95_percent_and_well_again_only_below_93():
    """Between the two, what was stays; from 85 % on people are told."""
    stage = Stage()
    found = [await stage.look(filled(percent)) for percent in (84, 85, 94, 95, 94, 93, 92, 94)]
    low = [one.outcome is Outcome.IMPAIRED for one in found]
    assert low == [False, False, False, True, True, True, False, False]
    assert [one.message for one in found[:2]] == ["", "85 % of the space and 0 % of the inodes used"]
    assert found[3].reason is Reason.CAPACITY_LOW


async def test_inodes_count_as_space_does():
    """A filesystem full of empty files is full."""
    seen = await Stage().look(filled(1, 99))
    assert (seen.outcome, seen.reason) == (Outcome.IMPAIRED, Reason.CAPACITY_LOW)
    assert seen.message == "1 % of the space and 99 % of the inodes used"


async def test_old_figures_are_not_judged_again():
    """While the mount does not answer, nobody knows; a new answer with the same figures is news."""
    stage = Stage()
    assert (await stage.look()).outcome is Outcome.NOT_RUN
    assert list(stage.probe.choose(frozenset())) == []
    assert (await stage.look(filled(50))).outcome is Outcome.GOOD
    assert list(stage.probe.choose(frozenset())) == []
    assert list(stage.probe.choose({"0:52"})) == ["0:52"]
    assert (await stage.look()).outcome is Outcome.NOT_RUN
    stage.known = {"0:52": filled(50)}
    assert list(stage.probe.choose(frozenset())) == ["0:52"]
    assert (await stage.look()).outcome is Outcome.GOOD


def test_a_source_is_every_superblock_that_somebody_can_fill():
    """Also before its first answer, so that an earlier run's finding is not dropped for want of a source."""
    stage = Stage(
        mount("0:52"),
        mount("0:53", KEY, "ro"),
        mount("0:54", KEY, "ro", "rw"),
        mount("0:55", KEY, "rw", super_options=("ro",)),
        mount("0:56"),
    )
    stage.known = {"0:56": Capacity(0, 0, 0, 0)}
    assert set(stage.probe.discover()) == set(stage.probe.sources()) == {"0:52", "0:54"}
    assert stage.probe.sources()["0:52"].volumes == ("pv-1",)


async def test_nothing_is_kept_of_what_was_unmounted():
    """Another filesystem under the same number starts afresh."""
    stage = Stage()
    await stage.look(filled(96))
    stage.table.mounts = ()
    stage.probe.discover()
    stage.table.mounts = (mount(),)
    assert (await stage.look(filled(94))).outcome is Outcome.GOOD
