"""The way of one message into the cache: screened, merged, passed on. Nothing in a message can raise out of here."""

from collections.abc import Callable
from typing import Protocol

from nats.aio.msg import Msg

from leadsman.bus.cache import MAX_SIDECARS, ReportCache
from leadsman.bus.complaints import Complaints
from leadsman.bus.metrics import ReplicaMetrics
from leadsman.bus.screening import Drop, ScreeningError, check_live, screen
from leadsman.bus.snapshot import Row
from leadsman.domain.clock import Clock
from leadsman.domain.report import NodeReport


class ReplicaListener(Protocol):
    """Who turns reports into answers."""

    def on_report(self, report: NodeReport, age_s: float) -> None:
        """A report newer than any before of its reporter is in the cache; called synchronously, must not block."""
        ...


class Intake:
    """Takes live messages and stored rows into `cache` and tells `listener` what is new.

    `link_now` gives the link time of this moment. `server_lead` is by how many seconds the server's clock is ahead.
    """

    def __init__(
        self,
        cache: ReportCache,
        listener: ReplicaListener,
        *,
        clock: Clock,
        link_now: Callable[[], float],
        metrics: ReplicaMetrics,
        complaints: Complaints,
        expire_after_s: float,
    ) -> None:
        self.server_lead = 0.0
        self._cache = cache
        self._listener = listener
        self._clock = clock
        self._link_now = link_now
        self._metrics = metrics
        self._complaints = complaints
        self._expire_after = expire_after_s

    def live(self, msg: Msg) -> None:
        """Take in what has just been published."""
        try:
            check_live(msg.headers)
            report = self._screened(msg.subject, msg.data)
            now = self._link_now()
            if self._cache.merge(report, now):
                self._accepted(report, "live")
            elif self._cache.step_back(report, now):
                self._complaints.stepped_back(report.reporter, report.boot_id)
                self._accepted(report, "live")
            else:
                self._metrics.dropped.labels(Drop.OLD).inc()
        except ScreeningError as error:
            self._complaints.dropped(msg.subject, error.reason, str(error))
        except Exception:  # whatever one node sends, the others must be heard
            self._unforeseen()

    def stored(self, row: Row, age_s: float, link_then: float) -> None:
        """Take in a row that was `age_s` seconds old at link time `link_then`."""
        if age_s >= self._expire_after:
            self._metrics.dropped.labels(Drop.EXPIRED).inc()
            return
        try:
            report = self._screened(row.subject, row.body)
            if self._cache.merge(report, link_then - age_s):
                self._accepted(report, "snapshot")
            else:
                self._metrics.dropped.labels(Drop.OLD).inc()
        except ScreeningError as error:
            self._complaints.dropped(row.subject, error.reason, str(error))
        except Exception:  # one stored row must not keep every replica that starts from ever being ready
            self._unforeseen()

    def unreadable(self, subject: str, error: Exception) -> None:
        """Count a row whose headers make no sense."""
        self._complaints.dropped(subject, Drop.MALFORMED, f"a stored row without the server's headers: {error!r}")

    def _screened(self, subject: str, body: bytes) -> NodeReport:
        # The server's clock counts too: if only ours is slow, every collector would seem to live in the future.
        report = screen(subject, body, self._clock.epoch() + max(0.0, self.server_lead))
        if report.reporter not in self._cache.reports:
            self._check_room(report)
        return report

    def _check_room(self, report: NodeReport) -> None:
        if self._cache.full_for(report.node):
            raise ScreeningError(Drop.TOO_MANY_NODES, "the cache is full; is someone inventing nodes?")
        if self._cache.crowded_for(report):
            raise ScreeningError(Drop.TOO_MANY_SIDECARS, f"node {report.node} has {MAX_SIDECARS} sidecars already")

    def _accepted(self, report: NodeReport, path: str) -> None:
        self._metrics.merged[path].inc()
        at = self._cache.current_at(report.reporter)
        try:
            self._listener.on_report(report, 0.0 if at is None else max(0.0, self._link_now() - at))
        except Exception:  # the listener's fault, not the message's: it is in the cache
            self._complaints.failed("the listener failed on a report")

    def _unforeseen(self) -> None:
        self._metrics.dropped.labels(Drop.UNFORESEEN).inc()
        self._complaints.failed("a message made the replica fail")
