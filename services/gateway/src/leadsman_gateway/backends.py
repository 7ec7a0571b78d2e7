"""Telling the collectors which backends the cluster's volumes use: on change, and every 30 s for newcomers."""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from leadsman.bus.subjects import BACKENDS
from leadsman.domain.clock import Clock
from leadsman.wire.notices import BackendList, encode_notice
from leadsman_gateway.records import Publisher

PERIOD_S = 30.0
"""Time after which the list is said again."""

SETTLE_S = 0.5
"""Changes come in bursts; the list is made once for all of them."""

_MAX_SHARE = 0.02
"""Part of the event loop's time that making the list may take while claims come and go without pause."""


class BackendAnnouncer:
    """Publishes `listing()` on `leadsman.v1.backends` once `synced()`: a half-read catalogue would un-list backends."""

    def __init__(
        self,
        publisher: Publisher,
        listing: Callable[[], BackendList],
        synced: Callable[[], bool],
        *,
        clock: Clock,
        registry: CollectorRegistry,
        period_s: float = PERIOD_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._publisher = publisher
        self._listing = listing
        self._synced = synced
        self._clock = clock
        self._period_s = period_s
        self._settle_s = settle_s
        self._said: BackendList | None = None
        self._said_at = 0.0
        self._news = asyncio.Event()
        self._listed = Gauge(
            "leadsman_gateway_backends", "Backends in the list that collectors are given.", registry=registry
        )

    def changed(self) -> None:
        """The catalogue has changed: say the list soon if it differs."""
        self._news.set()

    async def repeat(self) -> None:
        """The bus is connected anew: say the list soon in any case."""
        self._said = None
        self._news.set()

    async def run(self) -> None:
        """Eternal: publish the list."""
        pause = self._settle_s
        while True:
            try:
                async with asyncio.timeout(self._period_s):
                    await self._news.wait()
                await asyncio.sleep(pause)
            except TimeoutError:
                pass
            self._news.clear()
            started = self._clock.monotonic()
            if self._synced():
                await self._say(started)
            pause = max(self._settle_s, (self._clock.monotonic() - started) / _MAX_SHARE)

    async def _say(self, now: float) -> None:
        listing = self._listing()
        self._listed.set(len(listing.backends))
        if listing == self._said and now - self._said_at < self._period_s:
            return
        if await self._publisher.publish(BACKENDS, encode_notice(listing)):
            self._said, self._said_at = listing, now
