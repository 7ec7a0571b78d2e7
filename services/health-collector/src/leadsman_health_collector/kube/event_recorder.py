"""Writes Events about this node's storage, beside the probing and never in its way.

`note` only puts into a bounded queue; one task writes, at a limited rate, and tries again while the API server is away.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from http import HTTPStatus

from leadsman.domain.clock import Clock
from leadsman.domain.report import StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman.kube.api import MERGE_PATCH, Api, ApiError, ApiStatusError, Call
from leadsman.kube.backoff import Backoff
from leadsman.telemetry.logs import get_logger
from leadsman_health_collector.kube.event_series import COLLECTION, EventSeries, event_name
from leadsman_health_collector.kube.metrics import EventMetrics
from leadsman_health_collector.kube.notices import Notice, storage_notice, volume_notice
from leadsman_health_collector.kube.token_bucket import TokenBucket

log = get_logger("collector.events")

_NEVER = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})
"""Answers that the same event would get again."""


@dataclass(frozen=True, slots=True)
class EventSettings:
    """Limits. The same storage, state and reason within `series_s` (of its last time) is the same Event object.

    `burst` writes at once, then `per_minute`; `waiting` may wait, `series` are remembered. Times in seconds.
    """

    burst: int = 20
    per_minute: float = 10.0
    waiting: int = 64
    series: int = 256
    series_s: float = 600.0
    deadline_s: float = 10.0
    backoff_s: float = 1.0
    backoff_limit_s: float = 60.0


class EventRecorder:
    """`uid` is asked for the Node's UID at each new Event; empty while it is not known."""

    def __init__(
        self,
        api: Api,
        node: str,
        uid: Callable[[], str],
        *,
        clock: Clock,
        metrics: EventMetrics,
        settings: EventSettings | None = None,
    ) -> None:
        self._api = api
        self._node = node
        self._uid = uid
        self._clock = clock
        self._metrics = metrics
        self._settings = settings or EventSettings()
        self._bucket = TokenBucket(self._settings.burst, self._settings.per_minute / 60, clock)
        self._series: OrderedDict[Hashable, EventSeries] = OrderedDict()
        self._waiting: OrderedDict[Hashable, EventSeries] = OrderedDict()
        self._bad: dict[StorageKey, None] = {}
        """Storages whose last Warning has not been taken back."""
        self._news = asyncio.Event()
        self._backoff = Backoff(self._settings.backoff_s, self._settings.backoff_limit_s)
        self._trouble = ""
        metrics.waiting.set_function(lambda: len(self._waiting))

    def note(self, before: StorageStatus | None, after: StorageStatus) -> None:
        """A storage has changed; whether that is worth an Event is decided here. Never waits, never raises."""
        notice = storage_notice(before, after, bad_was_told=after.key in self._bad)
        if notice is None:
            return
        # That a storage is UNKNOWN or gone takes nothing back: the next HEALTHY still has to.
        if notice.type == "Warning":
            self._bad[after.key] = None
            if len(self._bad) > self._settings.series:
                del self._bad[next(iter(self._bad))]
        elif after.state is State.HEALTHY:
            self._bad.pop(after.key, None)
        self._put(notice)

    def note_volume(self, before: VolumeStatus | None, after: VolumeStatus | None) -> None:
        """A single volume has turned bad, other, or well (None). Never waits, never raises."""
        notice = volume_notice(before, after)
        if notice is not None:
            self._put(notice)

    def describe(self) -> tuple[bool, str]:
        """Whether Events can be written, and words for people, for /readyz."""
        if self._trouble:
            return False, f"{len(self._waiting)} events wait: {self._trouble}"
        return True, f"{len(self._waiting)} events wait"

    async def run(self) -> None:
        """Write what is noted, for ever."""
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            await self._bucket.take()
            key = self._next()
            series = self._waiting[key]
            told = series.count
            try:
                await self._write(series)
            except ApiError as error:
                await self._failed(key, series, error)
                continue
            self._well()
            # Noted again, or pushed out by a newer one, while it was being written?
            if self._waiting.get(key) is series and series.count == told:
                del self._waiting[key]

    def _put(self, notice: Notice) -> None:
        now, epoch = self._clock.monotonic(), self._clock.epoch()
        series = self._series.get(notice.series)
        if series is not None and (not series.created or now - series.last_s <= self._settings.series_s):
            series.again(notice, epoch, now)
        else:
            series = EventSeries(event_name(self._node, notice, epoch), notice, epoch, epoch, now)
        self._series[notice.series] = series
        self._series.move_to_end(notice.series)
        if len(self._series) > self._settings.series:
            self._series.popitem(last=False)
        self._waiting[notice.series] = series
        self._waiting.move_to_end(notice.series)
        if len(self._waiting) > self._settings.waiting:
            self._drop(self._least(), "overflow")
        self._news.set()

    def _next(self) -> Hashable:
        """What to write next: the oldest about a storage, else the oldest about a volume."""
        storages = (key for key, series in self._waiting.items() if not series.notice.single_volume)
        return next(storages, next(iter(self._waiting)))

    def _least(self) -> Hashable:
        """What to give up first: the oldest about a volume, else the oldest. The newest tell how things are."""
        volumes = (key for key, series in self._waiting.items() if series.notice.single_volume)
        return next(volumes, next(iter(self._waiting)))

    def _drop(self, key: Hashable, cause: str) -> None:
        series = self._waiting.pop(key)
        if not series.created:
            self._series.pop(key, None)
        self._metrics.dropped.labels(cause).inc()

    async def _write(self, series: EventSeries) -> None:
        if series.created and await self._update(series):
            return
        # Not there, or no more: events live for an hour.
        if await self._create(series):
            return
        # It was there: an earlier attempt succeeded and its answer was lost.
        await self._update(series)

    async def _create(self, series: EventSeries) -> bool:
        """Whether it was not there yet."""
        body = series.body(self._node, self._uid())
        created = await self._unless(HTTPStatus.CONFLICT, Call("POST", COLLECTION, body=body), "create")
        series.created = True
        return created

    async def _update(self, series: EventSeries) -> bool:
        """Whether it was there."""
        call = Call("PATCH", f"{COLLECTION}/{series.name}", body=series.changes(), content_type=MERGE_PATCH)
        return await self._unless(HTTPStatus.NOT_FOUND, call, "update")

    async def _unless(self, status: int, call: Call, operation: str) -> bool:
        try:
            await self._api.call(call, deadline_s=self._settings.deadline_s)
        except ApiStatusError as error:
            if error.status == status:
                return False
            raise
        self._metrics.written.labels(operation).inc()
        return True

    def _well(self) -> None:
        if self._trouble:
            log.info("events are written again", waiting=len(self._waiting))
        self._trouble = ""
        self._backoff.reset()

    async def _failed(self, key: Hashable, series: EventSeries, error: ApiError) -> None:
        """Note the failure; wait and keep the event for another attempt, unless it can never succeed."""
        self._metrics.failures.inc()
        if isinstance(error, ApiStatusError) and error.status in _NEVER:
            log.warning("event refused, it is given up", reason=series.notice.reason, error=str(error))
            if self._waiting.get(key) is series:
                self._drop(key, "refused")
            return
        if not self._trouble:  # once per loss, not per try
            log.warning("events cannot be written", error=_advice(error))
        self._trouble = _advice(error)
        await asyncio.sleep(self._backoff.after(error))


def _advice(error: ApiError) -> str:
    if isinstance(error, ApiStatusError) and error.status == HTTPStatus.FORBIDDEN:
        return f"no right to write events; apply deploy/health-collector/rbac.yaml, or give --no-events ({error})"
    return str(error)
