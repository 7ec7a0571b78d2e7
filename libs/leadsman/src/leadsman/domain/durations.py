"""Durations as Kubernetes users write them: `500ms`, `30s`, `1m30s`, `5m`, `1h`."""

import re

from leadsman.domain.errors import ConfigError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Seconds in `text`.

    Raises:
        ConfigError: not a duration, or one without a unit.
    """
    if not re.fullmatch(rf"(?:{_PART.pattern})+", text.strip()):
        raise ConfigError(f"{text!r} is not a duration; write it like 500ms, 30s, 1m30s or 1h")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def format_duration(seconds: float) -> str:
    """`seconds` in the shortest usual form, for texts that people read."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 120:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 7200 else f"{seconds / 3600:.0f}h"
