"""NVML in a process of its own; a module that stands in for NVML's hangs, fails or answers."""

import asyncio
import sys
from pathlib import Path

import pytest

from leadsman_health_collector.probes.gpu import WORKER, GpuProbe

pytestmark = pytest.mark.integration

WELL = """
from types import SimpleNamespace as S
class NVMLError(Exception):
    def __init__(self, value): self.value = value
NVML_ERROR_LIBRARY_NOT_FOUND, NVML_ERROR_DRIVER_NOT_LOADED = 12, 9
nvmlInit = nvmlShutdown = lambda: None
nvmlDeviceGetCount = lambda: 1
nvmlDeviceGetHandleByIndex = lambda index: index
nvmlDeviceGetName = lambda handle: "NVIDIA L4"
nvmlSystemGetDriverVersion = lambda: "535.1"
nvmlDeviceGetMemoryInfo = lambda handle: S(total=24, free=6)
nvmlDeviceGetUtilizationRates = lambda handle: S(gpu=25)
"""
HANGS = "import time; time.sleep(60)"
SLOW = """
import pathlib, time
while not pathlib.Path(__file__).with_name("awake").exists():
    time.sleep(0.01)
"""
FACTS = {
    "gpu.responding": 1.0,
    "gpu.count": 1,
    "gpu.model": "NVIDIA L4",
    "gpu.driverVersion": "535.1",
    "gpu.driverMajor": 535,
    "gpu.memoryTotalBytes": 24,
    "gpu.memoryFreeBytes": 6,
    "gpu.memoryFreeMaxBytes": 6,
    "gpu.utilization": 0.25,
}


class Machine:
    """A directory with signs of a driver and a `pynvml` of our own."""

    def __init__(self, directory: Path):
        self.directory = directory
        (directory / "nvidiactl").touch()
        (directory / "start.py").write_text(
            f"import runpy, sys\nsys.path.insert(0, {str(directory)!r})\n"
            f"runpy.run_path({str(WORKER)!r}, run_name='__main__')"
        )
        self.nvml(WELL)

    def nvml(self, source: str):
        (self.directory / "pynvml.py").write_text(source)

    def probe(self, deadline_s: float = 5.0) -> GpuProbe:
        command = (sys.executable, "-I", "-B", str(self.directory / "start.py"))
        return GpuProbe("node-1", "boot-1", deadline_s, proc=self.directory, dev=self.directory, command=command)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


async def test_facts_are_read_and_no_process_is_kept(machine):
    """Between two reads there is none."""
    probe = machine.probe()
    for _ in range(2):
        assert await probe.read() == FACTS
        assert probe.processes == 0
    probe.close()


async def test_a_node_without_a_driver_starts_nothing(machine):
    """Most nodes; `/proc/driver/nvidia` is the other sign."""
    (machine.directory / "nvidiactl").unlink()
    probe = machine.probe()
    assert await probe.read() == {}
    (machine.directory / "driver" / "nvidia").mkdir(parents=True)
    assert await probe.read() == FACTS


async def test_a_missing_module_is_no_error_and_a_failing_one_is(machine):
    """With the real worker there is no `pynvml` on its path unless it is installed."""
    (machine.directory / "pynvml.py").unlink()
    machine.nvml("raise ImportError")
    assert await machine.probe().read() == {}
    machine.nvml("raise ValueError")
    with pytest.raises(OSError, match="without an answer"):
        await machine.probe().read()
    machine.nvml(f"{WELL}\ndef nvmlInit(): raise NVMLError('version mismatch')")
    with pytest.raises(OSError, match="version mismatch"):
        await machine.probe().read()
    probe = machine.probe()
    machine.nvml(WELL)
    assert await probe.read() == FACTS


async def test_a_driver_that_hangs_twice_is_not_responding_until_it_answers(machine, until):
    """One hang may be a slow first call; what was known stands meanwhile."""
    machine.nvml(HANGS)
    probe = machine.probe(0.3)
    with pytest.raises(TimeoutError):
        await probe.read()
    assert await probe.read() == {"gpu.responding": 0}
    await until(lambda: probe.processes == 0, "it has been killed")
    assert await probe.read() == {"gpu.responding": 0}, "a new one hangs as well"
    await until(lambda: probe.processes == 0, "it has been killed")
    machine.nvml(WELL)
    async with asyncio.timeout(10):
        while await probe.read() != FACTS:
            pass
    machine.nvml(HANGS)
    with pytest.raises(TimeoutError):
        await probe.read()
    probe.close()


async def test_a_slow_first_call_is_taken_at_the_next_read(machine):
    """Drivers take seconds to wake a GPU up."""
    machine.nvml(SLOW + WELL)
    probe = machine.probe(0.1)
    with pytest.raises(TimeoutError):
        await probe.read()
    (machine.directory / "awake").touch()
    probe._deadline_s = 10.0
    assert await probe.read() == FACTS


async def test_closing_ends_a_hanging_worker(machine, until):
    """And leaves none to wait for."""
    machine.nvml(HANGS)
    probe = machine.probe(0.1)
    with pytest.raises(TimeoutError):
        await probe.read()
    assert probe.processes == 1
    probe.close()
    assert probe.processes == 0
