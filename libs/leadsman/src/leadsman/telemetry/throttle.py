"""Keeps one noisy peer from flooding the log; the counters still see every event."""


class Throttle:
    """Lets one event per key and period pass. Keys come from a closed set, so memory is bounded."""

    def __init__(self, period_s: float = 30.0) -> None:
        self._period = period_s
        self._quiet_until: dict[str, float] = {}

    def allows(self, key: str, now: float) -> bool:
        """Whether an event of `key` may be shown at `now` (monotonic seconds)."""
        if now < self._quiet_until.get(key, float("-inf")):
            return False
        self._quiet_until[key] = now + self._period
        return True
