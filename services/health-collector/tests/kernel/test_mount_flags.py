"""What the options of a mount and ext4's error counter say about a volume."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.mount_flags import MountFlagsProbe

KEY = StorageKey("disk.example.com")
GOOD = (Outcome.GOOD, None)
READ_ONLY = Reason.READ_ONLY_FILESYSTEM


@pytest.fixture
def probe(machine):
    return MountFlagsProbe(machine.table, machine.sys.root, machine.clock)


async def seen(probe, machine, *lines: str, name: str = "8:0"):
    machine.mount(*lines)
    probe.discover()
    found = await probe.look(name)
    return (found.outcome, found.reason)


@pytest.mark.parametrize(
    ("options", "superblock", "expected"),
    [
        ("rw,relatime", "rw,errors=remount-ro", GOOD),
        ("ro,relatime", "rw", GOOD),
        ("ro,relatime", "ro", GOOD),
        ("rw,relatime", "ro", (Outcome.ERROR, READ_ONLY)),
        ("rw,relatime", "rw,emergency_ro", (Outcome.ERROR, READ_ONLY)),
        ("ro,relatime", "ro,emergency_ro", (Outcome.ERROR, READ_ONLY)),
        ("rw,relatime", "rw,shutdown", (Outcome.ERROR, Reason.MOUNT_IO_ERROR)),
        ("rw,relatime", "", (Outcome.NOT_RUN, None)),
        ("rw,relatime", "\x07\\777,errors=ro,rwx", (Outcome.NOT_RUN, None)),
    ],
)
async def test_options_of_mount_point_and_superblock(probe, machine, options, superblock, expected):
    """Read-only by intent is read-only at a mount point, too; anything else is trouble, also after a restart."""
    assert await seen(probe, machine, machine.staged("8:0", options, superblock)) == expected


async def test_a_filesystem_that_can_only_be_read_is_no_trouble(probe, machine):
    """An image mounted without `ro` shows `rw` at its mount point."""
    for _ in range(2):
        assert await seen(probe, machine, machine.staged("8:0", "rw", "ro", fstype="squashfs")) == GOOD


async def test_a_volume_that_is_staged_read_only_may_be_published_read_write(probe, machine):
    """A bind mount says `rw` whatever the volume is; unless it was writable before, it is meant to be as it is."""
    pod = machine.in_pod("8:0", "rw", "ro")
    assert await seen(probe, machine, machine.staged("8:0", "ro", "ro"), pod) == GOOD
    assert await seen(probe, machine, machine.staged("8:0"), machine.in_pod("8:0")) == GOOD
    assert await seen(probe, machine, machine.staged("8:0", "ro", "ro"), pod) == (Outcome.ERROR, READ_ONLY)


@pytest.mark.parametrize("beside", ["rw", "ro"])
async def test_a_filesystem_that_was_writable_and_no_longer_is_though_its_mount_is(probe, machine, beside):
    """Older kernels show an error so; another pod's read-only mount of it does not hide it."""
    before = (machine.staged("8:0"), machine.in_pod("8:0", beside))
    assert await seen(probe, machine, *before) == GOOD
    after = (machine.staged("8:0", "rw", "ro"), machine.in_pod("8:0", beside, "ro"))
    assert await seen(probe, machine, *after) == (Outcome.ERROR, READ_ONLY)
    assert await seen(probe, machine, *before) == GOOD


async def test_that_it_was_writable_is_remembered_also_of_one_that_was_bad(probe, machine):
    """The staging mount was read-only; now the filesystem is."""
    before = (machine.staged("8:0", "ro", "rw"), machine.in_pod("8:0"))
    assert await seen(probe, machine, *before) == (Outcome.IMPAIRED, READ_ONLY)
    after = (machine.staged("8:0", "ro", "ro"), machine.in_pod("8:0", "rw", "ro"))
    assert await seen(probe, machine, *after) == (Outcome.ERROR, READ_ONLY)


async def test_an_error_counted_before_we_started_is_told_of_a_read_only_filesystem(probe, machine):
    """It may be meant to be read-only, or have been turned so: the counter knows."""
    machine.sys.block("8:0", "devices/virtual/block/sda")
    machine.sys.ext4("sda", 1, machine.clock.epoch() - 60)
    assert await seen(probe, machine, machine.staged("8:0", "ro", "ro")) == (Outcome.ERROR, Reason.FILESYSTEM_ERRORS)


async def test_a_remount_of_all_of_it_impairs_and_is_over_with_a_remount(probe, machine):
    """Somebody did it on purpose, perhaps; the pods cannot write all the same."""
    assert await seen(probe, machine, machine.staged("8:0")) == GOOD
    assert await seen(probe, machine, machine.staged("8:0", "ro", "ro")) == (Outcome.IMPAIRED, READ_ONLY)
    assert await seen(probe, machine, machine.staged("8:0")) == GOOD


