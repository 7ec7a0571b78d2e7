"""What drives probes: rounds, switches, facts that grow old."""

import asyncio

from prometheus_client import CollectorRegistry

from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman.testing.waiting import eventually
from leadsman_health_collector.book import Change, HealthBook
from leadsman_health_collector.fact_rounds import FactRounds, Facts
from leadsman_health_collector.metrics import ProbeMetrics
from leadsman_health_collector.observation import Kind, Observation, Outcome
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.rounds import Rounds

NFS, SMB = StorageKey("nfs.csi.k8s.io", "a"), StorageKey("smb.csi.k8s.io", "b")


class TwoShares:
    """A probe that finds one share of each driver and notes what it is asked to look at."""

    kind = Kind.TCP
    schedule = Schedule()

    def __init__(self) -> None:
        self.looked: list[str] = []

    def discover(self):
        return {"nfs", "smb"}

    def choose(self, suspects):
        return {"nfs", "smb"}

    def sources(self):
        return {"nfs": Source(NFS, place="a:2049"), "smb": Source(SMB, place="b:445")}

    async def look(self, name):
        self.looked.append(name)
        return Observation(Outcome.GOOD)


class Stranger:
    """A probe with one source, of which only the look tells whose it is."""

    kind = Kind.PLUGIN
    schedule = Schedule()

    def __init__(self) -> None:
        self.key: StorageKey | None = None
        self.next_key: StorageKey | None = StorageKey(NFS.driver)

    def discover(self):
        return {"socket"}

    def choose(self, suspects):
        return {"socket"}

    def sources(self):
        return {"socket": Source(self.key)} if self.key else {}

    async def look(self, name):
        self.key = self.next_key
        return Observation(Outcome.GOOD)


class Meter:
    """A fact probe that reads what it is told to, or fails."""

    name = "meter"
    period = 1.0

    def __init__(self) -> None:
        self.values: dict[str, float | str] = {"load": 1.0}
        self.error: Exception | None = None

    async def read(self):
        if self.error:
            raise self.error
        return self.values


async def test_a_probe_switched_off_for_a_driver_leaves_its_sources_alone_and_unlisted():
    """The others are looked at as before, and every change is told with its source."""
    probe, clock, changes = TwoShares(), FakeClock(), []
    book = HealthBook(clock, kinds=[Kind.TCP])

    def note(change: Change, began_epoch_s: float) -> None:
        changes.append((change.source.place, change.before, change.after.state, began_epoch_s))

    rounds = Rounds(
        probe,
        book,
        period_s=10.0,
        phase_s=0.0,
        clock=clock,
        metrics=ProbeMetrics(CollectorRegistry()),
        on_news=lambda: None,
        on_change=note,
        allows=lambda kind, driver: (kind, driver) != (Kind.TCP, "smb.csi.k8s.io"),
    )
    task = asyncio.create_task(rounds.run())
    await eventually("a round is over", lambda: book.rounds(Kind.TCP) == 1, within_s=5)
    task.cancel()
    await asyncio.wait({task})
    book.evaluate()
    assert probe.looked == ["nfs"]
    assert [status.key for status in book.statuses] == [NFS]
    assert changes == [("a:2049", None, State.HEALTHY, clock.epoch())]


async def test_facts_stand_for_three_periods_and_are_then_dropped():
    """An old value is no fact; a failure or a bug of the probe is counted and ends nothing."""
    clock, registry, probe = FakeClock(), CollectorRegistry(), Meter()
    facts = Facts(clock)
    rounds = FactRounds(probe, facts, period_s=10.0, phase_s=0.0, clock=clock, metrics=ProbeMetrics(registry))
    await rounds.read()
    assert facts.current() == {"load": 1.0}
    for error in (OSError("no such file"), ValueError("a bug")):
        probe.error = error
        await rounds.read()
        clock.advance(14)
        assert facts.current() == {"load": 1.0}
    clock.advance(3)
    assert facts.current() == {}
    results = "leadsman_collector_probe_results_total"
    assert registry.get_sample_value(results, {"probe": "meter", "outcome": "not_run"}) == 2
    assert registry.get_sample_value("leadsman_collector_internal_errors_total", {"probe": "meter"}) == 1


async def test_facts_that_a_probe_no_longer_tells_are_gone_at_once():
    """A graphics card that was pulled is no longer there."""
    clock, probe = FakeClock(), Meter()
    facts = Facts(clock)
    rounds = FactRounds(
        probe, facts, period_s=10.0, phase_s=0.0, clock=clock, metrics=ProbeMetrics(CollectorRegistry())
    )
    await rounds.read()
    probe.values = {}
    await rounds.read()
    assert facts.current() == {}


async def test_a_look_that_tells_whose_source_it_is_counts_for_that_driver_at_once():
    """Also when the next look tells of another driver, or of none any more."""
    clock, probe = FakeClock(), Stranger()
    book = HealthBook(clock, kinds=[probe.kind])
    rounds = Rounds(
        probe,
        book,
        period_s=10.0,
        phase_s=0.0,
        clock=clock,
        metrics=ProbeMetrics(CollectorRegistry()),
        on_news=lambda: None,
    )
    seen = []
    for key in (StorageKey(NFS.driver), StorageKey(SMB.driver), None):
        probe.next_key = key
        async with asyncio.TaskGroup() as group:
            await rounds._look("socket", group)
        seen.append([(one.source.key, one.health.attempted) for one in book.watched(probe.kind).values()])
    assert seen == [[(StorageKey(NFS.driver), True)], [(StorageKey(SMB.driver), True)], []]
