"""Keeps the Node condition `leadsman.dev/StorageReady` in the API server; off by default (`--node-condition`).

A strategic merge patch of this one condition on `nodes/status`: nothing else of the Node is ever touched. At a stop the
condition is left as it is, because a restart says nothing about storage; one that nobody renews any more shows by its
`lastHeartbeatTime`. To take it away, stop the collectors and patch it out.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from leadsman.domain.clock import Clock
from leadsman.domain.report import StorageStatus
from leadsman.kube.api import STRATEGIC_MERGE_PATCH, Api, ApiError, ApiStatusError, ApiUnreachableError, Call
from leadsman.kube.backoff import Backoff
from leadsman.telemetry.logs import get_logger
from leadsman_health_collector.kube.condition import CONDITION, Condition, condition_of
from leadsman_health_collector.kube.event_series import timestamp
from leadsman_health_collector.kube.metrics import ConditionMetrics

log = get_logger("collector.condition")

_RIGHTS = "deploy/health-collector/rbac-node-condition.yaml"


@dataclass(frozen=True, slots=True)
class ConditionSettings:
    """Times in seconds: at least `gap_s` between two writes, at most `heartbeat_s`."""

    gap_s: float = 10.0
    heartbeat_s: float = 300.0
    deadline_s: float = 10.0
    backoff_limit_s: float = 300.0


class _Standing(NamedTuple):
    """The condition as the API server has it; an empty status for none."""

    status: str = ""
    since: str = ""


class _Listed(msgspec.Struct, rename="camel"):
    type: str
    status: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct):
    conditions: list[_Listed] | None = None


class _Node(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class NodeConditionWriter:
    """Writes what `show` was last given: a change at once (but see `gap_s`), else as a heartbeat."""

    def __init__(
        self,
        api: Api,
        node: str,
        *,
        clock: Clock,
        metrics: ConditionMetrics,
        settings: ConditionSettings | None = None,
    ) -> None:
        self._api = api
        self._path = f"/api/v1/nodes/{quote(node, safe='')}"
        self._clock = clock
        self._metrics = metrics
        self._settings = settings or ConditionSettings()
        self._wanted: Condition | None = None
        self._written: Condition | None = None
        self._standing: _Standing | None = None
        self._news = asyncio.Event()
        self._backoff = Backoff(self._settings.gap_s, self._settings.backoff_limit_s)
        self._trouble = ""

    def show(self, statuses: Iterable[StorageStatus]) -> None:
        """These are the node's storages now. Never waits."""
        wanted = condition_of(statuses)
        if wanted != self._wanted:
            self._wanted = wanted
            self._news.set()

    def describe(self) -> tuple[bool, str]:
        """Whether the condition is kept, and words for people, for /readyz."""
        if self._trouble:
            return False, self._trouble
        return True, f"{CONDITION} is {self._written.status}" if self._written else "not written yet"

    async def run(self) -> None:
        """Write, for ever, from the first `show` on."""
        await self._news.wait()
        while True:
            self._news.clear()
            await asyncio.sleep(await self._write())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.heartbeat_s - self._settings.gap_s):
                    await self._news.wait()

    async def _write(self) -> float:
        """One attempt; how long to wait before the next may be made."""
        wanted = self._wanted
        if wanted is None:
            return 0.0
        try:
            standing = self._standing or await self._read()
            now = timestamp(self._clock.epoch())
            since = standing.since if standing.since and standing.status == wanted.status else now
            await self._patch(wanted, now, since)
        except ApiError as error:
            return self._failed(error)
        self._standing = _Standing(wanted.status, since)
        self._written = wanted
        self._well()
        return self._settings.gap_s

    async def _read(self) -> _Standing:
        """What an earlier run has left, so that a restart is no transition."""
        body = await self._api.call(Call("GET", self._path), deadline_s=self._settings.deadline_s)
        try:
            listed = msgspec.json.decode(body, type=_Node).status.conditions or ()
        except msgspec.DecodeError as error:
            raise ApiUnreachableError(f"GET {self._path}: not a Node: {error}") from error
        return next(
            (_Standing(one.status, one.last_transition_time or "") for one in listed if one.type == CONDITION),
            _Standing(),
        )

    async def _patch(self, wanted: Condition, now: str, since: str) -> None:
        condition = {"type": CONDITION, **wanted._asdict(), "lastHeartbeatTime": now, "lastTransitionTime": since}
        call = Call(
            "PATCH",
            f"{self._path}/status",
            body={"status": {"conditions": [condition]}},
            content_type=STRATEGIC_MERGE_PATCH,
        )
        await self._api.call(call, deadline_s=self._settings.deadline_s)
        self._metrics.written.inc()

    def _well(self) -> None:
        if self._trouble:
            log.info("the node condition is written again")
        self._trouble = ""
        self._backoff.reset()

    def _failed(self, error: ApiError) -> float:
        """Note the failure; how long to wait."""
        self._metrics.failures.inc()
        self._news.set()  # there is still something to write
        if isinstance(error, ApiStatusError) and error.status == HTTPStatus.NOT_FOUND:
            self._standing = None  # a Node that comes back has no such condition
        if not self._trouble:  # once per loss, not per try
            log.warning("the node condition cannot be written", error=_advice(error))
        self._trouble = _advice(error)
        return self._backoff.after(error)


def _advice(error: ApiError) -> str:
    status = error.status if isinstance(error, ApiStatusError) else 0
    if status == HTTPStatus.FORBIDDEN:
        return f"no right to write the node condition; apply {_RIGHTS}, or leave out --node-condition ({error})"
    if status == HTTPStatus.NOT_FOUND:
        return f"no Node to write the condition on; check --node-name ({error})"
    return str(error)
