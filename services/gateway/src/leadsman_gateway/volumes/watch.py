"""One kind of object kept current from the API server: list, then watch, then list again when it must.

Follows client-go's reflector: paged list, watch from the list's resourceVersion with bookmarks, resume after a cut,
list anew when the version has expired. A watch that is silent for longer than three bookmark periods is taken for
half-open.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from leadsman.domain.clock import Clock
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle
from leadsman_gateway.volumes.api import Api, ApiError, ApiStatusError, ApiUnreachableError, Call, is_expired
from leadsman_gateway.volumes.catalogue import Store
from leadsman_gateway.volumes.metrics import CatalogueMetrics
from leadsman_gateway.volumes.objects import Resource, name_in, record_of
from leadsman_gateway.volumes.records import Key, Record

log = get_logger("gateway.catalogue")


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How lists and watches behave; times in seconds.

    `idle_s` exceeds three bookmarks (one a minute by kube-apiserver, which skips some: 2 minutes without any were
    measured on 1.36.2); a dead peer is noticed earlier, by TCP. `watch_s` is the least length asked of the server;
    up to twice that is used, so that replicas do not reconnect together. `relist_s` bounds any drift.
    """

    page_size: int = 500
    page_deadline_s: float = 30.0
    watch_s: float = 300.0
    idle_s: float = 190.0
    relist_s: float = 3600.0
    backoff_s: float = 0.5
    backoff_limit_s: float = 30.0


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "next_page": "continue"}):
    resource_version: str = ""
    next_page: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    metadata: _ListMeta


class _Failure(msgspec.Struct):
    code: int = 0
    message: str = ""


_page = msgspec.json.Decoder(_Page)
_event = msgspec.json.Decoder(_Event)


