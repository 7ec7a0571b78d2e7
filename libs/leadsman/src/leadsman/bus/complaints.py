"""What a replica refuses or fails at: always counted, and said in the log without flooding it."""

from leadsman.bus.metrics import ReplicaMetrics
from leadsman.bus.screening import Drop
from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle

log = get_logger("bus.replica")


class Complaints:
    """Counters see every event, the log one of a kind and period."""

    def __init__(self, metrics: ReplicaMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._throttle = Throttle()

    def dropped(self, subject: str, reason: Drop, words: str) -> None:
        """A message that must not enter the cache."""
        self._metrics.dropped.labels(reason).inc()
        if self._loud(reason):
            log.warning("dropped a node report", subject=subject, reason=reason.value, error=words)

    def stepped_back(self, reporter: str, boot_id: str) -> None:
        """A reporter whose node's clock went back and which is believed nevertheless."""
        self._metrics.stepped_back.inc()
        if self._loud("stepped_back"):
            log.warning("the clock of a node went back; following its present life", reporter=reporter, boot_id=boot_id)

    def not_loaded(self, result: str, words: str) -> None:
        """A snapshot that could not be read; `result` is the metric's label."""
        self._metrics.snapshots.labels(result).inc()
        if self._loud(result):
            log.warning("cannot load the node reports, trying on", error=words)

    def failed(self, what: str) -> None:
        """An exception that nobody foresaw; call it while handling one."""
        self._metrics.failures.inc()
        if self._loud(what):
            log.exception("internal error, please report it", what=what)  # noqa: LOG004 - called while handling one

    def _loud(self, key: str) -> bool:
        return self._throttle.allows(key, self._clock.monotonic())
