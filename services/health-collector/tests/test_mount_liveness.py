"""What the answers of workers say about a mount, and what is kept of them."""

import asyncio
import os

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.capacity import Capacity
from leadsman_health_collector.mount_worker import look, look_job
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.mount_liveness import MountLivenessProbe
from leadsman_health_collector.volumes import VolumeMount
from leadsman_health_collector.workers import Finished, Overdue, Refused

WELL = "ok 0:52 0.001 4096 1000 400 100 25"
KEY = StorageKey("d", "b")


class Pool:
    """Workers that answer as told."""

    def __init__(self):
        self.result = Finished(WELL)
        self.asked = []
        self.out = set()

    def is_out(self, place):
        return place in self.out

    async def run(self, place, job, deadline_s):
        self.asked.append((place, job, deadline_s))
        return Finished(self.result) if isinstance(self.result, str) else self.result

    def keep(self, devices):
        self.kept = set(devices)


class Table:
    """Mounts as told."""

    def __init__(self, *mounts):
        self.mounts = mounts

    def current(self):
        return {mount.device: mount for mount in self.mounts}


def mount(fstype="nfs4", path="/x", device="0:52"):
    return VolumeMount(device, path, fstype, KEY)


@pytest.fixture
def pool():
    return Pool()


def probe_of(pool, *mounts):
    probe = MountLivenessProbe(Table(*mounts or [mount()]), pool, 5.0)
    probe.discover()
    return probe


async def seen_after(pool, fstype, *answers):
    probe = probe_of(pool, mount(fstype))
    for answer in answers:
        pool.result = answer
        seen = await probe.look("0:52")
    return seen.outcome, seen.reason


@pytest.mark.parametrize(
    ("answer", "outcome", "reason"),
    [
        (WELL, Outcome.GOOD, None),
        ("ok 8:1 0.001 4096 1000 400 100 25", Outcome.NOT_RUN, None),
        ("error 116 stat", Outcome.ERROR, Reason.STALE_FILE_HANDLE),
        ("error 107 statvfs", Outcome.ERROR, Reason.MOUNT_DISCONNECTED),
        ("error 103 statvfs", Outcome.ERROR, Reason.MOUNT_DISCONNECTED),
        ("error 112 statvfs", Outcome.ERROR, Reason.MOUNT_DISCONNECTED),
        ("error 5 stat", Outcome.ERROR, Reason.MOUNT_IO_ERROR),
        ("error 110 statvfs", Outcome.ERROR, Reason.MOUNT_IO_ERROR),
        ("error 6 statvfs", Outcome.ERROR, Reason.MOUNT_IO_ERROR),
        ("error 2 stat", Outcome.NOT_RUN, None),
        ("error 36 statvfs", Outcome.NOT_RUN, None),
        ("error 12 statvfs", Outcome.NOT_RUN, None),
        ("error None statvfs", Outcome.NOT_RUN, None),
        ("error 99999999999999999999 statvfs", Outcome.NOT_RUN, None),
        ("ok 0:52", Outcome.NOT_RUN, None),
        ("ok 0:52 fast 1 2 3 4 5", Outcome.NOT_RUN, None),
        ("ok 0:52 0.001 4096 1000 400 100", Outcome.NOT_RUN, None),
        ("", Outcome.NOT_RUN, None),
        ("nonsense", Outcome.NOT_RUN, None),
        (Overdue(7.0), Outcome.TIMEOUT, Reason.MOUNT_HUNG),
        (Refused("16 are stuck"), Outcome.NOT_RUN, None),
    ],
)
async def test_what_a_worker_says(pool, answer, outcome, reason):
    """Another device means that something else is mounted; a look that was not had says nothing about storage."""
    assert await seen_after(pool, "nfs4", answer) == (outcome, reason)


@pytest.mark.parametrize("number", [13, 1, 126, 127, 128])
@pytest.mark.parametrize(
    ("fstype", "before", "revoked"),
    [
        ("nfs4", False, False),
        ("nfs4", True, True),
        ("fuse.juicefs", True, True),
        ("a-new-one", True, True),
        ("ceph", False, True),
        ("ext4", True, False),
    ],
)
async def test_a_denial_counts_only_where_access_was_there_before(pool, number, fstype, before, revoked):
    """root_squash, Kerberos and single-user FUSE deny root from the first day, while pods work well."""
    seen = await seen_after(pool, fstype, *[WELL] * before, f"error {number} stat")
    assert seen == ((Outcome.ERROR, Reason.ACCESS_REVOKED) if revoked else (Outcome.NOT_RUN, None))


async def test_a_blocklisted_ceph_client_has_lost_its_access(pool):
    """EBLOCKLISTED is ESHUTDOWN by another name, which elsewhere means that the server's side has gone."""
    assert await seen_after(pool, "ceph", "error 108 stat") == (Outcome.ERROR, Reason.ACCESS_REVOKED)
    assert await seen_after(pool, "fuse.x", "error 108 stat") == (Outcome.ERROR, Reason.MOUNT_DISCONNECTED)


async def test_subvolumes_have_device_numbers_of_their_own(pool):
    """btrfs is not mistaken for a foreign mount."""
    assert await seen_after(pool, "btrfs", WELL.replace("0:52", "0:99")) == (Outcome.GOOD, None)