class Reflector:
    """Keeps the records of one resource in `store` equal to what the API server has."""

    def __init__(
        self,
        resource: Resource,
        api: Api,
        store: Store,
        *,
        clock: Clock,
        metrics: CatalogueMetrics,
        settings: WatchSettings,
    ) -> None:
        self._resource = resource
        self._api = api
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._version = ""
        self._failures = 0
        self._told = False
        self._cut_short = False
        self._throttle = Throttle()
        self._down_since: float | None = clock.monotonic()
        self.synced = False
        self.last_error = "not connected yet"
        self._heard = clock.monotonic()
        metrics.follow_age(resource.kind, lambda: clock.monotonic() - self._heard)

    @property
    def down_for_s(self) -> float:
        """How long there has been no working list or watch; 0 while there is one."""
        return 0.0 if self._down_since is None else self._clock.monotonic() - self._down_since

    async def run(self) -> None:
        """List and watch for ever."""
        while True:
            try:
                await self._list()
                await self._watch()
            except ApiError as error:
                await self._failed(error)

    async def _list(self) -> None:
        """Replace all records by what the server lists; they change in one step, at the end."""
        records: dict[Key, Record] = {}
        next_page = ""
        while True:
            page = await self._page(next_page)
            for item in page.items or ():
                record = self._read(item)
                if record is not None:
                    records[record[0].key] = record[0]
            next_page = page.metadata.next_page
            if not next_page:
                break
        self._store.replace(self._resource.kind, records)
        self._version = page.metadata.resource_version
        self._metrics.counted(self._resource.kind, self._store)
        self._metrics.relists.labels(self._resource.kind).inc()
        self.synced = True
        self._well()

    async def _page(self, next_page: str) -> _Page:
        query = [("limit", str(self._settings.page_size))]
        if next_page:
            query.append(("continue", next_page))
        call = Call("GET", self._resource.collection, query)
        body = await self._api.call(call, deadline_s=self._settings.page_deadline_s)
        try:
            return _page.decode(body)
        except msgspec.DecodeError as error:
            raise ApiUnreachableError(f"GET {self._resource.collection}: not a list: {error}") from error

    async def _watch(self) -> None:
        """Follow changes until a fresh list is due. Raises ApiError when the version has expired."""
        listed = self._clock.monotonic()
        while self._clock.monotonic() - listed < self._settings.relist_s:
            started, version = self._clock.monotonic(), self._version
            reason = "ended"
            try:
                await self._follow()
                self._cut_short = self._version == version and self._clock.monotonic() - started < 1.0
                if self._cut_short:
                    raise ApiUnreachableError(f"{self._resource.plural}: the watch ended at once without an event")
                self._failures = 0
            except ApiError as error:
                if is_expired(error):
                    self._metrics.restarts.labels(self._resource.kind, "expired").inc()
                    raise
                reason = "failed"
                await self._failed(error)
            self._metrics.restarts.labels(self._resource.kind, reason).inc()

    async def _follow(self) -> None:
        """One watch request from its start to its end."""
        length = self._settings.watch_s * random.uniform(1, 2)  # noqa: S311 - spreads load, hides nothing
        query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(max(1, int(length)))),
        ]
        call = Call("GET", self._resource.collection, query)
        async with self._api.lines(call, idle_s=self._settings.idle_s) as lines:
            # The request is accepted, so the version still stands: every change since will come. Unless the last one
            # was accepted and cut at once: then only an event proves that watching works.
            if not self._cut_short:
                self._well()
            await self._events(lines)

    async def _events(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            try:
                self._apply(_event.decode(line))
            except msgspec.DecodeError as error:
                raise ApiUnreachableError(f"{self._resource.plural}: broken watch event: {error}") from error
            self._cut_short = False
            self._failures = 0
            self._well()

    def _apply(self, event: _Event) -> None:
        if event.type == "ERROR":
            failure = msgspec.json.decode(event.object, type=_Failure)
            raise ApiStatusError(f"{self._resource.plural}: watch error {failure.code} {failure.message}", failure.code)
        if event.type == "BOOKMARK":
            self._version = msgspec.json.decode(event.object, type=_Bookmark).metadata.resource_version
            return
        read = self._read(event.object)
        if read is None:
            return
        record, version = read
        if event.type == "DELETED":
            self._store.drop(self._resource.kind, record.key)
        else:
            self._store.put(record)
        self._version = version or self._version
        self._metrics.counted(self._resource.kind, self._store)

    def _read(self, body: msgspec.Raw) -> tuple[Record, str] | None:
        """The record in `body`; one object that cannot be read must not hide all the others."""
        try:
            return record_of(self._resource.kind, body)
        except msgspec.DecodeError as error:
            self._metrics.bad_objects.labels(self._resource.kind).inc()
            if self._throttle.allows("bad_object", self._clock.monotonic()):
                log.warning("object skipped", kind=self._resource.kind, object=name_in(body), error=str(error))
            return None

    def _well(self) -> None:
        self._heard = self._clock.monotonic()
        self._metrics.up.labels(self._resource.kind).set(1)
        if self._down_since is not None:
            log.info("watching", kind=self._resource.kind, objects=self._store.count(self._resource.kind))
        self._down_since = None
        self._told = False

    async def _failed(self, error: ApiError) -> None:
        """Note the failure and wait: 0.5 s, doubling to 30 s, spread by half, or as long as the server asks."""
        self.last_error = str(error)
        self._metrics.up.labels(self._resource.kind).set(0)
        self._metrics.failures.labels(self._resource.kind, _cause(error)).inc()
        if self._down_since is None:
            self._down_since = self._clock.monotonic()
        if not self._told:  # once per loss, not per try
            self._told = True
            log.warning("not watching", kind=self._resource.kind, error=str(error))
        limit = self._settings.backoff_limit_s
        delay = min(limit, self._settings.backoff_s * 2 ** min(self._failures, 16))
        self._failures += 1
        await asyncio.sleep(max(delay * random.uniform(0.5, 1.5), min(error.retry_after_s, limit)))  # noqa: S311


def _cause(error: ApiError) -> str:
    """A bounded label for what went wrong."""
    if not isinstance(error, ApiStatusError):
        return "unreachable"
    known: dict[int, str] = {
        HTTPStatus.UNAUTHORIZED: "unauthorized",
        HTTPStatus.FORBIDDEN: "forbidden",
        HTTPStatus.GONE: "expired",
        HTTPStatus.TOO_MANY_REQUESTS: "throttled",
    }
    return known.get(error.status, "status")
