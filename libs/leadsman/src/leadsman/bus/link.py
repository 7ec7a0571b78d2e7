"""Time as the bus lets us measure it: it passes only while the bus is heard.

Ages of reports are differences of link time, so a lost, paused or restarting NATS makes no node look silent.
"""


class LinkTime:
    """Seconds during which the bus was heard, and whether it is heard now. Never goes back.

    Every delivered message and every PONG is proof that the link works. Without proof link time runs on for `grace`
    seconds and then stands still (`frozen`), also across a reconnect and when this process itself was stopped. All
    `now` arguments are seconds on one monotonic clock.
    """

    def __init__(self, grace: float, now: float) -> None:
        self._grace = grace
        self._base = 0.0
        self._heard_at = now
        self._up = False

    def value(self, now: float) -> float:
        """Link time at `now`, in seconds."""
        return self._base + self._passed(now)

    def frozen(self, now: float) -> bool:
        """Whether link time stands still: disconnected, or silent for longer than the grace."""
        return not self._up or now - self._heard_at > self._grace

    def silent_for(self, now: float) -> float:
        """Seconds since the last proof of life (since the start if there never was one)."""
        return max(0.0, now - self._heard_at)

    def resumed(self, now: float) -> None:
        """A connection is up again; the time without it does not count."""
        self._base += self._passed(now)
        self._heard_at = now
        self._up = True

    def heard(self, now: float) -> None:
        """A message or a PONG came in on the connection."""
        self._base += self._passed(now)
        self._heard_at = now

    def lost(self, now: float) -> None:
        """The connection is gone."""
        self._base += self._passed(now)
        self._up = False

    def _passed(self, now: float) -> float:
        return min(max(0.0, now - self._heard_at), self._grace) if self._up else 0.0
