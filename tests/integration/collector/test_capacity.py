"""A real filesystem that fills up, seen through a real worker."""

import os
import subprocess
from pathlib import Path

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.capacity import shares
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.capacity import CapacityProbe
from leadsman_health_collector.probes.mount_liveness import MountLivenessProbe
from leadsman_health_collector.volumes import VolumeMap
from leadsman_health_collector.workers import WorkerPool

pytestmark = pytest.mark.integration

KEY = StorageKey("kubernetes.io/nfs", "10.0.0.9")


@pytest.fixture
def point(stage):
    """A volume of 400 KiB and 40 inodes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    point = stage.kubelet / "pods" / "0f0e" / "volumes" / "kubernetes.io~nfs" / "small"
    point.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k,nr_inodes=40", "tmpfs", str(point)], check=True)
    return point


def table_of(stage, point: Path) -> tuple[MountTable, str]:
    """What mountinfo would show if it were an NFS mount, and its superblock."""
    number = point.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    mountinfo = stage.directory / "mountinfo"
    mountinfo.write_text(f"36 35 {device} / {point} rw - nfs4 10.0.0.9:/export rw\n")
    return MountTable(mountinfo, VolumeMap(stage.kubelet), SystemClock()), device


async def test_a_filesystem_that_fills_up_by_space_and_by_inodes(stage, point):
    """The liveness probe brings the figures, the capacity probe judges them."""
    table, device = table_of(stage, point)
    pool = WorkerPool(f"capacity-{os.getpid()}", "boot-1", SystemClock())
    liveness = MountLivenessProbe(table, pool, 5.0)
    capacity = CapacityProbe(table, lambda: liveness.capacities)

    async def look():
        liveness.discover()
        capacity.discover()
        assert (await liveness.look(device)).outcome is Outcome.GOOD
        (name,) = capacity.choose(frozenset())
        seen = await capacity.look(name)
        return seen.outcome, seen.reason, seen.message

    assert await look() == (Outcome.GOOD, None, "")
    (point / "data").write_bytes(b"x" * (360 << 10))
    assert await look() == (Outcome.GOOD, None, "90 % of the space and 5 % of the inodes used")
    (point / "more").write_bytes(b"x" * (28 << 10))
    assert (await look())[:2] == (Outcome.IMPAIRED, Reason.CAPACITY_LOW)
    used, inodes_used = shares(liveness.capacities, table.latest)[KEY]
    assert used == pytest.approx(0.97)
    assert inodes_used == pytest.approx(3 / 40)
    (point / "data").unlink()
    assert await look() == (Outcome.GOOD, None, "")
    for n in range(38):
        (point / str(n)).touch()
    assert await look() == (Outcome.IMPAIRED, Reason.CAPACITY_LOW, "7 % of the space and 100 % of the inodes used")
    await pool.close()
