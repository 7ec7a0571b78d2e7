"""Asks NVML about the GPUs of this node, in a process of its own: the driver can hang. Run as a file: `python -I`.

It waits for one message on stdin (a socket) and answers with one message of JSON: facts by name, none where there is no
library, no driver or no GPU; or a text, what NVML complains of. NVML is not kept open between reads: an open one blocks
the update of the driver, and a new process finds the library of the new driver.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

COMM = "lm gpu"
"""What the process is called (see `orphans`)."""

_MAX_TEXT = 128
_MAX_GPUS = 256


class _Gpu(NamedTuple):
    model: str
    total: int | None
    free: int | None
    utilization: float | None


def read() -> dict[str, float | str] | str:
    """The facts, or what NVML complains of."""
    try:
        import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore] # noqa: PLC0415
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
        try:
            return _facts(pynvml)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        absent = {pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED}
        return {} if error.value in absent else str(error)


def _facts(nvml: Any) -> dict[str, float | str] | str:  # noqa: ANN401 - a module without types
    count = min(nvml.nvmlDeviceGetCount(), _MAX_GPUS)
    gpus = [gpu for gpu in (_gpu(nvml, index) for index in range(count)) if gpu is not None]
    if not gpus:
        return f"none of {count} GPUs answers" if count else {}
    driver = _text(nvml.nvmlSystemGetDriverVersion())
    major = driver.partition(".")[0]
    facts: dict[str, float | str | None] = {
        "gpu.count": len(gpus),
        "gpu.model": ", ".join(sorted({gpu.model for gpu in gpus}))[:_MAX_TEXT],
        "gpu.driverVersion": driver,
        "gpu.driverMajor": int(major) if major.isdecimal() else None,
        **_memory(gpus),
        "gpu.utilization": _mean([gpu.utilization for gpu in gpus if gpu.utilization is not None]),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _gpu(nvml: Any, index: int) -> _Gpu | None:  # noqa: ANN401 - as above
    """One GPU; None if it is lost. A figure that this model does not tell is left out."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        model = _text(nvml.nvmlDeviceGetName(handle))
    except nvml.NVMLError:
        return None
    memory = _told(nvml, "nvmlDeviceGetMemoryInfo", handle)
    rates = _told(nvml, "nvmlDeviceGetUtilizationRates", handle)
    return _Gpu(
        model,
        memory.total if memory else None,
        memory.free if memory else None,
        rates.gpu / 100 if rates else None,
    )


def _told(nvml: Any, call: str, handle: object) -> Any:  # noqa: ANN401 - as above
    try:
        return getattr(nvml, call)(handle)
    except nvml.NVMLError:
        return None


def _memory(gpus: list[_Gpu]) -> dict[str, float | None]:
    total = [gpu.total for gpu in gpus if gpu.total is not None]
    free = [gpu.free for gpu in gpus if gpu.free is not None]
    return {
        "gpu.memoryTotalBytes": sum(total) if total else None,
        "gpu.memoryFreeBytes": sum(free) if free else None,
        "gpu.memoryFreeMaxBytes": max(free, default=None),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _text(value: str | bytes) -> str:
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))[:_MAX_TEXT]


if __name__ == "__main__":
    try:
        Path("/proc/self/comm").write_text(COMM, encoding="ascii")
        if os.read(0, 1024):
            os.write(0, json.dumps(read()).encode("ascii"))
    except OSError:  # the collector has gone
        pass
