"""What the running kernel can do: filesystems and modules that are in it, or that it can load."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from leadsman_health_collector.kernel_files import read_kernel_file

_MODULE = re.compile(rb"^(?:[^\s:]*/)?([^/\s:]+)\.ko", re.MULTILINE)
"""A module's file at the start of a line of modules.dep, or on one of modules.builtin (modules.dep(5))."""


class Support(Enum):
    """Whether the kernel can do something: `PRESENT`, `LOADABLE` on demand, `MISSING` for sure, or `UNKNOWN`."""

    PRESENT = "present"
    LOADABLE = "loadable"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Installed:
    """Modules on the disk for one kernel release, as the files were at `stamp`."""

    stamp: tuple[object, ...]
    builtin: frozenset[str]
    loadable: frozenset[str]


class KernelModules:
    """The kernel whose procfs and sysfs are `proc` and `sys`; `modules` holds one folder per release."""

    def __init__(self, proc: Path, sys: Path, modules: Path) -> None:
        self._proc = proc
        self._sys = sys
        self._modules = modules
        self._installed: _Installed | None = None

    @property
    def folder(self) -> Path:
        """Where the running kernel's modules should be.

        Raises:
            OSError: the kernel's release cannot be read.
        """
        return self._modules / read_kernel_file(f"{self._proc}/sys/kernel/osrelease")

    def support(self, names: Iterable[str]) -> Support:
        """Whether the kernel has any of `names` (filesystems or modules).

        Raises:
            OSError: the lists of the kernel itself cannot be read.
        """
        wanted = {_canonical(name) for name in names}
        if wanted & self._filesystems() or any((self._sys / "module" / name).exists() for name in wanted):
            return Support.PRESENT
        installed = self._read_installed()
        if installed is None:
            return Support.UNKNOWN
        if wanted & installed.builtin:
            return Support.PRESENT
        return Support.LOADABLE if wanted & installed.loadable and self._may_load() else Support.MISSING

    def _filesystems(self) -> set[str]:
        lines = read_kernel_file(f"{self._proc}/filesystems").splitlines()
        return {_canonical(line.split()[-1]) for line in lines if line.split()}

    def _may_load(self) -> bool:
        """False where loading has been switched off until the next boot (Documentation/admin-guide/sysctl/kernel)."""
        try:
            return read_kernel_file(f"{self._proc}/sys/kernel/modules_disabled") != "1"
        except OSError:
            return True

    def _read_installed(self) -> _Installed | None:
        """What is installed; None unless both lists can be read, so that absence from them means something."""
        files = [self.folder / "modules.builtin", self.folder / "modules.dep"]
        try:
            states = [file.stat() for file in files]
            stamp = tuple(
                (str(file), state.st_mtime_ns, state.st_size) for file, state in zip(files, states, strict=True)
            )
            if self._installed is None or self._installed.stamp != stamp:
                builtin, loadable = (_modules_in(file.read_bytes()) for file in files)
                self._installed = _Installed(stamp, builtin, loadable)
        except OSError:
            return None
        # Every kernel has something built in; an empty list is a broken installation.
        return self._installed if self._installed.builtin else None


def _modules_in(text: bytes) -> frozenset[str]:
    return frozenset(_canonical(name.decode("ascii", "replace")) for name in _MODULE.findall(text))


def _canonical(name: str) -> str:
    """Modules are called with `-` in file names and with `_` by the kernel; they mean the same."""
    return name.replace("-", "_")
