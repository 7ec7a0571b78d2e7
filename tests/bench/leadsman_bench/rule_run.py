"""One run of the benchmark of rules: the shipped services under policies in turn, changed by their own hot reload."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from leadsman.config.policy_document import fingerprint
from leadsman.testing.pages import page
from leadsman_bench import fleet
from leadsman_bench.answers import Examiner
from leadsman_bench.build import Artefacts, report
from leadsman_bench.cases import Case
from leadsman_bench.load import Loader, Plan, Target, cpu_seconds
from leadsman_bench.payloads import Body
from leadsman_bench.pipeline import Bench, Service
from leadsman_bench.resources import reports_taken
from leadsman_bench.rule_policies import POLICIES, RulePolicy, replace_file
from leadsman_bench.rule_reload import Watch, Watched
from leadsman_bench.samples import Pair

CASES = tuple(
    Case(verb, Body(count, storage=storage))
    for verb in ("filter", "prioritize")
    for storage in (True, False)
    for count in (500, 5000)
)
"""All cases in the order of measurement."""


class Settings(NamedTuple):
    """How much to measure: `cases` by `plan` in each of `rounds`; windows of reports and of rest in seconds."""

    cases: Sequence[Case]
    rounds: int
    plan: Plan = Plan(rounds=2, burst_s=0.3, warm_up_s=0.1)
    window_s: float = 2.5


@dataclass(frozen=True, slots=True)
class Reload:
    """One change of policy: seconds until both services said so, and what calls saw meanwhile and at rest before."""

    in_force_s: float
    meanwhile: Watched
    at_rest: Watched


@dataclass(slots=True)
class Measured:
    """Figures of each round, by policy: those of requests, microseconds per report by service, and reloads."""

    pairs: dict[tuple[Case, RulePolicy], list[Pair]] = field(default_factory=dict)
    report_us: dict[tuple[str, RulePolicy], list[float]] = field(default_factory=dict)
    reloads: dict[RulePolicy, list[Reload]] = field(default_factory=dict)

    @property
    def watched(self) -> list[Watched]:
        """All that the calls around reloads have seen."""
        every = [reload for reloads in self.reloads.values() for reload in reloads]
        return [watched for reload in every for watched in (reload.meanwhile, reload.at_rest)]


class Stack:
    """The services under one policy file, and Go extenders that know the same."""

    def __init__(self, bench: Bench, artefacts: Artefacts) -> None:
        self._bench = bench
        self._artefacts = artefacts
        self._file = bench.folder / "policy.yaml"
        self.policy = POLICIES[0]
        self._file.write_text(self.policy.document(), encoding="utf-8")
        url = bench.start_nats()
        bench.start_feeder(url)
        fleet.write_manifests(bench.folder / "manifests")
        filter_, scorer = bench.start_filter(url, self._file), bench.start_scorer(url, self._file)
        self.hops = {"filter": filter_, "scorer": scorer}
        for service in self.hops.values():
            bench.wait_ready(service)
        self.gateway = bench.start_gateway(url, filter_, scorer, bench.folder / "manifests")
        bench.wait_ready(self.gateway)
        self._wait_for_scores()
        self._watch = Watch(self.examiner, self.gateway.ports["http"], self.hops)
        self._extenders: dict[RulePolicy, Service] = {}

    @property
    def examiner(self) -> Examiner:
        """Knows the right answers under the policy in force."""
        return Examiner(self._artefacts.bodies, self.policy.rejected)

    def targets(self) -> tuple[Target, Target]:
        """The Go extender that knows the policy in force, and all of ours."""
        extender = self._extenders.get(self.policy)
        if extender is None:
            extender = self._extenders[self.policy] = self._start_extender()
        pids = (self.gateway.pid, *(service.pid for service in self.hops.values()))
        return (
            Target("Go", extender.ports["http"], (extender.pid,)),
            Target("Leadsman", self.gateway.ports["http"], pids),
        )

    def take(self, policy: RulePolicy, rest_s: float) -> Reload:
        """Bring `policy` in force, calls going on, after watching `rest_s` of quiet."""
        before, text = self.policy, policy.document()
        with self._watch.watching([before]) as at_rest:
            time.sleep(rest_s)  # the length of a measurement, not a wait for something
        with self._watch.watching([before, policy]) as meanwhile:
            began = time.monotonic()
            replace_file(self._file, text)
            for service in self.hops.values():
                _wait_for_fingerprint(service, fingerprint(text))
            in_force_s = time.monotonic() - began
            self.gateway.process.wait_for("the new policy answers", lambda: self._watch.answers_by(policy))
        self.policy = policy
        self._wait_for_scores()
        return Reload(in_force_s, meanwhile, at_rest)

    def _wait_for_scores(self) -> None:
        self.gateway.process.wait_for("all nodes have scores", lambda: self._scores(storage=True))

    def _scores(self, *, storage: bool) -> dict[str, int]:
        return self.examiner.scores(self.gateway.ports["http"], storage=storage)

    def _start_extender(self) -> Service:
        rules = self.policy.rejected
        knowledge = fleet.extender_state(self._scores(storage=True), rules)
        if self.policy.count:
            knowledge |= {"plain": {"rejected": rules, "score": self._scores(storage=False)}}
        return self._bench.start_extender(self._artefacts.extender, knowledge, 100)


def run(folder: Path, artefacts: Artefacts, settings: Settings) -> Measured:
    """Measure every policy in each round, in an order that turns, so that noise falls on all alike.

    Raises:
        LoadError: a wrong answer or none.
        ProcessEndedError, NotInTimeError: a process did not start or did not stay, or took no new policy.
    """
    found = Measured()
    with Bench(folder) as bench:
        stack = Stack(bench, artefacts)
        loader = Loader(artefacts.loadgen, artefacts.bodies, folder)
        for number in range(settings.rounds):
            turn = number % len(POLICIES)
            for policy in (*POLICIES[turn:], *POLICIES[:turn]):
                report(f"round {number + 1} of {settings.rounds}, rules: {policy.name}")
                if policy != stack.policy:
                    found.reloads.setdefault(policy, []).append(stack.take(policy, settings.window_s))
                _measure_requests(stack, loader, settings, found)
                _measure_reports(stack.hops, policy, settings.window_s, found)
    return found


def _measure_requests(stack: Stack, loader: Loader, settings: Settings, found: Measured) -> None:
    targets = stack.targets()
    sizes = stack.examiner.check(settings.cases, {target.name: target.port for target in targets})
    for case in settings.cases:
        figures = loader.compare(case, targets, sizes[case], settings.plan)
        pair = Pair(go=figures["Go"], ours=figures["Leadsman"])
        found.pairs.setdefault((case, stack.policy), []).append(pair)
        report(f"  {case.name}: Go {pair.go.p50_ms:.3f} ms, Leadsman {pair.ours.p50_ms:.3f} ms")


def _measure_reports(hops: Mapping[str, Service], policy: RulePolicy, window_s: float, found: Measured) -> None:
    """Processor time per report at the pace of 5,000 nodes, nothing being asked; the service's idling is in it."""
    before = {name: (cpu_seconds([service.pid]), reports_taken(service)) for name, service in hops.items()}
    time.sleep(window_s)  # the length of a measurement, not a wait for something
    for name, service in hops.items():
        cpu_s, taken = before[name]
        spent_us = (cpu_seconds([service.pid]) - cpu_s) * 1e6
        found.report_us.setdefault((name, policy), []).append(spent_us / (reports_taken(service) - taken))


def _wait_for_fingerprint(service: Service, wanted: str) -> None:
    service.process.wait_for(
        f"{service.process.name} works by policy {wanted}",
        lambda: page(service.ports["admin"], "/readyz?verbose")[1],
        lambda words: f"policy {wanted}" in words,
        within_s=120.0,
    )
