"""What a node's collector has reported, as a history of changes per key and per volume."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from leadsman.bus.subjects import status_subject
from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.wire.report import decode_report

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Seen:
    """From `at` (monotonic seconds) on the reports said this; `state` None: not listed."""

    at: float
    state: State | None
    reason: Reason | None = None
    message: str = ""

    @property
    def words(self) -> str:
        """Short text for people."""
        if self.state is None:
            return "not listed"
        return f"{self.state} {self.reason} ({self.message})" if self.reason else str(self.state)


_NOTHING = Seen(0.0, None)


class Watch:
    """Listens on one node's subject."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._client: Client | None = None
        self._keys: dict[StorageKey, list[Seen]] = defaultdict(list)
        self._volumes: dict[tuple[str, str], list[Seen]] = defaultdict(list)
        self._slowest: dict[StorageKey, float] = {}
        self.reports = 0

    async def open(self, url: str) -> None:
        """Listen by the NATS server at `url`."""
        self._client = await nats.connect(url)
        await self._client.subscribe(status_subject(self._node), cb=self._hear)
        await self._client.flush()

    async def close(self) -> None:
        """Stop listening."""
        if self._client is not None:
            await self._client.close()

    @property
    def reported(self) -> list[StorageKey]:
        """Every key that was ever reported."""
        return sorted(self._keys)

    def of_key(self, key: StorageKey, since: float = 0.0) -> list[Seen]:
        """What was reported of `key`: what held at `since` and every change after it."""
        return _since(self._keys.get(key, []), since)

    def of_volume(self, driver: str, volume: str, since: float = 0.0) -> list[Seen]:
        """The same for a volume in the lists of bad ones."""
        return _since(self._volumes.get((driver, volume), []), since)

    def now(self, key: StorageKey) -> Seen:
        """What the latest report says of `key`."""
        return self._keys[key][-1] if self._keys.get(key) else _NOTHING

    def volume_now(self, driver: str, volume: str) -> Seen:
        """What the latest report says of a volume; state None is the good case."""
        listed = self._volumes.get((driver, volume))
        return listed[-1] if listed else _NOTHING

    def slowest(self, key: StorageKey) -> float:
        """The highest latency that was ever reported of `key`."""
        return self._slowest.get(key, 0.0)

    def forget_latency(self, key: StorageKey) -> None:
        """Measure `slowest` anew from now on."""
        self._slowest.pop(key, None)

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Whether `condition` came true within `within_s` seconds."""
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _hear(self, message: Msg) -> None:
        self.take(decode_report(message.data), time.monotonic())

    def take(self, report: NodeReport, at: float) -> None:
        """Take in one report that arrived `at`."""
        self.reports += 1
        for status in report.storages:
            _note(self._keys[status.key], Seen(at, status.state, status.reason, status.message))
            self._note_latency(status)
        listed = {(bad.driver, bad.volume): bad for bad in report.bad_volumes}
        for place in self._volumes.keys() | listed.keys():
            bad = listed.get(place)
            _note(self._volumes[place], Seen(at, bad.state, bad.reason, bad.message) if bad else Seen(at, None))

    def _note_latency(self, status: StorageStatus) -> None:
        if status.latency_s is not None:
            self._slowest[status.key] = max(self._slowest.get(status.key, 0.0), status.latency_s)


def _note(history: list[Seen], seen: Seen) -> None:
    if not history or (history[-1].state, history[-1].reason) != (seen.state, seen.reason):
        history.append(seen)


def _since(history: list[Seen], since: float) -> list[Seen]:
    later = [seen for seen in history if seen.at >= since]
    before = [seen for seen in history if seen.at < since]
    return before[-1:] + later
