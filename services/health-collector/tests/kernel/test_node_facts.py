"""Facts about disks, CPU and memory, and the table that lists all facts."""

import re
from pathlib import Path

import pytest

import leadsman_health_collector
from leadsman.domain.fact_table import FACTS
from leadsman_health_collector.probes.cpu_memory import FACTS as CPU_FACTS
from leadsman_health_collector.probes.cpu_memory import CpuMemoryProbe
from leadsman_health_collector.probes.diskstats import AWAIT, QUEUE, UTILIZATION, DiskstatsProbe
from leadsman_health_collector.probes.diskstats import FACTS as DISK_FACTS
from leadsman_health_collector.probes.pressure import FACTS as PRESSURE_FACTS

ROOT = "1:1 / / rw - ext4 /dev/root rw"


def disk(number: str, requests: int = 0, waited_ms: int = 0, busy_ms: int = 0, weighted_ms: int = 0) -> str:
    """A line of diskstats; half of the requests are reads."""
    half, wait = requests // 2, waited_ms // 2
    fields = [half, 0, 0, wait, requests - half, 0, 0, waited_ms - wait, 0, busy_ms, weighted_ms, 0, 0, 0, 0, 0, 0]
    return f"   {number.replace(':', ' ')} name {' '.join(map(str, fields))}\n"


@pytest.fixture
def disks(machine):
    machine.mount(ROOT, machine.staged("8:0"), machine.staged("0:52", volume="v2", fstype="nfs4"))
    return DiskstatsProbe(machine.table, machine.mountinfo, machine.proc, machine.clock)


async def read(probe, machine, *lines: str, after_s: float = 10.0):
    machine.clock.advance(after_s)
    machine.tell("diskstats", "".join(lines))
    return await probe.read()


async def test_the_worst_disk_of_volumes_and_root_counts(machine, disks):
    """Others are somebody else's."""
    assert await read(disks, machine, disk("8:0"), disk("1:1"), disk("9:9")) == {}
    busy = disk("8:0", 100, waited_ms=2_000, busy_ms=5_000, weighted_ms=20_000)
    slow = disk("1:1", 10, waited_ms=3_000, busy_ms=100, weighted_ms=3_000)
    other = disk("9:9", 10**6, 10**9, 10_000, 10**9)
    assert await read(disks, machine, busy, slow, other) == {UTILIZATION: 0.5, AWAIT: 0.3, QUEUE: 2.0}


async def test_figures_are_moving_averages_and_an_idle_disk_makes_nobody_wait(machine, disks):
    """One bad interval is not the whole story."""
    await read(disks, machine, disk("8:0"))
    await read(disks, machine, disk("8:0", 10, 1_000, 10_000, 10_000))
    facts = await read(disks, machine, disk("8:0", 10, 1_000, 10_000, 10_000))
    assert facts == {UTILIZATION: 0.7, AWAIT: 0.07, QUEUE: 0.7}


async def test_counters_that_fall_and_disks_that_come_back_are_no_spikes(machine, disks):
    """They wrap, or another disk has the number now."""
    await read(disks, machine, disk("8:0", 10, 1_000, 2**32 - 1, 500))
    assert await read(disks, machine, disk("8:0", 20, 2_000, 100, 600)) == {}
    assert await read(disks, machine) == {}
    assert await read(disks, machine, disk("8:0", 10**9, 10**9, 10**9, 10**9)) == {}
    facts = await read(disks, machine, disk("8:0", 10**9, 10**9, 10**9 + 60_000, 10**9))
    assert facts[UTILIZATION] == 1.0


@pytest.mark.parametrize("garbage", ["", "8 0\n", "8 0 sda " + "x " * 20, "8 0 sda " + "nan " * 20, "\x00\xff\n"])
async def test_garbage_in_diskstats_is_no_fact(machine, disks, garbage):
    """Nor an exception."""
    assert await read(disks, machine, garbage) == {}
    assert await read(disks, machine, garbage) == {}


