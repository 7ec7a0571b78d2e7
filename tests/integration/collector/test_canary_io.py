"""Canary files on real filesystems: full, read-only, in error, and hung."""

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.canary_io import CanaryIoProbe
from leadsman_health_collector.workers import WorkerPool

pytestmark = pytest.mark.integration

NODE = f"canary-{os.getpid()}"
KEY = StorageKey("nfs.csi.k8s.io", "10.0.0.9")


@contextlib.asynccontextmanager
async def canary_in(directory: Path):
    """A look at `directory`, as a function; ends with outcome and reason."""
    pool = WorkerPool(NODE, "boot-1", SystemClock())
    probe = CanaryIoProbe([(KEY, directory)], pool, 0.3, NODE)

    async def look():
        seen = await probe.look(str(directory))
        return seen.outcome, seen.reason

    try:
        yield pool, look
    finally:
        await pool.close()


def run(*command: str) -> None:
    subprocess.run(command, check=True)


@pytest.fixture
def small(stage):
    """A directory on a filesystem of 64 KiB and eight inodes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    point = stage.directory / "small"
    point.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=8", "tmpfs", str(point))
    (point / "canary").mkdir()
    return point / "canary"


async def test_many_looks_leave_no_file(tmp_path):
    """Nor does a failed one, as below."""
    async with canary_in(tmp_path) as (_, look):
        for _ in range(20):
            assert await look() == (Outcome.GOOD, None)
    assert list(tmp_path.iterdir()) == []


async def test_a_filesystem_without_room_is_full_not_broken(small):
    """By space, and by inodes."""
    async with canary_in(small) as (_, look):
        (small / "data").write_bytes(b"x" * (1 << 16))
        assert await look() == (Outcome.IMPAIRED, Reason.CAPACITY_LOW)
        (small / "data").unlink()
        assert await look() == (Outcome.GOOD, None)
        for n in range(6):
            (small / str(n)).touch()
        assert await look() == (Outcome.IMPAIRED, Reason.CAPACITY_LOW)
        assert len(list(small.iterdir())) == 6


async def test_a_read_only_filesystem_is_found_by_writing(small):
    """Whatever its options say."""
    async with canary_in(small) as (_, look):
        assert await look() == (Outcome.GOOD, None)
        run("mount", "-o", "remount,ro", str(small.parent))
        assert await look() == (Outcome.ERROR, Reason.READ_ONLY_FILESYSTEM)


async def test_an_unmounted_volume_is_not_mistaken_for_the_disk_below(small):
    """The directory lies on the volume, so without it there is none."""
    async with canary_in(small) as (_, look):
        assert await look() == (Outcome.GOOD, None)
        run("umount", str(small.parent))
        assert await look() == (Outcome.NOT_RUN, None)


@pytest.mark.usefixtures("can_mount")
async def test_a_hung_filesystem_costs_one_worker_and_errors_are_told_by_name(stage, until):
    """The same worker rules as for mounts."""
    point = stage.directory / "mount"
    mount = await stage.fuse_mount(point, "10.0.0.9:/export", "--hung")
    async with canary_in(point) as (pool, look):
        for _ in range(3):
            assert await look() == (Outcome.TIMEOUT, Reason.MOUNT_HUNG)
        assert (pool.stuck, pool.processes) == (1, 1)
        mount.send(signal.SIGUSR2)
        await until(lambda: pool.stuck == 0, "the worker comes back")
        mount.send(signal.SIGHUP)
        async with asyncio.timeout(5):  # until the signal has been obeyed
            while await look() != (Outcome.ERROR, Reason.STALE_FILE_HANDLE):
                pass
        mount.kill()
        assert await look() == (Outcome.ERROR, Reason.MOUNT_DISCONNECTED)
