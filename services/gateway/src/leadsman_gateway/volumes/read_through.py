"""Reading single objects when the watch has not brought them yet: bounded in time, in number and in repetition."""

import asyncio
import re
from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from leadsman.domain.clock import Clock
from leadsman.kube.api import Api, ApiError, ApiStatusError, Call
from leadsman.telemetry.logs import get_logger
from leadsman_gateway.volumes.catalogue import Store
from leadsman_gateway.volumes.metrics import CatalogueMetrics
from leadsman_gateway.volumes.objects import RESOURCES, record_of
from leadsman_gateway.volumes.records import Claim, ObjectRef

log = get_logger("gateway.catalogue")

MAX_REFS = 32
"""Objects asked for at once; a pod that misses more has to wait for the watch."""

_MAX_REMEMBERED = 4096
# RFC 1123 subdomain, as the API server demands; anything else would also change the path.
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class ReadThrough:
    """Asks the API server for objects by name and puts them into the store.

    `deadline_s` bounds one `fetch`. `repeat_s` is how long the same object is not asked for again, and how long nothing
    is asked after the API server failed to answer: a broken API server must not slow every decision.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        *,
        clock: Clock,
        metrics: CatalogueMetrics,
        deadline_s: float = 0.3,
        repeat_s: float = 1.0,
        parallel: int = 8,
    ) -> None:
        self._api = api
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._deadline_s = deadline_s
        self._repeat_s = repeat_s
        self._slots = asyncio.Semaphore(parallel)
        self._not_before: dict[ObjectRef, float] = {}
        self._silent_until = 0.0

    async def fetch(self, refs: Iterable[ObjectRef]) -> bool:
        """Read `refs`, and what the claims among them point to; whether anything new was learnt."""
        wanted = [ref for ref in dict.fromkeys(refs) if self._allowed(ref)][:MAX_REFS]
        before = self._store.generation
        if wanted:
            try:
                async with asyncio.timeout(self._deadline_s), asyncio.TaskGroup() as group:
                    for ref in wanted:
                        group.create_task(self._read(ref))
            except TimeoutError:
                self._unanswered("no answer in time")
        return self._store.generation != before

    def _allowed(self, ref: ObjectRef) -> bool:
        now = self._clock.monotonic()
        named = _NAME.fullmatch(ref.name) and (not ref.namespace or _NAME.fullmatch(ref.namespace))
        if named and now >= self._silent_until and now >= self._not_before.get(ref, 0.0):
            return True
        self._metrics.reads.labels("suppressed").inc()
        return False

    async def _read(self, ref: ObjectRef) -> None:
        """One object, and what it names in turn."""
        self._remember(ref)
        call = Call("GET", RESOURCES[ref.kind].path(ref.namespace, ref.name))
        try:
            async with self._slots:
                body = await self._api.call(call, deadline_s=self._deadline_s)
            record, _ = record_of(ref.kind, body)
        except msgspec.DecodeError as error:
            self._metrics.bad_objects.labels(ref.kind).inc()
            log.warning("object skipped", kind=ref.kind, error=str(error))
            return
        except ApiError as error:
            self._not_read(error)
            return
        self._store.put(record)
        self._metrics.reads.labels("found").inc()
        if isinstance(record, Claim):
            for following in filter(self._unknown, _named_by(record)):
                if self._allowed(following):
                    await self._read(following)

    def _unknown(self, ref: ObjectRef) -> bool:
        table = self._store.volumes if ref.kind == "PersistentVolume" else self._store.classes
        return ("", ref.name) not in table

    def _remember(self, ref: ObjectRef) -> None:
        now = self._clock.monotonic()
        if len(self._not_before) >= _MAX_REMEMBERED:
            self._not_before = {known: until for known, until in self._not_before.items() if until > now}
        if len(self._not_before) < _MAX_REMEMBERED:
            self._not_before[ref] = now + self._repeat_s

    def _not_read(self, error: ApiError) -> None:
        if isinstance(error, ApiStatusError) and error.status == HTTPStatus.NOT_FOUND:
            self._metrics.reads.labels("absent").inc()
        else:
            self._unanswered(str(error))

    def _unanswered(self, error: str) -> None:
        self._metrics.reads.labels("failed").inc()
        self._silent_until = self._clock.monotonic() + self._repeat_s
        log.warning("read-through failed", error=error)


def _named_by(claim: Claim) -> list[ObjectRef]:
    refs = [ObjectRef("PersistentVolume", "", claim.volume)] if claim.volume else []
    return [*refs, ObjectRef("StorageClass", "", claim.storage_class)] if claim.storage_class else refs
