"""What NVML's answers become; a module stands in for it, since there is no GPU here."""

import sys
from types import SimpleNamespace

import pytest

from leadsman_health_collector.gpu_worker import read


class NVMLError(Exception):
    """As pynvml's, with a code."""

    def __init__(self, value):
        super().__init__(f"error {value}")
        self.value = value


def no(value):
    def fails(*_):
        raise NVMLError(value)

    return fails


@pytest.fixture
def nvml(monkeypatch):
    """Two GPUs, the second fuller and busier."""
    free = {0: 60, 1: 20}
    fake = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_ERROR_LIBRARY_NOT_FOUND=12,
        NVML_ERROR_DRIVER_NOT_LOADED=9,
        shut=[],
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: fake.shut.append(True),
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: [index],
        nvmlDeviceGetName=lambda handle: "NVIDIA H100",
        nvmlSystemGetDriverVersion=lambda: "550.54.15",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=80, free=free[handle[0]]),
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=10 + 80 * handle[0]),
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_two_gpus_are_summed_up(nvml):
    """And NVML is closed again, or nobody could update the driver."""
    assert read() == {
        "gpu.count": 2,
        "gpu.model": "NVIDIA H100",
        "gpu.driverVersion": "550.54.15",
        "gpu.driverMajor": 550,
        "gpu.memoryTotalBytes": 160,
        "gpu.memoryFreeBytes": 80,
        "gpu.memoryFreeMaxBytes": 60,
        "gpu.utilization": pytest.approx(0.5),
    }
    assert nvml.shut == [True]


@pytest.mark.parametrize("code", [9, 12])
def test_without_library_or_driver_there_are_no_facts(nvml, code):
    """Most nodes are like that."""
    nvml.nvmlInit = no(code)
    assert read() == {}
    assert nvml.shut == []


def test_without_the_module_or_a_gpu_there_are_no_facts(nvml, monkeypatch):
    """A driver without a GPU is no error either."""
    nvml.nvmlDeviceGetCount = lambda: 0
    assert read() == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert read() == {}


def test_other_errors_are_told(nvml):
    """Such as a library of another version than the driver."""
    nvml.nvmlInit = no(18)
    assert read() == "error 18"
    nvml.nvmlInit = lambda: None
    nvml.nvmlDeviceGetHandleByIndex = no(15)
    assert read() == "none of 2 GPUs answers"


def test_a_lost_gpu_and_figures_that_a_model_does_not_tell_are_left_out(nvml):
    """Unified memory has no size of its own, a GPU in MIG mode no utilization; old versions answer in bytes."""
    nvml.nvmlDeviceGetHandleByIndex = lambda index: [index] if index == 0 else no(15)()
    nvml.nvmlDeviceGetMemoryInfo = no(3)
    nvml.nvmlDeviceGetUtilizationRates = no(3)
    nvml.nvmlDeviceGetName = lambda handle: b"GB10"
    nvml.nvmlSystemGetDriverVersion = lambda: b"rolling"
    assert read() == {"gpu.count": 1, "gpu.model": "GB10", "gpu.driverVersion": "rolling"}
