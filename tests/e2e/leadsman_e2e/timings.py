"""How long things took, for the end of the output."""

from __future__ import annotations

from statistics import median


class Timings:
    """Named durations in seconds; a name may be noted several times."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}
        self._counts: dict[str, float] = {}

    def note(self, what: str, seconds: float) -> None:
        """Add one measurement of `what`."""
        self._seconds.setdefault(what, []).append(seconds)

    def note_count(self, what: str, count: float) -> None:
        """Add one number that is not a duration."""
        self._counts[what] = count

    def lines(self) -> list[str]:
        """One line per name: the median, and the range when there are several."""
        durations = [_line(what, taken) for what, taken in self._seconds.items()]
        return durations + [f"{what:<60} {count:6.0f}" for what, count in self._counts.items()]


def _line(what: str, taken: list[float]) -> str:
    spread = f"  [{min(taken):.2f} .. {max(taken):.2f}, {len(taken)} times]" if len(taken) > 1 else ""
    return f"{what:<60} {median(taken):6.2f} s{spread}"
