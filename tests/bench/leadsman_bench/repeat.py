"""One repeat: fresh processes, answers checked, every case measured, then cold starts, memory and receive cost."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadsman_bench import fleet, resources
from leadsman_bench.answers import Examiner
from leadsman_bench.build import Artefacts, report
from leadsman_bench.cases import Case
from leadsman_bench.load import Loader, Plan, Target
from leadsman_bench.pipeline import HEARTBEATS_PER_SECOND, Bench, Service
from leadsman_bench.resources import ReceiveCost
from leadsman_bench.samples import Pair


@dataclass(frozen=True, slots=True)
class Settings:
    """How much to measure, and against what.

    `window_s` is the length of each receive-cost measurement in seconds; `gogc` the Go extender's GOGC: a large value
    stands in for a large live heap, such as informer caches, which collects seldom.
    """

    cases: Sequence[Case]
    plan: Plan
    window_s: float
    gogc: int = 100


@dataclass(frozen=True, slots=True)
class Resources:
    """Seconds to ready by service, MB of resident memory by service and moment, and the cost of a report."""

    cold_start_s: dict[str, float]
    rss_mb: dict[str, float]
    receive: ReceiveCost


@dataclass(frozen=True, slots=True)
class Repeat:
    """Everything that one repeat has measured."""

    pairs: dict[Case, Pair]
    resources: Resources


@dataclass(frozen=True, slots=True)
class _Stack:
    nats_url: str
    filter_: Service
    scorer: Service
    gateway: Service
    extender: Service

    @property
    def targets(self) -> tuple[Target, Target]:
        ours = (self.gateway.pid, self.filter_.pid, self.scorer.pid)
        return (
            Target("Go", self.extender.ports["http"], (self.extender.pid,)),
            Target("Leadsman", self.gateway.ports["http"], ours),
        )


def run_repeat(folder: Path, artefacts: Artefacts, settings: Settings) -> Repeat:
    """Start everything below `folder`, measure, and stop everything, whatever happens.

    Raises:
        LoadError: a wrong answer or none.
        ProcessEndedError, NotInTimeError: a process did not start or did not stay.
    """
    with Bench(folder) as bench:
        nats_url = bench.start_nats()
        feeder = bench.start_feeder(nats_url)
        stack = _start_stack(bench, nats_url, artefacts, settings.gogc)
        pairs, rss_mb = _measure_cases(stack, artefacts, settings, folder)
        cold_start_s = _measure_cold_starts(bench, stack)
        bench.stop(feeder)
        receive = _measure_receive(bench, nats_url, settings.window_s)
    return Repeat(pairs, Resources(cold_start_s, rss_mb, receive))


def _start_stack(bench: Bench, nats_url: str, artefacts: Artefacts, gogc: int) -> _Stack:
    fleet.write_manifests(bench.folder / "manifests")
    filter_, scorer = bench.start_filter(nats_url), bench.start_scorer(nats_url)
    bench.wait_ready(filter_)
    bench.wait_ready(scorer)
    gateway = bench.start_gateway(nats_url, filter_, scorer, bench.folder / "manifests")
    bench.wait_ready(gateway)
    examiner = Examiner(artefacts.bodies)
    # A gateway is ready without a scorer, whose link may take a moment longer.
    scores = gateway.process.wait_for("all nodes have scores", lambda: examiner.scores(gateway.ports["http"]))
    extender = bench.start_extender(artefacts.extender, fleet.extender_state(scores), gogc)
    return _Stack(nats_url, filter_, scorer, gateway, extender)


def _measure_cases(
    stack: _Stack, artefacts: Artefacts, settings: Settings, folder: Path
) -> tuple[dict[Case, Pair], dict[str, float]]:
    ports = {target.name: target.port for target in stack.targets}
    examiner = Examiner(artefacts.bodies)
    loader = Loader(artefacts.loadgen, artefacts.bodies, folder)
    pairs: dict[Case, Pair] = {}
    rss_mb: dict[str, float] = {}
    # Full nodes come last and are checked late: memory and allocator remember large bodies.
    for moment, group in _by_form(settings.cases).items():
        sizes = examiner.check(group, ports)
        for case in group:
            pairs[case] = _measure(loader, case, stack.targets, sizes[case], settings.plan)
        rss_mb[f"gateway after {moment}"] = resources.resident_mb(stack.gateway)
    for name, service in (("filter", stack.filter_), ("scorer", stack.scorer), ("Go extender", stack.extender)):
        rss_mb[name] = resources.resident_mb(service)
    return pairs, rss_mb


def _by_form(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases with names, then cases with full nodes; the key says how large the largest body of a group is."""
    groups: dict[str, list[Case]] = {}
    for full in (False, True):
        if group := [case for case in cases if case.body.full == full]:
            groups[max((case.body for case in group), key=lambda body: body.count).candidates] = group
    return groups


def _measure(loader: Loader, case: Case, targets: Sequence[Target], sizes: dict[str, int], plan: Plan) -> Pair:
    measured = loader.compare(case, targets, sizes, plan.for_case(case))
    pair = Pair(go=measured["Go"], ours=measured["Leadsman"])
    ratio = pair.ours.p50_ms / pair.go.p50_ms
    report(f"{case.name}: Go {pair.go.p50_ms:.3f} ms, Leadsman {pair.ours.p50_ms:.3f} ms ({ratio:.2f})")
    return pair


def _measure_cold_starts(bench: Bench, stack: _Stack) -> dict[str, float]:
    url = stack.nats_url
    starts: dict[str, Callable[[], Service]] = {
        "filter": lambda: bench.start_filter(url),
        "scorer": lambda: bench.start_scorer(url),
        "gateway": lambda: bench.start_gateway(url, stack.filter_, stack.scorer, bench.folder / "manifests"),
    }
    measured = {name: resources.cold_start(bench, start) for name, start in starts.items()}
    report("cold start: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in measured.items()))
    return measured


def _measure_receive(bench: Bench, nats_url: str, window_s: float) -> ReceiveCost:
    replica = bench.start_filter(nats_url)
    bench.wait_ready(replica)
    cost = resources.receive_cost(bench, nats_url, replica, HEARTBEATS_PER_SECOND, window_s)
    report(f"a report costs a filter {cost.live_us:.1f} us at 5,000 nodes, {cost.burst_us:.1f} us at 50,000")
    return cost


def median_resources(repeats: Sequence[Repeat]) -> Resources:
    """Medians over repeats of every figure."""
    every = [repeat.resources for repeat in repeats]
    return Resources(
        _medians([one.cold_start_s for one in every]),
        _medians([one.rss_mb for one in every]),
        ReceiveCost(
            statistics.median(one.receive.live_us for one in every),
            statistics.median(one.receive.burst_us for one in every),
        ),
    )


def _medians(every: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in every) for name in every[0]}
