"""A limited rate with room for a burst."""

import asyncio

from leadsman.domain.clock import Clock


class TokenBucket:
    """Holds `size` tokens at most and gets `per_s` new ones a second."""

    def __init__(self, size: int, per_s: float, clock: Clock) -> None:
        self._size = size
        self._per_s = per_s
        self._clock = clock
        self._tokens = float(size)
        self._filled_at = clock.monotonic()

    async def take(self) -> None:
        """Take one token, as soon as there is one. For one task only."""
        while (missing := 1 - self._fill()) > 0:  # noqa: ASYNC110 - time is what it waits for
            await asyncio.sleep(missing / self._per_s)
        self._tokens -= 1

    def _fill(self) -> float:
        now = self._clock.monotonic()
        self._tokens = min(self._size, self._tokens + (now - self._filled_at) * self._per_s)
        self._filled_at = now
        return self._tokens
