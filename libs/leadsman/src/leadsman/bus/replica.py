"""A replica of all node reports in memory, fed by the bus.

A node has a report of its agent, and may have some of sidecars; each reporter goes by its name (`NodeReport.reporter`),
which is the node's for the agent. Live messages and snapshots meet in one merge by (epoch, seq), so their order does
not matter and nothing goes back (but for a node whose clock did, see `ReportCache.step_back`).
After every connect: the live subscription is already on its way (the bus sends it first, on the same connection),
then the whole stream is read, and twice more what was stored since: a moment later, because a report published just
before the subscription may be stored just after the snapshot; and two seconds later, because servers of a cluster
may learn of the subscription late. A snapshot never removes a report.

Ages are link time (`leadsman.bus.link`): they stand still while the bus is frozen. Rows of a snapshot start with the
age that the server's own clock gives them, so no node's clock takes part.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping

from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from leadsman.bus.cache import ReportCache
from leadsman.bus.complaints import Complaints
from leadsman.bus.connect import Bus
from leadsman.bus.errors import BusError, NoStreamError, NotConnectedError
from leadsman.bus.intake import Intake, ReplicaListener
from leadsman.bus.metrics import ReplicaMetrics
from leadsman.bus.settling import StreamSettling
from leadsman.bus.snapshot import Row, StatusStream, StreamFacts
from leadsman.bus.streams import StreamApi
from leadsman.bus.subjects import EVERY_STATUS
from leadsman.domain.clock import Clock
from leadsman.domain.report import NodeReport, node_of
from leadsman.telemetry.logs import get_logger

__all__ = ["Replica", "ReplicaListener"]

log = get_logger("bus.replica")

EXPIRE_AFTER_S = 900.0
"""A reporter silent for this long (link time) leaves the cache; the stream keeps its report as long."""

SETTLE_S = 0.1
CATCH_UP_AFTER_S = 2.0
WATCH_EVERY_S = 60.0
EXPIRE_EVERY_S = 5.0
TURN_S = 0.002
MAX_NODES = 100_000
_RETRY_S = (0.25, 5.0)


class Replica:
    """The latest report of every reporter. Construct it, start `run`, and read; all reads are immediate.

    `reports` is a read-only live view of the latest reports by reporter name.
    `on_forget` is told of reporters that leave the cache by long silence or by `forget`. `clock` must be the bus's.
    A stream younger than `stream_settle_s` does not make the replica synced: whatever made it new, most nodes may not
    have reported to it yet (see `leadsman.bus.settling`).
    """

    def __init__(
        self,
        bus: Bus,
        *,
        registry: CollectorRegistry,
        listener: ReplicaListener,
        clock: Clock | None = None,
        on_forget: Callable[[str], None] | None = None,
        api: StreamApi | None = None,
        expire_after_s: float = EXPIRE_AFTER_S,
        watch_every_s: float = WATCH_EVERY_S,
        max_nodes: int = MAX_NODES,
        stream_settle_s: float = 0.0,
    ) -> None:
        self._bus = bus
        self._clock = clock or bus.clock
        self._on_forget = on_forget
        self._stream = StatusStream(bus, api or StreamApi())
        self._cache = ReportCache(max_nodes)
        self.reports: Mapping[str, NodeReport] = self._cache.reports
        self._settling = StreamSettling(stream_settle_s)
        self._expire_after = expire_after_s
        self._watch_every = watch_every_s
        self._wanted = asyncio.Event()
        self._synced = False
        self._turn_began = 0.0
        self._trouble = "waiting for NATS"
        self._facts: StreamFacts | None = None
        self._metrics = ReplicaMetrics(registry)
        self._complaints = Complaints(self._metrics, self._clock)
        self._intake = Intake(
            self._cache,
            listener,
            clock=self._clock,
            link_now=self._link_now,
            metrics=self._metrics,
            complaints=self._complaints,
            expire_after_s=expire_after_s,
        )
        self._metrics.follow(self._cache, self.ages, lambda: self._synced, lambda: self.frozen)

    @property
    def synced(self) -> bool:
        """Whether a whole snapshot has been loaded since the start; stays true when NATS is lost."""
        return self._synced

    @property
    def frozen(self) -> bool:
        """Whether NATS is lost or silent, so that ages stand still and the last known states stand."""
        return self._bus.link.frozen(self._clock.monotonic())

    @property
    def frozen_for_s(self) -> float:
        """Seconds since the bus was last heard; 0 unless frozen."""
        now = self._clock.monotonic()
        return self._bus.link.silent_for(now) if self._bus.link.frozen(now) else 0.0

    def age(self, reporter: str) -> float | None:
        """Seconds since the report of `reporter` was current, frozen time not counted; None for an unknown one."""
        at = self._cache.current_at(reporter)
        return None if at is None else max(0.0, self._link_now() - at)

    def ages(self) -> Mapping[str, float]:
        """`age` of every reporter, taken at one moment."""
        return self._cache.ages(self._link_now())

    def forget(self, node: str) -> None:
        """Drop `node` with all its reporters, for example because the cluster no longer has it.

        A later report brings it back.
        """
        for reporter in self._cache.reporters(node):
            self._cache.forget(reporter)
            self._tell_forgotten(reporter)

    def describe(self) -> tuple[bool, str]:
        """Whether the replica is fit to answer from, and a sentence about it for /readyz."""
        if not self._synced:
            return False, f"no snapshot yet: {self._trouble}"
        known = f"{self._cache.nodes} nodes"
        if self.frozen:
            return True, f"{known}; NATS silent for {self.frozen_for_s:.0f}s, last known states stand"
        return True, known

    def describe_stream(self) -> tuple[bool, str]:
        """Whether the stored reports could be read when last looked at, and a sentence about it for /readyz."""
        return not self._trouble, self._trouble or "read"

    async def run(self) -> None:
        """Keep the cache current, for ever; no message and no server can end it."""
        self._bus.on_connect(self._on_connect)
        await self._bus.subscribe(EVERY_STATUS, self._on_message)
        if self._bus.connected:
            self._wanted.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sync_forever())
            tasks.create_task(self._every(self._watch_every, self._watch))
            tasks.create_task(self._every(EXPIRE_EVERY_S, self._expire))

    async def _on_connect(self) -> None:
        self._wanted.set()

    async def _on_message(self, msg: Msg) -> None:
        self._intake.live(msg)
        if time.perf_counter() - self._turn_began > TURN_S:
            # nats-py hands out all that waits in one turn of the loop: a backlog would starve even our own PINGs.
            await asyncio.sleep(0)
            self._turn_began = time.perf_counter()

    async def _sync_forever(self) -> None:
        retry = _RETRY_S[0]
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if await self._guarded(self._sync):
                retry = _RETRY_S[0]
                continue
            self._trouble = self._trouble or "internal error, see the log"
            if await self._undisturbed_for(retry * random.uniform(0.8, 1.2)):  # noqa: S311
                retry = min(2 * retry, _RETRY_S[1])
                self._wanted.set()

    async def _sync(self) -> None:
        """Load a snapshot, then what was stored in the next two seconds unless a new snapshot is asked for."""
        started = time.perf_counter()
        rows, last_seq = await self._load(first_seq=1)
        await asyncio.sleep(SETTLE_S)
        late_rows, last_seq = await self._load(first_seq=last_seq + 1)
        if not self._synced and await self._awaited_more(rows + late_rows):
            return
        took = time.perf_counter() - started
        self._metrics.snapshots.labels("loaded").inc()
        self._metrics.snapshot_seconds.observe(took)
        self._metrics.snapshot_rows.set(rows + late_rows)
        self._synced, self._trouble = True, ""
        log.info("loaded the node reports", rows=rows + late_rows, nodes=self._cache.nodes, seconds=round(took, 4))
        if await self._undisturbed_for(CATCH_UP_AFTER_S):
            await self._load(first_seq=last_seq + 1)

    async def _awaited_more(self, rows: int) -> bool:
        """Whether the stream was too young to be complete; waits until it is old enough and asks for a new snapshot."""
        facts = self._facts
        assert facts is not None  # noqa: S101 - a snapshot has just been read
        wait = self._settling.remaining(facts.created, facts.age_s, self._clock.monotonic())
        if wait <= 0:
            return False
        self._trouble = f"the stream is new (created {facts.created}); waiting until all nodes can have reported to it"
        self._metrics.snapshots.labels("young").inc()
        log.info("waiting for all nodes to report to a new stream", rows=rows, seconds=round(wait, 1))
        await self._undisturbed_for(wait)
        self._wanted.set()
        return True

    async def _load(self, first_seq: int) -> tuple[int, int]:
        facts = await self._examine()
        link_then = self._link_now()
        rows = 0

        def on_row(row: Row) -> None:
            nonlocal rows
            rows += 1
            self._intake.stored(row, max(0.0, facts.server_time - row.stored_at), link_then)

        last_seq = await self._stream.read(first_seq, facts.last_seq, on_row, self._intake.unreadable)
        return rows, last_seq

    async def _examine(self) -> StreamFacts:
        """Ask for the stream's facts; a stream that was re-created or rolled back is loaded (again)."""
        before, facts = self._facts, await self._stream.facts()
        self._facts = facts
        self._intake.server_lead = facts.server_time - self._clock.epoch()
        kind = facts.reset_since(before)
        if kind:
            self._metrics.stream_resets.labels(kind).inc()
            log.warning("the status stream is not the one it was; loading it again", kind=kind, created=facts.created)
            self._wanted.set()
        return facts

    async def _watch(self) -> None:
        """Look for a stream that changed under a live connection; when in doubt, load it again."""
        if self._bus.connected:
            try:
                await self._examine()
            except BusError:
                self._wanted.set()
                raise

    async def _expire(self) -> None:
        for reporter in self._cache.expire(self._link_now(), self._expire_after):
            if not self._cache.reporters(node_of(reporter)):
                self._metrics.expired.inc()
            log.info("forgot a node or its sidecar after long silence", reporter=reporter)
            self._tell_forgotten(reporter)

    async def _every(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self._guarded(step)

    async def _guarded(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Run one step of an eternal task; whatever goes wrong is counted and said, and the task goes on."""
        try:
            await step()
        except NotConnectedError as error:
            self._trouble = str(error)  # the next connect asks for a snapshot
        except BusError as error:
            self._trouble = str(error)
            self._complaints.not_loaded("no_stream" if isinstance(error, NoStreamError) else "failed", str(error))
        except Exception:  # the steps are all that keeps the cache alive, and one fault must not end the service
            self._complaints.failed("a step of the replica failed")
        else:
            return True
        return False

    async def _undisturbed_for(self, seconds: float) -> bool:
        """Wait; False as soon as a new snapshot is asked for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
            return False
        return True

    def _tell_forgotten(self, reporter: str) -> None:
        if self._on_forget is None:
            return
        try:
            self._on_forget(reporter)
        except Exception:  # the listener's fault; the others must still expire
            self._complaints.failed("the listener failed on a forgotten reporter")

    def _link_now(self) -> float:
        return self._bus.link.value(self._clock.monotonic())
