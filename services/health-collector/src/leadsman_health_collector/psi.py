"""Pressure stall information of the whole machine (Documentation/accounting/psi.rst)."""

import errno
from dataclasses import dataclass
from pathlib import Path

from leadsman_health_collector.kernel_files import number, read_kernel_file

_ABSENT = frozenset({errno.ENOENT, errno.EOPNOTSUPP})
"""A kernel without PSI has no such file; one booted with `psi=0` refuses to open it."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Share of time (0-1) in which tasks were stalled over the last 10 and 60 s, and in all so far, in seconds."""

    avg10: float
    avg60: float
    total_s: float


def read_pressure(proc: Path, resource: str) -> dict[str, Stall] | None:
    """Stalls on `resource` (`io`, `memory`, `cpu`) by kind: `some` task waited, or `full`: all that could run did.

    None if this kernel has no PSI; lines that are not of this form are left out.

    Raises:
        OSError: the file is there but cannot be read.
    """
    try:
        text = read_kernel_file(f"{proc}/pressure/{resource}")
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise
    stalls = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        stall = _parse(rest)
        if kind in {"some", "full"} and stall is not None:
            stalls[kind] = stall
    return stalls


def _parse(words: str) -> Stall | None:
    values = dict(word.partition("=")[::2] for word in words.split())
    try:
        return Stall(number(values["avg10"]) / 100, number(values["avg60"]) / 100, number(values["total"]) / 1e6)
    except (KeyError, ValueError):
        return None
