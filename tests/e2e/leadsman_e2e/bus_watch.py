"""Listen to a subject on the bus, in a thread of its own, while a scenario goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Self

import nats
from nats.aio.msg import Msg

from leadsman.bus.subjects import status_subject
from leadsman.domain.states import State
from leadsman.testing.waiting import wait_for
from leadsman.wire.decision import DecisionRecord, decode_decision
from leadsman.wire.report import decode_report


class BusWatch:
    """Listens to `subject` inside its `with` block."""

    def __init__(self, nats_url: str, subject: str) -> None:
        self._url = nats_url
        self._subject = subject
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._listen(),), daemon=True)

    def hear(self, body: bytes) -> None:
        """Take one message; called in the other thread."""
        raise NotImplementedError

    async def _listen(self) -> None:
        client = await nats.connect(self._url)

        async def heard(message: Msg) -> None:
            self.hear(message.data)

        await client.subscribe(self._subject, cb=heard)
        await client.flush()
        self._ready.set()
        await self._stop.wait()
        await client.close()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)
        self._loop.close()


class ReportWatch(BusWatch):
    """Notes when `node`, whose storage is bad at the start, first reports every storage healthy."""

    def __init__(self, nats_url: str, node: str) -> None:
        super().__init__(nats_url, status_subject(node))
        self._healthy_at: float | None = None

    def when_healthy(self) -> float:
        """The monotonic time at which the recovery was published. Raises NotInTimeError."""
        return wait_for("the recovery is published", lambda: self._healthy_at or 0.0)

    def hear(self, body: bytes) -> None:
        """See `BusWatch`."""
        states = {status.state for status in decode_report(body).storages}
        if states == {State.HEALTHY} and self._healthy_at is None:
            self._healthy_at = time.monotonic()


class DecisionWatch(BusWatch):
    """Keeps the records of all decisions of one verb."""

    def __init__(self, nats_url: str, verb: str) -> None:
        super().__init__(nats_url, f"leadsman.v1.decision.{verb}")
        self._records: list[DecisionRecord] = []

    def of(self, pod: str, accept: Callable[[DecisionRecord], bool] = lambda _: True) -> DecisionRecord:
        """The first record about `pod` that `accept` likes, once there is one. Raises NotInTimeError."""

        def found() -> list[DecisionRecord]:
            return [record for record in list(self._records) if record.pod == pod and accept(record)]

        return wait_for(f"a decision about pod {pod} is recorded", found)[0]

    def hear(self, body: bytes) -> None:
        """See `BusWatch`."""
        self._records.append(decode_decision(body))
