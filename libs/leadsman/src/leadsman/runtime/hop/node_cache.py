"""All nodes as this replica knows them, health and facts: fed by the bus, aged by the clock, shown to people."""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from leadsman.bus.connect import Bus
from leadsman.bus.replica import Replica
from leadsman.domain.changes import ChangeCounter
from leadsman.domain.clock import Clock
from leadsman.domain.durations import format_duration
from leadsman.domain.fact_index import FactIndex
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

MAX_FLAGS = 20
"""Open breakers that are told by name with every reply; when a name server is lost, each of many backends has one."""

log = get_logger("hop.cache")


class NodeCache:
    """Keeps health and facts of all nodes in step with the bus; all change numbers come from `changes`.

    `after_change` runs in the same turn, once a change is in force; `after_tick` about once a second.
    """

    def __init__(
        self,
        bus: Bus,
        policy: StoragePolicy,
        *,
        clock: Clock,
        registry: CollectorRegistry,
        stream_settle_s: float = 0.0,
    ) -> None:
        self.changes = ChangeCounter(first_generation(clock))
        self.index = HealthIndex(policy, self.changes)
        self.facts = FactIndex(policy)
        self.after_change: Callable[[], None] = _nothing
        self.after_tick: Callable[[], None] = _nothing
        self.degraded: list[str] = []
        """What is not as it should be, in the words of the hop (`degraded` in proto/leadsman/v1), up to a tick old."""
        self._clock = clock
        self._replica = Replica(
            bus,
            clock=clock,
            registry=registry,
            listener=self,
            on_forget=self.on_forget,
            stream_settle_s=stream_settle_s,
        )
        # Until all nodes have been read, those that look bad may be most of the few that are known.
        self.index.complete = False
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

    def _degraded(self) -> list[str]:
        flags = self._breaker_flags()
        if self.index.blind:
            flags.append("blind")
        if self.frozen:
            flags.append("frozen")
        if self.index.silent:
            flags.append("silentNodes")
        return flags

    def _breaker_flags(self) -> list[str]:
        """Those of drivers first, since they say more."""
        open_now = sorted(self.index.open_breakers, key=lambda key: (bool(key.backend), key))
        flags = [f"breaker:{key}" for key in open_now[:MAX_FLAGS]]
        return flags if len(open_now) <= MAX_FLAGS else [*flags, f"moreBreakers:{len(open_now) - MAX_FLAGS}"]

    def adopt(self, policy: StoragePolicy) -> None:
        """Let another policy decide what states and ages are worth, from now on."""
        now = self._clock.monotonic()
        self.index.adopt(policy, now, self._replica.age)
        self.facts.adopt(policy, now, self._replica.age)
        self._tell_breakers()

    def on_report(self, report: NodeReport, age_s: float) -> None:
        """Take in a reporter's newest report (called by the replica)."""
        now = self._clock.monotonic()
        self.index.apply(report, age_s, now)
        self.facts.apply(report, age_s, now)
        self._tell_breakers()
        self.after_change()

    def on_forget(self, reporter: str) -> None:
        """Drop a reporter that has been silent for very long (called by the replica)."""
        self.index.forget(reporter)
        self.facts.forget(reporter)
        self.after_change()

    def tick(self) -> None:
        """Let states age by what the clock says now."""
        was_blind = self.index.blind
        frozen_for_s = self._replica.frozen_for_s if self._replica.frozen else None
        now = self._clock.monotonic()
        self.index.complete = self.synced
        self.index.tick(now, self._replica.age, frozen_for_s)
        self.facts.tick(now, self._replica.age, frozen_for_s)
        if self.index.blind != was_blind:
            log.info("every state counts as unknown" if self.index.blind else "states count again")
        self._tell_breakers()
        self._tell_silent()
        self.degraded = self._degraded()
        self.after_change()
        self.after_tick()

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
            Check("breaker", self._check_breakers, required=False),
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

    def _check_breakers(self) -> tuple[bool, str]:
        open_now = sorted(self.index.open_breakers)
        if not open_now:
            return True, "closed for every storage"
        return False, (
            f"open for {', '.join(map(str, open_now))}: so many nodes look bad there without a broken data path that "
            "it is taken for a fault of monitoring; only broken data paths reject"
        )

    def _tell_breakers(self) -> None:
        events = self.index.take_breaker_events()
        if events:
            self.degraded = self._degraded()
        for event in events:
            facts = {"storage": str(event.storage), "bad_nodes": event.weak, "nodes": event.total}
            if event.opened:
                log.warning("breaker opened: control-plane evidence about this storage rejects nobody now", **facts)
            else:
                log.info("breaker closed", **facts)
            self._breaker.labels(*event.storage).set(float(event.opened))
            self._breaker_transitions.labels(*event.storage, "opened" if event.opened else "closed").inc()

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
            ("cache_changes", "Generation of the cache: grows with every change.", lambda: float(self.changes.value)),
            (
                "cache_blind",
                "1 while every state counts as unknown, NATS having been lost for too long.",
                lambda: float(self.index.blind),
            ),
        ):
            Gauge(f"leadsman_{name}", words, registry=registry).set_function(value)
        self._breaker = Gauge(
            "leadsman_breaker_open",
            "1 while so many nodes look bad on control-plane evidence about the storage that it rejects nobody.",
            ["driver", "backend"],
            registry=registry,
        )
        self._breaker_transitions = Counter(
            "leadsman_breaker_transitions_total",
            "Openings and closings of a storage's breaker; `backend` is empty for that of a driver.",
            ["driver", "backend", "transition"],
            registry=registry,
        )


def first_generation(clock: Clock) -> int:
    """Where generations begin in a process that starts now: milliseconds since 1970, with room for 1024 in each."""
    return int(clock.epoch() * 1000) << 10


def _nothing() -> None:
    return None