async def test_a_read_only_volume_that_gets_the_number_of_a_writable_one_is_no_trouble(probe, machine):
    """Device numbers are used again at once; what was there before is another filesystem."""
    assert await seen(probe, machine, machine.staged("0:52", fstype="nfs4"), name="0:52") == GOOD
    other = machine.staged("0:52", "ro", "ro", volume="v2", fstype="nfs4")
    assert await seen(probe, machine, other, name="0:52") == GOOD


async def test_a_staging_mount_that_is_read_only_while_the_pod_writes(probe, machine):
    """The next pod would get what the staging mount is."""
    writing = machine.in_pod("8:0")
    assert await seen(probe, machine, machine.staged("8:0"), machine.in_pod("8:0", "ro")) == GOOD
    assert await seen(probe, machine, machine.staged("8:0", "ro", "rw"), writing) == (Outcome.IMPAIRED, READ_ONLY)
    below = machine.staged("8:0", "ro", "rw").replace("/globalmount", "/globalmount/0001-0009")
    assert await seen(probe, machine, below, writing) == (Outcome.IMPAIRED, READ_ONLY)


async def test_an_error_that_ext4_counts_is_bad_for_ten_minutes_and_remembered_for_a_day(probe, machine):
    """Also while everything says `rw`; and it clears by itself, because the count never does."""
    machine.sys.block("8:0", "devices/virtual/block/sda")
    machine.sys.ext4("sda", 0)
    assert await seen(probe, machine, machine.staged("8:0")) == GOOD
    machine.sys.ext4("sda", 1, machine.clock.epoch())
    failing = (Outcome.ERROR, Reason.FILESYSTEM_ERRORS)
    assert await seen(probe, machine, machine.staged("8:0")) == failing
    machine.clock.advance(590)
    assert await seen(probe, machine, machine.staged("8:0")) == failing
    machine.clock.advance(60)
    assert await seen(probe, machine, machine.staged("8:0")) == (Outcome.IMPAIRED, Reason.FILESYSTEM_ERRORS)
    machine.sys.ext4("sda", 2, machine.clock.epoch())
    assert await seen(probe, machine, machine.staged("8:0")) == failing
    machine.clock.advance(90_000)
    assert await seen(probe, machine, machine.staged("8:0")) == GOOD


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [(60, Outcome.ERROR), (3600, Outcome.IMPAIRED), (90_000, Outcome.GOOD), (-3600, Outcome.IMPAIRED)],
)
async def test_errors_from_before_we_started_count_by_their_age(probe, machine, age_s, expected):
    """A restart of the collector changes nothing; of a time in the future nobody knows how long ago it was."""
    machine.sys.block("8:0", "devices/virtual/block/sda")
    machine.sys.ext4("sda", 3, machine.clock.epoch() - age_s)
    assert (await seen(probe, machine, machine.staged("8:0")))[0] is expected


async def test_a_rise_that_we_saw_counts_whatever_the_wall_clock_says(probe, machine):
    """The node's clock may have jumped between the error and now."""
    machine.sys.block("8:0", "devices/virtual/block/sda")
    machine.sys.ext4("sda", 1, 0)
    assert await seen(probe, machine, machine.staged("8:0")) == GOOD
    machine.sys.ext4("sda", 2, machine.clock.epoch() + 1e6)
    assert (await seen(probe, machine, machine.staged("8:0")))[0] is Outcome.ERROR
    machine.clock.advance(700)
    assert (await seen(probe, machine, machine.staged("8:0")))[0] is Outcome.IMPAIRED


@pytest.mark.parametrize("garbage", ["", "many", "nan", "9" * 5000, "\x00\xff"])
async def test_a_counter_that_is_garbage_is_no_verdict(probe, machine, garbage):
    """Neither good nor bad; but flags that are bad stay bad."""
    machine.sys.block("8:0", "devices/virtual/block/sda")
    machine.sys.write("fs/ext4/sda/errors_count", garbage)
    assert await seen(probe, machine, machine.staged("8:0")) == (Outcome.NOT_RUN, None)
    assert await seen(probe, machine, machine.staged("8:0", "rw", "ro")) == (Outcome.ERROR, READ_ONLY)


async def test_the_volumes_that_stand_or_fall_with_a_superblock_are_told(probe, machine):
    """One bad volume is not a bad driver."""
    machine.mount(machine.staged("8:0"), machine.in_pod("8:0", volume="pv-1"))
    assert list(probe.discover()) == ["8:0"]
    assert (probe.sources()["8:0"].key, probe.sources()["8:0"].volumes) == (KEY, ("pv-1",))


async def test_what_is_unmounted_or_cannot_be_told_is_no_verdict(probe, machine):
    """And a list of mounts that cannot be read is trouble for discovery, as everywhere."""
    assert await seen(probe, machine, machine.staged("8:0", "rw", "rw,emergency_ro")) == (Outcome.ERROR, READ_ONLY)
    machine.mount()
    assert (await probe.look("8:0")).outcome is Outcome.NOT_RUN
    machine.clock.advance(2)
    machine.mountinfo.unlink()
    assert (await probe.look("8:0")).outcome is Outcome.NOT_RUN
    with pytest.raises(FileNotFoundError):
        probe.discover()
