"""Listen to one node's reports on the bus, to know when a recovery was published."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Self

import nats
from nats.aio.msg import Msg

from leadsman.bus.subjects import status_subject
from leadsman.domain.states import State
from leadsman.testing.waiting import wait_for
from leadsman.wire.report import decode_report


class ReportWatch:
    """Notes when `node`, whose storage is bad at the start, first reports every storage healthy. Has its own thread."""

    def __init__(self, nats_url: str, node: str) -> None:
        self._url = nats_url
        self._subject = status_subject(node)
        self._healthy_at: float | None = None
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._listen(),), daemon=True)

    def when_healthy(self) -> float:
        """The monotonic time at which the recovery was published. Raises NotInTimeError."""
        return wait_for("the recovery is published", lambda: self._healthy_at or 0.0)

    async def _listen(self) -> None:
        client = await nats.connect(self._url)
        await client.subscribe(self._subject, cb=self._on_report)
        await client.flush()
        self._ready.set()
        await self._stop.wait()
        await client.close()

    async def _on_report(self, message: Msg) -> None:
        states = {status.state for status in decode_report(message.data).storages}
        if states == {State.HEALTHY} and self._healthy_at is None:
            self._healthy_at = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)
        self._loop.close()
