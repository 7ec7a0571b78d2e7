"""How long to wait after a failed call."""

import random

from leadsman.kube.api import ApiError

_MAX_DOUBLINGS = 16


class Backoff:
    """Waits that double from `first_s` to `limit_s` (seconds), each spread by half so that clients come apart."""

    def __init__(self, first_s: float, limit_s: float) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._failures = 0

    def after(self, error: ApiError) -> float:
        """Seconds to wait after one more failure; longer, up to the limit, if the server asks for it."""
        wait_s: float = min(self._limit_s, self._first_s * 2 ** min(self._failures, _MAX_DOUBLINGS))
        self._failures += 1
        return max(wait_s * random.uniform(0.5, 1.5), min(error.retry_after_s, self._limit_s))  # noqa: S311 - no secret

    def reset(self) -> None:
        """A call has succeeded."""
        self._failures = 0
