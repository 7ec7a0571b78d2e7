"""A moving average in which older samples count less and less."""

_NEWEST = 0.3
"""Weight of the newest sample: with one in 10 s, half of the average is from the last 20 s."""


class MovingAverage:
    """Exponentially weighted average of samples that come at a steady pace; None before the first."""

    def __init__(self) -> None:
        self.value: float | None = None

    def add(self, sample: float) -> float:
        """Take `sample` in; the average including it."""
        before = sample if self.value is None else self.value
        self.value = before + _NEWEST * (sample - before)
        return self.value
