"""A real mount that hangs such that not even SIGKILL ends who looks at it."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.capacity import Capacity
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.mount_worker import look_job
from leadsman_health_collector.mountinfo import read_mounts
from leadsman_health_collector.orphans import MARKER, find_orphans, worker_arguments
from leadsman_health_collector.plugin_sockets import scan_plugin_sockets
from leadsman_health_collector.probes.gpu import GpuProbe
from leadsman_health_collector.probes.mount_liveness import MountLivenessProbe
from leadsman_health_collector.volumes import VolumeMap
from leadsman_health_collector.workers import WORKER, Finished, Overdue, Refused, WorkerPool

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("can_mount")]

NODE = f"node-{os.getpid()}"
BOOT = "boot-1"
NAME = "nfs.csi.k8s.io"
BACKEND = StorageKey(NAME, "10.0.0.9")
MOUNTINFO = Path("/proc/self/mountinfo")


def volume_path(stage, name: str) -> Path:
    """Where the kubelet mounts a CSI volume."""
    folder: Path = stage.kubelet / "pods" / "0f0e" / "volumes" / "kubernetes.io~csi" / name
    return folder / "mount"


def volume(stage, name: str) -> Path:
    """The same, with the driver's file beside it."""
    point = volume_path(stage, name)
    point.parent.mkdir(parents=True)
    (point.parent / "vol_data.json").write_text(json.dumps({"driverName": NAME}))
    return point


def workers() -> list[Path]:
    """Workers of this test that exist, in whatever state."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes().split(b"\0")
            if MARKER.encode() in line and NODE.encode() in line:
                found.append(process)
    return found


def workers_out() -> int:
    """How many there are."""
    return len(workers())


def names_of_workers() -> set[str]:
    """What they are called."""
    return {(process / "comm").read_text().strip() for process in workers()}


@contextlib.asynccontextmanager
async def pool_and_probe(stage):
    pool = WorkerPool(NODE, BOOT, SystemClock())
    try:
        table = MountTable(MOUNTINFO, VolumeMap(stage.kubelet), SystemClock())
        yield pool, MountLivenessProbe(table, pool, 0.2)
    finally:
        await pool.close()


async def test_a_hung_mount_costs_one_worker_however_long_and_heals(stage, watch, until):
    """The issue's promise: workers never pile up, the collector stays responsive, recovery is seen."""
    mount = await stage.fuse_mount(volume(stage, "pv-1"), "10.0.0.9:/export")
    await stage.fuse_mount(volume(stage, "pv-2"), "10.0.0.8:/export")
    other = StorageKey(NAME, "10.0.0.8")
    async with pool_and_probe(stage) as (pool, probe), watch(probe).running() as seen:
        await seen.until(BACKEND, State.HEALTHY)
        mount.send(signal.SIGUSR1)
        await seen.until(BACKEND, State.UNHEALTHY, Reason.MOUNT_HUNG)
        worst_lag = await lag_while(lambda: seen.more_rounds(8))
        assert (pool.stuck, pool.running, pool.processes, workers_out()) == (1, 0, 2, 2), "one is stuck, one at work"
        assert names_of_workers() == {"leadsman-idle", f"lm {device_of(volume_path(stage, 'pv-1'))}"}
        assert worst_lag < 1, "the event loop must not wait for the mount"
        assert seen.brief(other) == (State.HEALTHY, None)
        assert "no answer for" in seen.statuses()[BACKEND].message
        mount.send(signal.SIGUSR2)
        await seen.until(BACKEND, State.HEALTHY)
        assert pool.stuck == 0
    await until(lambda: workers_out() == 0, "every worker ends")


async def lag_while(work) -> float:
    """The longest time for which the event loop did not come round while `work` ran."""
    worst = 0.0
    task = asyncio.ensure_future(work())
    while not task.done():
        begin = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - begin - 0.01)
    await task
    return worst


