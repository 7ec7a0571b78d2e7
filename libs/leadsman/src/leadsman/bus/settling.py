"""Whether a stream is old enough for its rows to be the whole cluster."""

from dataclasses import dataclass

STREAM_SETTLE_S = 20.0
"""Age at which every living node has reported to a new stream, after whatever emptied it: a heartbeat takes up to 12 s,
and after a loss of NATS a collector is back within 10 s and reports within 5 s more."""


@dataclass(frozen=True, slots=True)
class Birth:
    """A stream by its time of creation as the server writes it, and our monotonic time when we first saw it."""

    created: str
    seen_at: float


class StreamSettling:
    """Says how long a new stream must still be waited for before a snapshot of it may count as complete.

    The server's clock decides, and ours where that one is wrong: no stream is waited for longer than `settle_s` after
    we first saw it. All times in seconds; 0 never waits.
    """

    def __init__(self, settle_s: float) -> None:
        self._settle = settle_s
        self._birth: Birth | None = None

    def remaining(self, created: str, age_s: float, now: float) -> float:
        """Seconds until a stream that was made at `created`, `age_s` ago by the server's clock, has settled."""
        if self._birth is None or self._birth.created != created:
            self._birth = Birth(created, now)
        return max(0.0, min(self._settle - age_s, self._settle - (now - self._birth.seen_at)))
