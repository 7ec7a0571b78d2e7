"""The health of all nodes as this replica knows it: fed by the bus, aged by the clock, shown to people."""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from leadsman.bus.connect import Bus
from leadsman.bus.replica import Replica
from leadsman.domain.clock import Clock
from leadsman.domain.durations import format_duration
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.report import NodeReport
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.runtime.admin import Check
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle

TICK_S = 1.0
"""How often ages are looked at."""

TELL_SILENT_EVERY_S = 10.0
"""A change of the number of silent nodes is logged at most this often; the last number always is."""

log = get_logger("hop.cache")


class HealthCache:
    """Keeps a HealthIndex in step with the bus. `after_change` runs in the same turn, once a change is in force."""

    def __init__(
        self,
        bus: Bus,
        policy: StoragePolicy,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        stream_settle_s: float = 0.0,
    ) -> None:
        self.index = HealthIndex(policy, first_generation(clock))
        self.after_change: Callable[[], None] = _nothing
        self._clock = clock
        self._replica = Replica(
            bus,
            clock=clock,
            registry=registry,
            listener=self,
            on_forget=self.on_forget,
            stream_settle_s=stream_settle_s,
        )
        self._silent_told = 0
        self._throttle = Throttle(TELL_SILENT_EVERY_S)
        self._measure(registry)

    @property
    def synced(self) -> bool:
        """Whether the first full snapshot has been taken in."""
        return self._replica.synced

    @property
    def frozen(self) -> bool:
        """Whether NATS is out of reach, so that the last known states stand."""
        return self._replica.frozen

    def on_report(self, report: NodeReport, age_s: float) -> None:
        """Take in a reporter's newest report (called by the replica)."""
        self.index.apply(report, age_s, self._clock.monotonic())
        self.after_change()

    def on_forget(self, reporter: str) -> None:
        """Drop a reporter that has been silent for very long (called by the replica)."""
        self.index.forget(reporter)
        self.after_change()

    def tick(self) -> None:
        """Let states age by what the clock says now."""
        was_blind = self.index.blind
        frozen_for_s = self._replica.frozen_for_s if self._replica.frozen else None
        self.index.tick(self._clock.monotonic(), self._replica.age, frozen_for_s)
        if self.index.blind != was_blind:
            log.info("every state counts as unknown" if self.index.blind else "states count again")
        self._tell_silent()
        self.after_change()

    async def keep_in_step(self) -> None:
        """Eternal task: follow the bus."""
        await self._replica.run()

    async def keep_ageing(self) -> None:
        """Eternal task: age the states."""
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()

    def checks(self) -> list[Check]:
        """Readiness: synced once. All else is shown but leaves the service ready: stale answers beat none."""
        return [
            Check("cache", self._replica.describe),
            Check("stream", self._replica.describe_stream, required=False),
            Check("nodes", self._check_nodes, required=False),
            Check("bus", self._check_bus, required=False),
        ]

    def _check_bus(self) -> tuple[bool, str]:
        if not self.frozen:
            return True, "following"
        lost = f"NATS out of reach for {format_duration(self._replica.frozen_for_s)}"
        if self.index.blind:
            return False, f"{lost}: every state counts as unknown"
        limit = format_duration(self.index.policy.bus_frozen_max_age_s)
        return False, f"{lost}: last known states stand, up to {limit}"

    def _check_nodes(self) -> tuple[bool, str]:
        silent, known = self.index.silent, self.index.nodes
        if not silent:
            return True, f"all {known} report"
        return False, f"{silent} of {known} nodes silent: their states are stale, rejecting ones hold a while"

    def _tell_silent(self) -> None:
        silent = self.index.silent
        if silent == self._silent_told or not self._throttle.allows("silent", self._clock.monotonic()):
            return
        write = log.warning if silent > self._silent_told else log.info  # counted by leadsman_cache_stale_nodes
        write("silent nodes", silent=silent, before=self._silent_told, nodes=self.index.nodes)
        self._silent_told = silent

    def _measure(self, registry: CollectorRegistry) -> None:
        for name, words, value in (
            (
                "cache_stale_nodes",
                "Nodes that have been silent for so long that their states are stale.",
                lambda: self.index.silent,
            ),
            ("cache_storages", "Distinct (driver, backend) pairs in the cache.", lambda: len(self.index.storages())),
            ("cache_bad_volumes", "Volumes that some node refuses.", lambda: len(self.index.volumes())),
            ("cache_changes", "Generation of the cache: grows with every change of a state.", self._changes),
            ("cache_blind", "1 while every state counts as unknown, NATS having been lost for too long.", self._blind),
        ):
            Gauge(f"leadsman_{name}", words, registry=registry).set_function(value)

    def _changes(self) -> float:
        return float(self.index.changes)

    def _blind(self) -> float:
        return float(self.index.blind)


def first_generation(clock: Clock) -> int:
    """Where generations begin in a process that starts now: milliseconds since 1970, with room for 1024 in each."""
    return int(clock.epoch() * 1000) << 10


def _nothing() -> None:
    return None