async def test_the_figures_of_the_last_answer_are_kept_while_it_is_mounted(pool):
    """They outlive an error, but neither an unmount nor another filesystem with the same number."""
    table = Table(mount())
    probe = MountLivenessProbe(table, pool, 5.0)
    probe.discover()
    assert (await probe.look("0:52")).latency_s == 0.001
    pool.result = "error 5 stat"
    await probe.look("0:52")
    probe.discover()
    assert probe.capacities == {"0:52": Capacity(4096000, 1638400, 100, 25)}
    table.mounts = (mount(path="/y"),)
    probe.discover()
    assert probe.capacities == {}
    pool.result = WELL
    await probe.look("0:52")
    table.mounts = ()
    probe.discover()
    assert probe.capacities == {}
    assert (await probe.look("0:52")).outcome is Outcome.NOT_RUN


async def test_an_answer_for_what_was_unmounted_meanwhile_is_not_kept(pool):
    """The table grows no entries that nothing removes."""
    table = Table(mount())
    probe = MountLivenessProbe(table, pool, 5.0)
    probe.discover()
    ask = pool.run

    async def slowly(*arguments):
        table.mounts = ()
        probe.discover()
        return await ask(*arguments)

    pool.run = slowly
    await probe.look("0:52")
    assert probe.capacities == {}


async def test_a_worker_is_asked_by_superblock_and_told_every_byte_of_the_path(pool):
    """A path may hold blanks, newlines and bytes that are no text."""
    path = os.fsdecode(b"/a b\nc\xff")
    probe = probe_of(pool, mount(path=path))
    await probe.look("0:52")
    assert pool.asked == [("0:52", "look " + b"/a b\nc\xff".hex(), 5.0)]
    assert pool.kept == {"0:52"}


def test_the_worker_tells_device_figures_and_error(tmp_path):
    """The line that the probe reads; its job is plain ASCII without blanks but one."""
    device = tmp_path.stat().st_dev
    words = look(os.fsencode(tmp_path)).split()
    assert words[:2] == ["ok", f"{os.major(device)}:{os.minor(device)}"]
    room = os.statvfs(tmp_path)
    assert [words[3], words[4], words[6]] == [str(room.f_frsize), str(room.f_blocks), str(room.f_files)]
    assert look(os.fsencode(tmp_path / "absent")) == "error 2 statvfs"
    assert look_job("/a b").isascii()
    assert look_job("/a b").count(" ") == 1


def chosen_in_turns(pool, number, bad, turns):
    """What is looked at in each of `turns` rounds, of `number` mounts of which the first `bad` are suspect."""
    mounts = [mount(device=f"0:{100 + n}") for n in range(number)]
    probe = probe_of(pool, *mounts)
    return [probe.choose({one.device for one in mounts[:bad]}) for _ in range(turns)]


@pytest.mark.parametrize(("number", "bad"), [(20, 10), (20, 0), (20, 20), (9, 8), (8, 8), (3, 1)])
def test_every_mount_has_its_turn_however_many_are_bad(pool, number, bad):
    """A new fault among many old ones is found, and an old one that is mended is seen."""
    rounds = chosen_in_turns(pool, number, bad, 5)
    assert {device for chosen in rounds for device in chosen} == {f"0:{100 + n}" for n in range(number)}
    assert all(len(chosen) == len(set(chosen)) <= 8 for chosen in rounds)


def test_mounts_whose_worker_is_out_cost_nothing_and_take_nobodys_place(pool):
    """To ask for them again starts nothing."""
    pool.out = {"0:100", "0:101"}
    (chosen,) = chosen_in_turns(pool, 20, 2, 1)
    assert pool.out < set(chosen)
    assert len(chosen) == len(set(chosen)) == 8
    rounds = chosen_in_turns(pool, 20, 10, 9)
    assert {device for chosen in rounds for device in chosen} == {f"0:{100 + n}" for n in range(20)}


@pytest.mark.parametrize("out", range(9))
def test_no_round_can_leave_more_than_half_of_the_workers_stuck_on_one_backend(pool, out):
    """Should all that are tried hang."""
    pool.out = {f"0:{100 + n}" for n in range(out)}
    assert all(pool.out <= set(chosen) and len(chosen) == 8 for chosen in chosen_in_turns(pool, 20, 10, 5))
    others = [mount(device=f"0:{100 + n}") for n in range(10)]
    elsewhere = [VolumeMount(f"0:{n}", "/y", "nfs4", StorageKey("d", "other")) for n in range(9)]
    assert len(probe_of(pool, *others, *elsewhere).choose(())) == 16


def test_a_dead_backend_leaves_workers_for_other_storage(pool):
    """Once it holds up eight of them no more of its mounts are tried."""
    pool.out = {f"0:{100 + n}" for n in range(10)}
    (chosen,) = chosen_in_turns(pool, 20, 8, 1)
    assert set(chosen) == pool.out


async def test_looks_that_wait_for_their_turn_count_as_those_whose_worker_is_out(pool):
    """They may hang as well, and the next round must not add to them."""
    never = asyncio.Event()

    async def hang(place, job, deadline_s):
        await never.wait()
        return Finished(WELL)

    pool.run = hang
    probe = probe_of(pool, *[mount(device=f"0:{100 + n}") for n in range(20)])
    first = set(probe.choose(()))
    looks = [asyncio.create_task(probe.look(device)) for device in first]
    await asyncio.sleep(0)
    assert set(probe.choose(())) == first
    never.set()
    await asyncio.gather(*looks)
    assert set(probe.choose(())) != first
