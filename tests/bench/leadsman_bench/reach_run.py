"""One run of the reach benchmark: a collector at work and what it takes, then a second one and what it takes it for."""

import json
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass

from leadsman.domain.errors import LeadsmanError
from leadsman.testing.pages import page
from leadsman_bench.build import report
from leadsman_bench.reach_node import Collector, ReachNode
from leadsman_bench.reach_usage import Sample, summarise, take_sample
from leadsman_bench.reach_work import shortcomings

SAMPLE_S = 3.0
TELL_S = 30.0
_AT_WORK_S = 60.0

WORKERS = "worker processes"

_LEDGER = ("-m", "leadsman_bench.reach_ledger")


class NotAtWorkError(LeadsmanError):
    """The collector did not do what it was to be measured for, so the figures mean nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long: the run that is measured, what passes before it, and the run that tells what dominates. Seconds."""

    measure_s: float
    warm_up_s: float
    shares_s: float
    api: bool = True


def measure(node: ReachNode, plan: Plan) -> list[Sample]:
    """What a collector takes once it has been at work for a while, every few seconds.

    Raises:
        NotAtWorkError: it was not at work up to the end.
    """
    collector = node.start_collector("collector", api=plan.api)
    warm_up(node, collector, plan)
    samples = [take_sample(collector.process.pid)]
    told = begin = samples[0].at_s
    while samples[-1].at_s - begin < plan.measure_s:
        time.sleep(min(SAMPLE_S, max(0.0, begin + plan.measure_s - samples[-1].at_s)))  # the distance of samples
        collector.process.check_alive()
        samples.append(take_sample(collector.process.pid))
        if samples[-1].at_s - told >= TELL_S:
            told = samples[-1].at_s
            _tell(samples)
    if words := unfit(node, collector, plan):
        raise NotAtWorkError(f"at the end of the measurement something was amiss: {'; '.join(words)}")
    node.stop(collector.process)
    return samples


def shares(node: ReachNode, plan: Plan) -> dict[str, float]:
    """Milliseconds per minute by what they go to, the most first; of a second collector, that keeps a ledger."""
    report(f"asking a second collector for {plan.shares_s:g} s what it does")
    collector = node.start_collector("ledger", (*_LEDGER, str(node.folder)), api=plan.api)

    def look(number: int) -> tuple[Mapping[str, float], Sample]:
        collector.process.send(signal.SIGUSR1)
        file = node.folder / f"ledger-{number}.json"
        collector.process.wait_for("it writes its ledger", file.exists)
        spent: dict[str, float] = json.loads(file.read_bytes())
        return spent, take_sample(collector.process.pid)

    warm_up(node, collector, plan)
    before, sampled_before = look(1)
    time.sleep(plan.shares_s)
    after, sampled = look(2)
    node.stop(collector.process)
    spent = {owner: seconds - before.get(owner, 0.0) for owner, seconds in after.items()}
    spent[WORKERS] = sampled.worker_cpu_s - sampled_before.worker_cpu_s
    return per_minute(spent, sampled.at_s - sampled_before.at_s)


def warm_up(node: ReachNode, collector: Collector, plan: Plan) -> None:
    """Wait until `collector` does all its work, and then for as long as the plan says.

    Raises:
        NotInTimeError: it does not.
    """
    collector.process.wait_for(
        "the collector finds all of its node well",
        lambda: unfit(node, collector, plan),
        lambda words: not words,
        within_s=_AT_WORK_S,
        every_s=0.5,
    )
    report(f"warming up for {plan.warm_up_s:g} s")
    time.sleep(plan.warm_up_s)


def unfit(node: ReachNode, collector: Collector, plan: Plan) -> list[str]:
    """See `shortcomings`."""
    status, text = page(collector.admin_port, "/metrics")
    return shortcomings(text, node.drivers, api=plan.api) if status == 200 else [f"no metrics: {text}"]


def per_minute(spent: Mapping[str, float], wall_s: float) -> dict[str, float]:
    """Milliseconds per minute of what was spent in `wall_s` seconds, the most first."""
    ranked = sorted(spent.items(), key=lambda item: -item[1])
    return {owner: 60_000 * seconds / wall_s for owner, seconds in ranked}


def _tell(samples: list[Sample]) -> None:
    so_far = summarise(samples)
    report(
        f"{so_far.minutes:4.1f} min: {so_far.rss_max_mib:.1f} MiB resident at most, {so_far.pss_max_mib:.1f} MiB PSS, "
        f"{so_far.processes_max} processes, {so_far.cpu_percent:.2f} % of one core"
    )