async def test_diskstats_that_cannot_be_read_are_told(disks):
    """What was known before counts for a while."""
    with pytest.raises(FileNotFoundError):
        await disks.read()


def tell_cpu(machine, *, idle: int, busy: int) -> None:
    machine.tell("stat", f"cpu {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 1\ncpu1 1 1\nintr 5\n")
    machine.tell("loadavg", "3.00 1.00 0.50 2/94 1\n")
    machine.tell("meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n")


async def test_cpu_load_and_memory(machine):
    """Shares are 0-1, sizes bytes, load per CPU."""
    tell_cpu(machine, idle=1000, busy=1000)
    machine.tell("cpuinfo", "cpu MHz\t\t: 2445.422\ncpu MHz : 2000\n")
    probe = CpuMemoryProbe(machine.proc, machine.sys.root)
    assert "cpu.idle" not in await probe.read()
    tell_cpu(machine, idle=1750, busy=1250)
    assert await probe.read() == {
        "cpu.count": 2.0,
        "cpu.idle": 0.75,
        "cpu.mhz": 2445.0,
        "load.1m": 1.5,
        "load.5m": 0.5,
        "memory.totalBytes": 1_024_000.0,
        "memory.availableBytes": 256_000.0,
        "memory.availableShare": 0.25,
    }


async def test_the_highest_rate_that_cpufreq_allows_comes_before_the_present_one(machine):
    """A sleeping CPU is not a slow one; and it is asked for once."""
    tell_cpu(machine, idle=1, busy=1)
    machine.tell("cpuinfo", "cpu MHz : 800\n")
    machine.sys.write("devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "3500000")
    probe = CpuMemoryProbe(machine.proc, machine.sys.root)
    assert (await probe.read())["cpu.mhz"] == 3500.0
    machine.sys.write("devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "1")
    assert (await probe.read())["cpu.mhz"] == 3500.0


async def test_parts_that_are_garbage_are_left_out_and_nothing_at_all_is_an_error(machine):
    """A fact is right or absent."""
    tell_cpu(machine, idle=1, busy=1)
    machine.tell("loadavg", "nan")
    probe = CpuMemoryProbe(machine.proc, machine.sys.root)
    for nonsense in ("MemTotal: 9 kB\nMemAvailable: x kB\n", "MemTotal: 0 kB\nMemAvailable: 0 kB\n", "MemTotal:\n"):
        machine.tell("meminfo", nonsense)
        assert await probe.read() == {"cpu.count": 2.0}
    machine.tell("stat", "\x00")
    with pytest.raises(OSError, match="neither CPU nor load nor memory"):
        await probe.read()


async def test_counters_of_a_cpu_that_went_away_do_not_spoil_the_share(machine):
    """The sum over CPUs falls when one goes offline."""
    tell_cpu(machine, idle=1000, busy=1000)
    probe = CpuMemoryProbe(machine.proc, machine.sys.root)
    await probe.read()
    tell_cpu(machine, idle=500, busy=500)
    assert "cpu.idle" not in await probe.read()
    tell_cpu(machine, idle=400, busy=900)
    assert (await probe.read())["cpu.idle"] == 0.0


async def test_this_very_machine_tells_what_the_page_promises():
    """The files that the kernel under this test writes."""
    probe = CpuMemoryProbe(Path("/proc"), Path("/sys"))
    await probe.read()
    facts = await probe.read()
    assert set(facts) >= CPU_FACTS - {"cpu.idle", "cpu.mhz"}
    assert 0 < float(facts["memory.availableShare"]) <= 1


def offered() -> set[str]:
    """All names that the probes can give; those of the GPU are written in the worker that asks its driver."""
    package = Path(leadsman_health_collector.__file__).parent
    graphics = {name for file in package.rglob("gpu*.py") for name in re.findall(r'"(gpu\.\w+)"', file.read_text())}
    return {*CPU_FACTS, *DISK_FACTS, *PRESSURE_FACTS, *graphics}


def test_the_table_lists_every_fact_and_no_other():
    """Rules are checked against it, and docs/facts.md agrees with it."""
    assert set(FACTS) == offered()
