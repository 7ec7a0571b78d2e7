"""One pass over this machine, for people: every probe looks, bad looks are confirmed, and that is all."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from leadsman.domain.clock import Clock
from leadsman.kube.api import Api
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.boot import read_boot_id
from leadsman_health_collector.check_report import CheckReport, Looked, Skipped
from leadsman_health_collector.config_file import CollectorConfig
from leadsman_health_collector.fact_rounds import FactRounds, Facts
from leadsman_health_collector.kube.cluster_link import ClusterLink
from leadsman_health_collector.metrics import CollectorMetrics
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probe_set import ProbeSet, Surroundings
from leadsman_health_collector.probes.probe import FactProbe, FactValue, Probe
from leadsman_health_collector.settings import LookSettings
from leadsman_health_collector.state_file import Remembered
from leadsman_health_collector.workers import WorkerPool

LOOKS = 3
"""Looks at what is not well, as many as a collector takes before it says so."""

PAUSE_S = 1.0
"""Between two of them, so that a server that is just restarting is not caught twice."""

TURNS = 32
"""Rounds in which sources take turns (mounts do, eight of a backend at a time)."""

API_S = 5.0
"""How long the API server may take to tell about the node."""

DIFFERENCE_S = 1.0
"""Facts that are differences need this long between two readings."""

_FIRST = frozenset({Kind.PLUGIN, Kind.MOUNT})

Progress = Callable[[str], None]

_NOTHING = {
    Kind.PLUGIN: "no CSI socket is here",
    Kind.REGISTRATION: "no CSI driver that could be registered is here",
    Kind.STORAGE_HEALTH: "no CSI driver here tells the health of its storage",
    Kind.VOLUME_HEALTH: "no CSI driver here tells the health of volumes, or none is mounted",
    Kind.TCP: "no endpoint without a protocol of its own is known",
    Kind.PROTOCOL: "no endpoint with a known protocol is known; --config can name some",
    Kind.NAME: "no endpoint has a name",
    Kind.MOUNT: "no storage is mounted",
    Kind.FLAGS: "no storage is mounted",
    Kind.PATHS: "no mounted block device has paths that the kernel tells of",
    Kind.CAPACITY: "no writable storage is mounted",
    Kind.PRESSURE: "no storage is mounted from a local block device, or the kernel keeps no pressure",
    Kind.KERNEL: "no driver whose needs are known is here",
}


@dataclass(slots=True)
class _Findings:
    """What a pass has seen so far."""

    seen: dict[tuple[Kind, str], Observation] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


async def take_pass(
    settings: LookSettings, config: CollectorConfig, api: Api | None, clock: Clock, progress: Progress, *, node: str
) -> CheckReport:
    """Look at everything on this machine, which is `node` in its cluster; `progress` is told what is going on.

    It takes a few seconds, some more if something does not answer.
    """
    began = clock.monotonic()
    registry = CollectorRegistry()
    boot_id = read_boot_id(settings.roots.proc)
    cluster = ClusterLink(api, node, events=False, node_condition=False, clock=clock, registry=registry)
    workers = WorkerPool(f"check on {node}", boot_id, clock)
    around = Surroundings(
        node=node,
        boot_id=boot_id,
        clock=clock,
        workers=workers,
        metrics=CollectorMetrics(registry),
        view=lambda: cluster.view,
        api=api is not None,
        everything=settings.sidecar is None,
        patient=False,
    )
    probes = ProbeSet(settings, config, Remembered(), around)
    book = HealthBook(clock, kinds=probes.kinds, looked_for=lambda driver: probes.allows(Kind.PLUGIN, driver))
    one = _Pass(probes, book, settings.period_s, progress)
    try:
        async with _cluster_known(cluster, progress):
            facts = await _facts_around(one.run(), probes.facts, clock, around.metrics)
    finally:
        probes.close()
        await workers.close()
        await cluster.close()
    book.evaluate()
    shares = probes.shares()
    none = (None, None)
    return CheckReport(
        node=node,
        taken_epoch_s=clock.epoch(),
        took_s=clock.monotonic() - began,
        storages=tuple(
            status._replace(used=shares.get(status.key, none)[0], inodes_used=shares.get(status.key, none)[1])
            for status in book.statuses
        ),
        looked=one.looked(),
        bad_volumes=book.bad_volumes,
        facts=facts.current(),
        skipped=(*one.findings.skipped, *_left_out(config, probes, facts.current())),
    )


class _Pass:
    def __init__(self, probes: ProbeSet, book: HealthBook, period_s: float, progress: Progress) -> None:
        self.findings = _Findings()
        self._probes = probes
        self._book = book
        self._period = period_s
        self._progress = progress

    async def run(self) -> None:
        """Plugins and mounts first: what they tell is what the other probes look for or rest on."""
        await self._probes.prepare()
        first = [probe for probe in self._probes.probes if probe.kind in _FIRST]
        others = [probe for probe in self._probes.probes if probe.kind not in _FIRST]
        with contextlib.suppress(OSError):  # each probe says for itself what it cannot read
            self._probes.table.current()
        for group in (first, others):
            await asyncio.gather(*(self._look_at_all(probe) for probe in group))
        for again in range(1, LOOKS):
            doubtful = {probe.kind: self._doubtful(probe.kind) for probe in self._probes.probes}
            if not any(doubtful.values()):
                break
            self._progress(f"look {again + 1} of {LOOKS} at {sum(map(len, doubtful.values()))} that are not well")
            await asyncio.sleep(PAUSE_S)
            await asyncio.gather(*(self._look(probe, doubtful[probe.kind]) for probe in self._probes.probes))

    def looked(self) -> tuple[Looked, ...]:
        """Every source with what was seen of it."""
        return tuple(
            Looked(kind, name, one.source, self.findings.seen[kind, name], one.health.level)
            for kind in self._probes.kinds
            for name, one in self._book.watched(kind).items()
            if (kind, name) in self.findings.seen
        )

    async def _look_at_all(self, probe: Probe) -> None:
        try:
            names = set(probe.discover())
        except OSError as error:
            self.findings.skipped.append(Skipped(probe.kind.value, f"cannot tell what to look at: {error}"))
            return
        if names:
            self._progress(f"{probe.kind.value}: {len(names)} to look at")
        for _ in range(TURNS):
            left = names - {name for kind, name in self.findings.seen if kind is probe.kind}
            chosen = left & set(probe.choose(frozenset(left)))
            if not chosen:
                break
            await self._look(probe, chosen)
        if not self._book.watched(probe.kind):
            why = _NOTHING.get(probe.kind, "there is nothing of the kind here")
            self.findings.skipped.append(Skipped(probe.kind.value, why))

    async def _look(self, probe: Probe, names: Collection[str]) -> None:
        if not names:
            return
        self._watch(probe)
        seen = await asyncio.gather(*(probe.look(name) for name in names), return_exceptions=True)
        self._watch(probe)  # a look may have told whose source it is
        for name, one in zip(names, seen, strict=True):
            found = one if isinstance(one, Observation) else not_run(f"the look failed by a bug: {one!r}")
            self.findings.seen[probe.kind, name] = found
            self._book.record(probe.kind, name, found)
        self._book.end_round(probe.kind, discovered=True)

    def _watch(self, probe: Probe) -> None:
        wanted = {
            name: source
            for name, source in probe.sources().items()
            if self._probes.allows(probe.kind, source.key.driver)
        }
        # What is absent three times in a row is not given the grace of a restart: a pass ends after that.
        thresholds = replace(probe.schedule.thresholds, grace=0.0, starting=0.0)
        self._book.watch(probe.kind, wanted, thresholds, self._period)

    def _doubtful(self, kind: Kind) -> list[str]:
        """Sources whose last look was bad, however much it takes to be sure."""
        ran = self.findings.seen
        return [
            name
            for name in self._book.suspects(kind)
            if ran.get((kind, name), not_run("")).outcome is not Outcome.NOT_RUN
        ]


@contextlib.asynccontextmanager
async def _cluster_known(cluster: ClusterLink, progress: Progress) -> AsyncIterator[None]:
    """The cluster is watched as long as the block lasts, and has had time to tell about the node before it."""
    known = asyncio.Event()
    cluster.on_change(known.set)
    tasks = [asyncio.ensure_future(task) for task in cluster.tasks().values()]
    if tasks:
        progress("asking the API server about this node")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(API_S):
                await known.wait()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _facts_around(
    looks: Coroutine[object, object, None], probes: list[FactProbe], clock: Clock, metrics: CollectorMetrics
) -> Facts:
    """Facts, read before and after `looks`, because some are differences."""
    facts = Facts(clock)
    rounds = [
        FactRounds(probe, facts, period_s=60.0, phase_s=0.0, clock=clock, metrics=metrics.probes) for probe in probes
    ]
    await asyncio.gather(*(one.read() for one in rounds))
    async with asyncio.TaskGroup() as group:
        group.create_task(looks)
        group.create_task(asyncio.sleep(DIFFERENCE_S))
    await asyncio.gather(*(one.read() for one in rounds))
    return facts


def _left_out(config: CollectorConfig, probes: ProbeSet, facts: Mapping[str, FactValue]) -> list[Skipped]:
    off = [Skipped(name, "switched off by the configuration") for name in sorted(config.disabled)]
    if Kind.CANARY not in probes.kinds and Kind.CANARY not in config.disabled:
        off.append(Skipped(Kind.CANARY.value, "no canary is configured; it would write to storage"))
    told = {name.partition(".")[0] for name in facts}
    return off + ([] if "gpu" in told else [Skipped("gpu", "no GPU with an NVIDIA driver is here")])
