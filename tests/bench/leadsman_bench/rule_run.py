"""One run of the benchmark of rules: the shipped services, policies of some rules in turn, by their own hot reload."""

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from leadsman.config.policy_document import fingerprint
from leadsman.testing.pages import page
from leadsman_bench import fleet, rule_policies
from leadsman_bench.answers import Examiner
from leadsman_bench.build import Artefacts, report
from leadsman_bench.cases import Case
from leadsman_bench.load import Loader, Plan, Target, cpu_seconds
from leadsman_bench.payloads import Body
from leadsman_bench.pipeline import Bench
from leadsman_bench.resources import reports_taken
from leadsman_bench.samples import Figures

CASES = (
    Case("filter", Body(500)),
    Case("filter", Body(5000)),
    Case("filter", Body(500, storage=False)),
    Case("prioritize", Body(500)),
    Case("prioritize", Body(5000)),
)

PLAN = Plan(rounds=2, burst_s=0.4, warm_up_s=0.15)


@dataclass(slots=True)
class Measured:
    """Figures by case and number of rules, one for each round; processor time per report; and what reloads cost."""

    requests: dict[tuple[str, int], list[Figures]] = field(default_factory=dict)
    report_us: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    reload_s: dict[int, list[float]] = field(default_factory=dict)
    slowest_ms: dict[int, list[float]] = field(default_factory=dict)
    asked: int = 0
    failed: int = 0

    def p50(self, case: str, rules: int) -> float:
        """Median over rounds of the 50th percentile, in milliseconds."""
        return statistics.median(one.p50_ms for one in self.requests[case, rules])

    def p99(self, case: str, rules: int) -> float:
        """Median over rounds of the 99th percentile, in milliseconds."""
        return statistics.median(one.p99_ms for one in self.requests[case, rules])


class Stack:
    """The services under one policy file, and calls at a steady pace while it changes."""

    def __init__(self, bench: Bench, artefacts: Artefacts, *, all_match: bool) -> None:
        self._all_match = all_match
        self._policy = bench.folder / "policy.yaml"
        self._policy.write_text(rule_policies.document(0, all_match=all_match))
        self._bodies = artefacts.bodies
        self._url = bench.start_nats()
        bench.start_feeder(self._url)
        fleet.write_manifests(bench.folder / "manifests")
        self.hops = {
            "filter": bench.start_filter(self._url, self._policy),
            "scorer": bench.start_scorer(self._url, self._policy),
        }
        for service in self.hops.values():
            bench.wait_ready(service)
        filter_, scorer = self.hops["filter"], self.hops["scorer"]
        self.gateway = bench.start_gateway(self._url, filter_, scorer, bench.folder / "manifests")
        bench.wait_ready(self.gateway)
        self.examiner = Examiner(artefacts.bodies)
        self.gateway.process.wait_for("all nodes have scores", lambda: self.examiner.scores(self.port))

    @property
    def port(self) -> int:
        """Where the gateway answers."""
        return self.gateway.ports["http"]

    @property
    def target(self) -> Target:
        """Everything that answers."""
        pids = (self.gateway.pid, *(service.pid for service in self.hops.values()))
        return Target("Leadsman", self.port, pids)

    def take(self, count: int, found: Measured) -> None:
        """Bring a policy of `count` rules in force, calls going on, and note how long it took and cost them."""
        text = rule_policies.document(count, all_match=self._all_match)
        wanted = f"policy {fingerprint(text)}"
        with self._calls(found) as slowest:
            began = time.monotonic()
            rule_policies.write(self._policy, text)
            for service in self.hops.values():
                service.process.wait_for(
                    f"{service.process.name} works by the policy of {count} rules",
                    lambda service=service: page(service.ports["admin"], "/readyz?verbose")[1],  # type: ignore[misc]
                    lambda words: wanted in words,
                )
            found.reload_s.setdefault(count, []).append(time.monotonic() - began)
            time.sleep(1.2)  # the first scores by new rules come with the next second
        found.slowest_ms.setdefault(count, []).append(slowest[0] * 1000)

    @contextmanager
    def _calls(self, found: Measured) -> Iterator[list[float]]:
        """Filter calls one after another until the block ends; the longest one in seconds."""
        slowest, stop = [0.0], threading.Event()

        def call() -> None:
            while not stop.is_set():
                began = time.monotonic()
                found.asked += 1
                try:
                    self.examiner.ask_once(self.port, CASES[0])
                except Exception:  # whatever kind it is, the call was lost
                    found.failed += 1
                slowest[0] = max(slowest[0], time.monotonic() - began)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        try:
            yield slowest
        finally:
            stop.set()
            thread.join()


def run(folder: Path, artefacts: Artefacts, *, rounds: int, all_match: bool) -> Measured:
    """Measure every number of rules in each round, in an order that turns, so that noise falls on all alike."""
    found = Measured()
    with Bench(folder) as bench:
        stack = Stack(bench, artefacts, all_match=all_match)
        loader = Loader(artefacts.loadgen, artefacts.bodies, folder)
        counts = rule_policies.COUNTS
        for number in range(rounds):
            turn = number % len(counts)
            for count in (*counts[turn:], *counts[:turn]):
                stack.take(count, found)
                _measure_requests(stack, loader, count, found)
                _measure_reports(stack, count, found)
                report(f"round {number + 1} of {rounds}, {count} rules: {_words(found, count)}")
    return found


def _measure_requests(stack: Stack, loader: Loader, count: int, found: Measured) -> None:
    for case in CASES:
        size = {"Leadsman": len(stack.examiner.ask_once(stack.port, case))}
        figures = loader.compare(case, [stack.target], size, PLAN)["Leadsman"]
        found.requests.setdefault((case.name, count), []).append(figures)


def _measure_reports(stack: Stack, count: int, found: Measured, window_s: float = 3.0) -> None:
    """Processor time of filter and scorer per report at the pace of 5,000 nodes, everything else at rest."""
    # Reading the metrics costs time, too, so it stays outside.
    taken = {name: reports_taken(one) for name, one in stack.hops.items()}
    before = {name: cpu_seconds([one.pid]) for name, one in stack.hops.items()}
    time.sleep(window_s)
    after = {name: cpu_seconds([one.pid]) for name, one in stack.hops.items()}
    for name, one in stack.hops.items():
        reports = reports_taken(one) - taken[name]
        spent = (after[name] - before[name]) / max(1.0, reports) * 1e6
        found.report_us.setdefault((name, count), []).append(spent)


def _words(found: Measured, count: int) -> str:
    figures: Sequence[Figures] = [found.requests[case.name, count][-1] for case in CASES]
    parts = [f"{case.name} {one.p50_ms:.2f} ms" for case, one in zip(CASES, figures, strict=True)]
    return ", ".join(parts)