async def test_a_frozen_server_hangs_a_worker_that_can_be_killed(stage, watch, until):
    """As with a kernel NFS wait: each round has its worker, and none is left."""
    mount = await stage.fuse_mount(volume(stage, "pv-1"), "10.0.0.9:/export")
    async with pool_and_probe(stage) as (pool, probe), watch(probe).running() as seen:
        await seen.until(BACKEND, State.HEALTHY)
        mount.send(signal.SIGSTOP)
        await seen.until(BACKEND, State.UNHEALTHY, Reason.MOUNT_HUNG)
        await until(lambda: pool.stuck == 0, "the killed worker is gone")
        mount.send(signal.SIGCONT)
        await seen.until(BACKEND, State.HEALTHY)


async def test_error_codes_degrade_a_backend_with_one_bad_mount_and_condemn_it_with_all(stage, watch):
    """ESTALE on one volume: new mounts usually work."""
    first = await stage.fuse_mount(volume(stage, "pv-1"), "10.0.0.9:/a")
    second = await stage.fuse_mount(volume(stage, "pv-2"), "10.0.0.9:/b")
    async with pool_and_probe(stage) as (_, probe), watch(probe).running() as seen:
        await seen.until(BACKEND, State.HEALTHY)
        first.send(signal.SIGHUP)
        await seen.until(BACKEND, State.DEGRADED, Reason.STALE_FILE_HANDLE)
        second.kill()
        await seen.until(BACKEND, State.UNHEALTHY, reason=Reason.MOUNT_DISCONNECTED)
        first.send(signal.SIGUSR2)
        await seen.until(BACKEND, State.DEGRADED, Reason.MOUNT_DISCONNECTED)


async def test_a_server_that_dies_frees_whoever_waits_for_it(stage, watch, until):
    """Late errors are errors: the stuck worker goes, and the next look finds out why."""
    mount = await stage.fuse_mount(volume(stage, "pv-1"), "10.0.0.9:/export")
    async with pool_and_probe(stage) as (pool, probe), watch(probe).running() as seen:
        await seen.until(BACKEND, State.HEALTHY)
        mount.send(signal.SIGUSR1)
        await until(lambda: pool.stuck == 1, "a worker is stuck")
        mount.kill()
        await seen.until(BACKEND, State.DEGRADED, Reason.MOUNT_DISCONNECTED)
        assert pool.stuck == 0


async def test_io_errors_are_told_and_a_slow_answer_is_an_answer(stage, watch):
    """Slow within the deadline is slow, no more; capacity comes with every answer."""
    mount = await stage.fuse_mount(volume(stage, "pv-1"), "10.0.0.9:/export", "--error", "EIO", "--delay", "0.12")
    async with pool_and_probe(stage) as (pool, probe), watch(probe).running() as seen:
        await seen.until(BACKEND, State.DEGRADED, Reason.MOUNT_IO_ERROR)
        assert probe.capacities == {}
        mount.send(signal.SIGRTMIN)
        await seen.until(BACKEND, State.HEALTHY)
        assert seen.statuses()[BACKEND].latency_s >= 0.12
        assert list(probe.capacities.values()) == [Capacity(4 << 30, 2 << 30, 1000, 500)]
        assert (pool.stuck, pool.processes) == (0, 1)


def device_of(point: Path) -> str:
    return next(mount.device for mount in read_mounts(MOUNTINFO) if mount.mount_point == str(point))


def leave_worker_behind(place: str, point: Path) -> None:
    """Start a worker from a process that ends at once, so that it is nobody's child but init's."""
    launch = (
        "import socket, subprocess, sys\n"
        "ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "subprocess.Popen(sys.argv[2:], stdin=theirs)\n"
        "ours.send(sys.argv[1].encode())"
    )
    worker = [sys.executable, "-I", "-S", str(WORKER), *worker_arguments(NODE, BOOT)]
    subprocess.run([sys.executable, "-c", launch, f"{place} {look_job(str(point))}", *worker], check=True)


async def leave_stuck(place: str, point: Path, until) -> None:
    """As above, and wait until nothing can end it."""
    leave_worker_behind(place, point)
    await until(lambda: len(find_orphans(NODE, BOOT)) == 1, "the orphan waits")
    await asyncio.sleep(0.2)  # until its request has been read by the server, which nothing here can observe


