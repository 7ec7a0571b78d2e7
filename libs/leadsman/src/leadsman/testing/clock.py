"""A clock that moves only when told to."""


class FakeClock:
    """A `leadsman.domain.clock.Clock` under the test's control."""

    def __init__(self, start: float = 1_000.0) -> None:
        self._now = start

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once."""
        self._now += seconds

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._now

    def epoch(self) -> float:
        """See `Clock.epoch`; runs beside the monotonic clock from a fixed date."""
        return 1_790_000_000.0 + self._now
