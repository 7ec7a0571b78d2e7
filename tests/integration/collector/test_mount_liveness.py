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
from leadsman_health_collector.mountinfo import read_mounts
from leadsman_health_collector.orphans import find_orphans, worker_arguments
from leadsman_health_collector.plugin_sockets import scan_plugin_sockets
from leadsman_health_collector.probes.mount_liveness import MountLivenessProbe
from leadsman_health_collector.volumes import VolumeMap
from leadsman_health_collector.workers import WORKER, Overdue, Refused, WorkerPool

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("can_mount")]

NODE = f"node-{os.getpid()}"
BOOT = "boot-1"
NAME = "nfs.csi.k8s.io"
BACKEND = StorageKey(NAME, "10.0.0.9")
MOUNTINFO = Path("/proc/self/mountinfo")


def volume(stage, name: str) -> Path:
    """Where the kubelet mounts a CSI volume, with its file beside it."""
    folder: Path = stage.kubelet / "pods" / "0f0e" / "volumes" / "kubernetes.io~csi" / name
    folder.mkdir(parents=True)
    (folder / "vol_data.json").write_text(json.dumps({"driverName": NAME}))
    return folder / "mount"


def workers_out() -> int:
    """Mount workers of this test that exist, in whatever state."""
    return sum(
        all(part in line for part in (b"leadsman-mount-worker", NODE.encode()))
        for line in (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists())
    )


@contextlib.asynccontextmanager
async def pool_and_probe(stage):
    pool = WorkerPool(NODE, BOOT, SystemClock())
    try:
        yield pool, MountLivenessProbe(MOUNTINFO, VolumeMap(stage.kubelet), pool, 0.2)
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
        assert (pool.stuck, pool.running, workers_out()) == (1, 0, 1)
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


def leave_worker_behind(device: str, point: Path) -> None:
    """Start a worker from a process that ends at once, so that it is nobody's child but init's."""
    launch = "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)"
    worker = [sys.executable, "-I", "-S", str(WORKER), *worker_arguments(NODE, BOOT, device, str(point))]
    subprocess.run([sys.executable, "-c", launch, *worker], check=True)


async def test_workers_of_an_earlier_run_count_as_stuck_and_are_not_doubled(stage, until):
    """A collector that was killed leaves its worker behind; the next one must not add another."""
    point = volume(stage, "pv-1")
    mount = await stage.fuse_mount(point, "10.0.0.9:/export", "--hung")
    device = next(mount.device for mount in read_mounts(MOUNTINFO) if mount.mount_point == str(point))
    leave_worker_behind(device, point)
    await until(lambda: len(find_orphans(NODE, BOOT)) == 1, "the orphan waits")
    await asyncio.sleep(0.2)  # until its request has been read by the server, which nothing here can observe
    pool = WorkerPool(NODE, BOOT, SystemClock())
    for _ in range(3):
        assert isinstance(await pool.look(device, str(point), 0.2), Overdue)
    assert (pool.stuck, workers_out()) == (1, 1)
    assert WorkerPool("another-node", BOOT, SystemClock()).stuck == 0
    mount.send(signal.SIGUSR2)
    await until(lambda: find_orphans(NODE, BOOT) == [], "the orphan ends")
    assert not isinstance(await pool.look(device, str(point), 5), Overdue)
    assert pool.stuck == 0
    await pool.close()


async def test_no_worker_is_started_beyond_the_limit(stage, monkeypatch, until):
    """Whatever hangs, the node keeps its process table."""
    monkeypatch.setattr("leadsman_health_collector.workers.MAX_STUCK", 1)
    points = [volume(stage, f"pv-{n}") for n in range(2)]
    mounts = [await stage.fuse_mount(point, f"10.0.0.{n}:/e", "--hung") for n, point in enumerate(points)]
    async with pool_and_probe(stage) as (pool, _):
        assert isinstance(await pool.look("0:1", str(points[0]), 0.3), Overdue)
        assert isinstance(await pool.look("0:2", str(points[1]), 0.3), Refused)
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
