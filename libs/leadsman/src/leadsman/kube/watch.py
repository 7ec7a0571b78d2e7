"""One collection of objects kept current from the API server: list, then watch, then list again when it must.

Follows client-go's reflector: paged list, watch from the list's resourceVersion with bookmarks, resume after a cut,
list anew when the version has expired. A watch that is silent for longer than three bookmark periods is taken for
half-open.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec

from leadsman.domain.clock import Clock
from leadsman.kube.api import (
    JSON,
    METADATA_ONLY,
    METADATA_ONLY_LIST,
    Api,
    ApiError,
    ApiStatusError,
    ApiUnreachableError,
    Call,
    is_expired,
)
from leadsman.kube.backoff import Backoff
from leadsman.kube.metrics import WatchMetrics
from leadsman.kube.watched import Decoded, Key, Sink, Watched, WatchSettings
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle

log = get_logger("kube.watch")

T = TypeVar("T")


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


class _Named(msgspec.Struct):
    metadata: dict[str, Any] = {}


_page = msgspec.json.Decoder(_Page)
_event = msgspec.json.Decoder(_Event)


class Reflector(Generic[T]):
    """Keeps `sink` equal to what the API server has of `watched`."""

    def __init__(
        self,
        watched: Watched[T],
        api: Api,
        sink: Sink[T],
        *,
        clock: Clock,
        metrics: WatchMetrics,
        settings: WatchSettings,
    ) -> None:
        self._watched = watched
        self._api = api
        self._sink = sink
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._version = ""
        self._backoff = Backoff(settings.backoff_s, settings.backoff_limit_s)
        self._told = False
        self._cut_short = False
        self._throttle = Throttle()
        self._down_since: float | None = clock.monotonic()
        self.synced = False
        self.last_error = "not connected yet"
        self.last_status = 0
        """HTTP status of the last failure; 0 when there was no answer."""
        self._heard = clock.monotonic()
        metrics.follow_age(watched.kind, lambda: clock.monotonic() - self._heard)

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
        """Replace all objects by what the server lists; they change in one step, at the end."""
        objects: dict[Key, T] = {}
        next_page = ""
        while True:
            page = await self._page(next_page)
            for item in page.items or ():
                decoded = self._read(item)
                if decoded is not None:
                    objects[decoded.key] = decoded.kept
            next_page = page.metadata.next_page
            if not next_page:
                break
        self._sink.replace(objects)
        self._version = page.metadata.resource_version
        self._count()
        self._metrics.relists.labels(self._watched.kind).inc()
        self.synced = True
        self._well()

    async def _page(self, next_page: str) -> _Page:
        query = [*self._watched.query, ("limit", str(self._settings.page_size))]
        if next_page:
            query.append(("continue", next_page))
        accept = METADATA_ONLY_LIST if self._watched.metadata_only else JSON
        body = await self._api.call(
            Call("GET", self._watched.path, query, accept=accept), deadline_s=self._settings.page_deadline_s
        )
        try:
            return _page.decode(body)
        except msgspec.DecodeError as error:
            raise ApiUnreachableError(f"GET {self._watched.path}: not a list: {error}") from error

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
                    raise ApiUnreachableError(f"{self._watched.plural}: the watch ended at once without an event")
                self._backoff.reset()
            except ApiError as error:
                if is_expired(error):
                    self._metrics.restarts.labels(self._watched.kind, "expired").inc()
                    raise
                reason = "failed"
                await self._failed(error)
            self._metrics.restarts.labels(self._watched.kind, reason).inc()

    async def _follow(self) -> None:
        """One watch request from its start to its end."""
        length = self._settings.watch_s * random.uniform(1, 2)  # noqa: S311 - spreads load, hides nothing
        query = [
            *self._watched.query,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(max(1, int(length)))),
        ]
        accept = METADATA_ONLY if self._watched.metadata_only else JSON
        call = Call("GET", self._watched.path, query, accept=accept)
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
                raise ApiUnreachableError(f"{self._watched.plural}: broken watch event: {error}") from error
            self._cut_short = False
            self._backoff.reset()
            self._well()

    def _apply(self, event: _Event) -> None:
        if event.type == "ERROR":
            failure = msgspec.json.decode(event.object, type=_Failure)
            raise ApiStatusError(f"{self._watched.plural}: watch error {failure.code} {failure.message}", failure.code)
        if event.type == "BOOKMARK":
            self._version = msgspec.json.decode(event.object, type=_Bookmark).metadata.resource_version
            return
        decoded = self._read(event.object)
        if decoded is None:
            return
        if event.type == "DELETED":
            self._sink.drop(decoded.key)
        else:
            self._sink.put(decoded.key, decoded.kept)
        self._version = decoded.version or self._version
        self._count()

    def _read(self, body: msgspec.Raw) -> Decoded[T] | None:
        """The object in `body`; one that cannot be read must not hide all the others."""
        try:
            return self._watched.decode(body)
        except msgspec.DecodeError as error:
            self._metrics.bad_objects.labels(self._watched.kind).inc()
            if self._throttle.allows("bad_object", self._clock.monotonic()):
                log.warning("object skipped", kind=self._watched.kind, object=name_in(body), error=str(error))
            return None

    def _count(self) -> None:
        self._metrics.objects.labels(self._watched.kind).set(len(self._sink))

    def _well(self) -> None:
        self._heard = self._clock.monotonic()
        self._metrics.up.labels(self._watched.kind).set(1)
        if self._down_since is not None:
            log.info("watching", kind=self._watched.kind, objects=len(self._sink))
        self._down_since = None
        self._told = False

    async def _failed(self, error: ApiError) -> None:
        """Note the failure and wait."""
        self.last_error = str(error)
        self.last_status = error.status if isinstance(error, ApiStatusError) else 0
        self._metrics.up.labels(self._watched.kind).set(0)
        self._metrics.failures.labels(self._watched.kind, _cause(error)).inc()
        if self._down_since is None:
            self._down_since = self._clock.monotonic()
        if not self._told:  # once per loss, not per try
            self._told = True
            log.warning("not watching", kind=self._watched.kind, error=str(error))
        await asyncio.sleep(self._backoff.after(error))


def name_in(body: bytes | msgspec.Raw) -> str:
    """`namespace/name` in an object that cannot be read otherwise, for a message; empty when there is none."""
    try:
        metadata = msgspec.json.decode(body, type=_Named).metadata
    except msgspec.DecodeError:
        return ""
    return "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))


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
