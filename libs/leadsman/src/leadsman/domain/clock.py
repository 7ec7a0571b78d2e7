"""Time as a dependency, so that every rule about age can be tested without waiting."""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds on a clock that never goes back (`monotonic`), and seconds since 1970 (`epoch`)."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; the only clock that ages are measured on."""
        ...

    def epoch(self) -> float:
        """Seconds since 1970, for texts and identifiers only."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    def epoch(self) -> float:
        """See `Clock.epoch`."""
        return time.time()
