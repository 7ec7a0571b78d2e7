"""Tells the gateways that fewer nodes are rejected than before, so that waiting pods are tried again.

kube-scheduler retries a rejected pod only on a cluster event. The gateway makes one when it hears this notice; the
smaller set is in force here before the notice is sent.
"""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from leadsman.bus.connect import Bus
from leadsman.bus.subjects import WAKE
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.policy import Mode
from leadsman.telemetry.logs import get_logger
from leadsman.wire.notices import WakeNotice, encode_notice
from leadsman_filter.view import FilterView

MAX_NAMED = 64
"""Storages, volumes and rules named in one notice; they inform people, the gateway wakes all rejected pods anyway."""

log = get_logger("filter.wake")


class WakePublisher:
    """Publishes one notice for all recoveries of one turn of the event loop, of storages and of rules.

    What NATS does not take is kept and sent after the next connect. The first notice is sent when the service
    begins to answer: pods may have been rejected while it was away.
    """

    def __init__(
        self,
        bus: Bus,
        index: HealthIndex,
        view: Callable[[], FilterView],
        instance: str,
        registry: CollectorRegistry,
    ) -> None:
        self._bus = bus
        self._index = index
        self._view = view
        self._instance = instance
        self._pending: set[str] = set()
        self._owed = False
        self._due = asyncio.Event()
        self._notices = Counter(
            "leadsman_filter_wake_notices_total",
            "Notices of shrunken rejected sets, by result: sent, kept (NATS out of reach).",
            ["result"],
            registry=registry,
        )
        bus.on_connect(self._connected)

    def changed(self) -> None:
        """Look for recoveries; cheap, called after every change that is in force."""
        view = self._view()
        if not (self._index.recovering or view.rules.recovering):
            return
        if view.policy.mode is Mode.SHADOW:  # nobody waits, since nobody is rejected
            self._index.take_recovered()
            view.rules.take_recovered()
        else:
            self._due.set()

    def policy_changed(self) -> None:
        """Another policy is in force: whom it lets pass is not known, so all that wait are tried."""
        self._pending.add(f"policy {self._view().policy.fingerprint}")
        self._due.set()

    async def run(self, opened: asyncio.Event) -> None:
        """Eternal task: once the service is open, publish what is due."""
        await opened.wait()
        self._owed = True
        while True:
            await self._publish()
            await self._due.wait()
            self._due.clear()

    async def _connected(self) -> None:
        if self._owed:
            self._due.set()

    async def _publish(self) -> None:
        self._pending |= self._index.take_recovered() | self._view().rules.take_recovered()
        named = sorted(self._pending)[:MAX_NAMED]
        notice = WakeNotice(self._instance, self._index.changes, named)
        self._owed = not await self._bus.publish(WAKE, encode_notice(notice))
        self._notices.labels("kept" if self._owed else "sent").inc()
        if not self._owed:
            self._pending.clear()
        # Not called a recovery: the set also shrinks when a hold ends on a silent node, or when all is unknown.
        log.info("asked for a new try of rejected pods", rejects_fewer_nodes=named, sent=not self._owed)
