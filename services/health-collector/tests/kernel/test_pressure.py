"""Pressure stall information, as facts and as a verdict on local disks."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.io_pressure import IoPressureProbe
from leadsman_health_collector.probes.pressure import FACTS, PressureProbe
from leadsman_health_collector.strikes import SourceHealth

KEY = StorageKey("disk.example.com")


def text(some: tuple[float, float], full: tuple[float, float], total_us: int = 0) -> str:
    return (
        f"some avg10={some[0]:.2f} avg60={some[1]:.2f} avg300=0.00 total={total_us * 2}\n"
        f"full avg10={full[0]:.2f} avg60={full[1]:.2f} avg300=0.00 total={total_us}\n"
    )


def full(avg10: float, avg60: float) -> str:
    return text((99.0, 99.0), (avg10, avg60))


async def test_facts_are_shares_and_the_exact_share_is_of_the_time_since_the_last_read(machine):
    """The first read has nothing to compare with."""
    for resource in ("io", "memory", "cpu"):
        machine.tell(f"pressure/{resource}", text((12.5, 6.0), (3.0, 1.5), 1_000_000))
    probe = PressureProbe(machine.proc, machine.clock)
    first = await probe.read()
    assert first["pressure.io.someAvg10"] == 0.125
    assert first["pressure.memory.fullAvg60"] == 0.015
    assert "pressure.io.someShare" not in first
    machine.clock.advance(10)
    machine.tell("pressure/io", text((12.5, 6.0), (3.0, 1.5), 3_000_000))
    second = await probe.read()
    assert (second["pressure.io.someShare"], second["pressure.io.fullShare"]) == (0.4, 0.2)
    assert second["pressure.cpu.someShare"] == 0.0
    assert set(second) == FACTS


async def test_a_total_that_falls_or_jumps_is_no_share_above_one(machine):
    """Whatever the kernel does to its counters."""
    machine.tell("pressure/io", text((0, 0), (0, 0), 9_000_000))
    probe = PressureProbe(machine.proc, machine.clock)
    await probe.read()
    machine.clock.advance(10)
    machine.tell("pressure/io", text((0, 0), (0, 0), 1_000_000))
    assert "pressure.io.fullShare" not in await probe.read()
    machine.clock.advance(1)
    machine.tell("pressure/io", text((0, 0), (0, 0), 90_000_000))
    assert (await probe.read())["pressure.io.fullShare"] == 1.0


@pytest.mark.parametrize(
    "garbage", ["", "some\n", "full avg10=nan avg60=1 total=2", "full avg10=1 total=" + "9" * 5000, "\x00=\xff=\n=="]
)
async def test_garbage_is_no_fact_and_no_verdict(machine, garbage):
    """Nor an exception."""
    machine.mount(machine.staged("8:0"))
    machine.tell("pressure/io", garbage)
    assert await PressureProbe(machine.proc, machine.clock).read() == {}
    probe = IoPressureProbe(machine.table, machine.proc)
    assert list(probe.discover()) == ["disk.example.com"]  # it stays a source, and so it stays what it was
    assert (await probe.look("disk.example.com")).outcome is Outcome.NOT_RUN


async def test_a_kernel_without_pressure_information(machine):
    """No facts, no sources, no error."""
    machine.mount(machine.staged("8:0"))
    assert await PressureProbe(machine.proc, machine.clock).read() == {}
    assert list(IoPressureProbe(machine.table, machine.proc).discover()) == []


async def test_pressure_sets_in_with_both_averages_and_goes_with_the_longer_one(machine):
    """A burst is none, and a pause of some seconds does not end one."""
    machine.mount(machine.staged("8:0"))
    probe = IoPressureProbe(machine.table, machine.proc)
    pressed = []
    for averages in [(90, 20), (30, 50), (50, 50), (5, 45), (50, 39), (20, 45), (41, 41)]:
        machine.tell("pressure/io", full(*averages))
        assert list(probe.discover()) == ["disk.example.com"]
        pressed.append((await probe.look("disk.example.com")).outcome is Outcome.IMPAIRED)
    assert pressed == [False, False, True, True, False, False, True]


async def test_it_degrades_and_clears_at_once(machine):
    """The averages are slow enough; no further strikes are needed."""
    machine.mount(machine.staged("8:0"))
    probe = IoPressureProbe(machine.table, machine.proc)
    health = SourceHealth(probe.schedule.thresholds, period_s=10.0)
    for averages, state in [((1, 1), State.HEALTHY), ((80, 80), State.DEGRADED), ((80, 10), State.HEALTHY)]:
        machine.tell("pressure/io", full(*averages))
        probe.discover()
        health.record(await probe.look("disk.example.com"), machine.clock.monotonic())
        assert health.level is not None
        assert health.level.state is state
        assert health.level.reason is (Reason.IO_PRESSURE if state is State.DEGRADED else None)


async def test_only_storage_on_local_block_devices_bears_it(machine):
    """Network filesystems do not show in it; one source per (driver, backend)."""
    machine.tell("pressure/io", full(80, 80))
    machine.mount(
        machine.staged("8:0"),
        machine.staged("8:16", volume="v2"),
        machine.staged("0:52", volume="v3", fstype="nfs4").replace("/dev/x", "10.0.0.9:/export"),
    )
    probe = IoPressureProbe(machine.table, machine.proc)
    assert list(probe.discover()) == ["disk.example.com"]
    assert probe.sources()["disk.example.com"].key == KEY