async def test_workers_of_an_earlier_run_count_as_stuck_and_are_not_doubled(stage, until):
    """A collector that was killed leaves its worker behind; the next one must not add another."""
    point = volume(stage, "pv-1")
    mount = await stage.fuse_mount(point, "10.0.0.9:/export", "--hung")
    device = device_of(point)
    await leave_stuck(device, point, until)
    pool = WorkerPool(NODE, BOOT, SystemClock())
    for _ in range(3):
        assert isinstance(await pool.run(device, look_job(str(point)), 0.2), Overdue)
    assert (pool.stuck, pool.processes, workers_out(), pool.is_out(device)) == (1, 0, 1, True)
    assert WorkerPool("another-node", BOOT, SystemClock()).stuck == 0
    mount.send(signal.SIGUSR2)
    await until(lambda: find_orphans(NODE, BOOT) == [], "the orphan ends")
    assert isinstance(await pool.run(device, look_job(str(point)), 5), Finished)
    assert (pool.stuck, pool.is_out(device)) == (0, False)
    await pool.close()


async def test_an_orphan_that_nobody_has_killed_ends_by_itself_once_it_is_answered(stage, until):
    """Its collector was killed before the deadline, and there is no next one."""
    point = volume(stage, "pv-1")
    mount = await stage.fuse_mount(point, "10.0.0.9:/export", "--hung")
    await leave_stuck("0:1", point, until)
    mount.send(signal.SIGUSR2)
    await until(lambda: workers_out() == 0, "the orphan ends")


async def test_a_gpu_worker_of_an_earlier_run_that_cannot_be_ended_means_a_hanging_driver(stage, until):
    """A monitor that restarts must not block on the same call and keep silent; a mount plays the driver here."""
    point = volume(stage, "pv-1")
    mount = await stage.fuse_mount(point, "10.0.0.9:/export", "--hung")
    await leave_stuck("gpu", point, until)
    probe = GpuProbe(NODE, BOOT, 0.2, proc=stage.directory, dev=stage.directory)
    assert await probe.read() == {"gpu.responding": 0}
    mount.send(signal.SIGUSR2)
    await until(lambda: workers_out() == 0, "the orphan ends")
    assert await probe.read() == {}


async def test_no_worker_is_started_beyond_the_limit(stage, monkeypatch, until):
    """Whatever hangs, the node keeps its process table."""
    monkeypatch.setattr("leadsman_health_collector.workers.MAX_STUCK", 1)
    points = [volume(stage, f"pv-{n}") for n in range(2)]
    mounts = [await stage.fuse_mount(point, f"10.0.0.{n}:/e", "--hung") for n, point in enumerate(points)]
    async with pool_and_probe(stage) as (pool, _):
        assert isinstance(await pool.run("0:1", look_job(str(points[0])), 0.3), Overdue)
        assert isinstance(await pool.run("0:2", look_job(str(points[1])), 0.3), Refused)
        assert pool.stuck == 1
        for mount in mounts:
            mount.send(signal.SIGUSR2)
        await until(lambda: pool.stuck == 0, "the worker comes back")


async def test_plugin_directories_with_a_hung_mount_on_them_are_not_entered(stage, watch):
    """Listing one would hang the collector for ever, so a failure of this test may well be a hang."""
    (stage.kubelet / "plugins" / "good").mkdir(parents=True)
    (stage.kubelet / "plugins" / "good" / "csi.sock").touch()
    await stage.fuse_mount(stage.kubelet / "plugins" / "trap", "10.0.0.9:/a", "--hung")
    await stage.fuse_mount(stage.kubelet / "plugins" / "vendor" / "trap", "10.0.0.9:/b", "--hung")
    found = await asyncio.wait_for(asyncio.to_thread(scan_plugin_sockets, stage.kubelet), 5)
    assert found.sockets == {f"{stage.kubelet}/plugins/good/csi.sock"}
