"""When the age of a thing reaches a limit: who must be looked at now, and who is past the first limit. Pure."""

import heapq
from bisect import bisect_right
from collections.abc import Sequence


class Ageing:
    """Knows by name when to look again. `limits` are ages in seconds, ascending; `now_s` must never go back."""

    def __init__(self, limits: Sequence[float]) -> None:
        self._limits = limits
        self._due: list[tuple[float, str]] = []
        self._due_of: dict[str, float] = {}
        self.late: set[str] = set()
        """Names whose age has passed the first limit."""

    def schedule(self, name: str, age_s: float, now_s: float) -> None:
        """See that `name`, `age_s` old now, is due when it reaches the next limit; an earlier look does no harm."""
        passed = bisect_right(self._limits, age_s)
        (self.late.add if passed else self.late.discard)(name)
        if passed == len(self._limits):
            return
        due_s = now_s + self._limits[passed] - age_s
        if due_s < self._due_of.get(name, float("inf")):
            self._due_of[name] = due_s
            heapq.heappush(self._due, (due_s, name))

    def pop_due(self, now_s: float) -> list[str]:
        """The names that are due, each once; schedule them again."""
        # A list: rounding can make a thing that is scheduled again due at this very moment, without end.
        popped = []
        while self._due and self._due[0][0] <= now_s:
            due_s, name = heapq.heappop(self._due)
            if self._due_of.get(name) == due_s:  # else an earlier look has replaced this one
                del self._due_of[name]
                popped.append(name)
        return popped

    def forget(self, name: str) -> None:
        """Drop `name`."""
        self.late.discard(name)
        self._due_of.pop(name, None)
