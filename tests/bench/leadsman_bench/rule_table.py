"""The results of the benchmark of rules as text for people."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from leadsman_bench import samples
from leadsman_bench.cases import Case
from leadsman_bench.rule_policies import ONE_RULE, POLICIES, RulePolicy
from leadsman_bench.rule_run import Measured, Reload
from leadsman_bench.samples import Figures, Pair
from leadsman_bench.table import Row, number, render

P50_GOAL = 1.25
"""At most so many times the p50 under one rule, whatever the number of rules."""

SHOWN_FAILURES = 5

_P50, _P99, _CPU = attrgetter("p50_ms"), attrgetter("p99_ms"), attrgetter("cpu_ms")

_REQUEST_HEAD = (
    *("case", "rules", "Go p50", "p99", "ours p50", "p99", "p50 x", "p99 x", "cpu x"),
    *("p50 / 1 rule", "goal", "p99 / 1 rule", ""),
)


def requests(pairs: Mapping[tuple[Case, RulePolicy], Sequence[Pair]]) -> str:
    """A row for each case and policy: milliseconds, ratios to Go, and ours to ours under one rule."""
    rows = []
    for case in dict.fromkeys(case for case, _ in pairs):
        one = pairs[case, ONE_RULE]
        rows += [_request_row(case, policy, pairs[case, policy], one) for policy in POLICIES]
    return render(_REQUEST_HEAD, rows, {0, len(_REQUEST_HEAD) - 1})


def to_one_rule(pairs: Sequence[Pair], one: Sequence[Pair], value: Callable[[Figures], float]) -> float:
    """Ours divided by ours under one rule in the same round, the median over rounds."""
    return statistics.median(value(now.ours) / value(then.ours) for now, then in zip(pairs, one, strict=True))


def _request_row(case: Case, policy: RulePolicy, pairs: Sequence[Pair], one: Sequence[Pair]) -> Row:
    p50 = to_one_rule(pairs, one, _P50)
    return (
        case.name if policy is POLICIES[0] else "",
        policy.name,
        *(number(statistics.median(value(pair.go) for pair in pairs)) for value in (_P50, _P99)),
        *(number(statistics.median(value(pair.ours) for pair in pairs)) for value in (_P50, _P99)),
        *(f"{samples.median_ratio(pairs, value):.2f}" for value in (_P50, _P99, _CPU)),
        f"{p50:.2f}",
        f"<={P50_GOAL:g}" if policy.count > 1 else "",
        f"{to_one_rule(pairs, one, _P99):.2f}",
        ("met" if p50 <= P50_GOAL else "not yet") if policy.count > 1 else "",
    )


def others(found: Measured) -> str:
    """A column for each policy: what a report costs, and what it takes to bring the policy in force."""
    rows = [
        *(_report_row(found, name) for name in ("filter", "scorer")),
        _reload_row(found, "file written to in force on both, s", lambda reload: reload.in_force_s),
        *(row for key, what in _WATCHED.items() for row in _watched_rows(found, key, what)),
    ]
    return render(("", *(f"{policy.name} rules" for policy in POLICIES)), rows, {0})


_WATCHED = {
    "filter": "slowest filter call",
    "prioritize": "slowest prioritize call",
    "filter page": "filter's event loop held up",
    "scorer page": "scorer's event loop held up",
}


def _report_row(found: Measured, name: str) -> Row:
    costs = (statistics.median(found.report_us[name, policy]) for policy in POLICIES)
    return (f"CPU per report, {name}, us", *map(number, costs))


def _watched_rows(found: Measured, key: str, what: str) -> tuple[Row, Row]:
    return (
        _reload_row(found, f"{what}, reloading, ms", lambda reload: reload.meanwhile.longest_ms[key]),
        _reload_row(found, f"{what}, at rest before, ms", lambda reload: reload.at_rest.longest_ms[key]),
    )


def _reload_row(found: Measured, what: str, value: Callable[[Reload], float]) -> Row:
    """Medians over the reloads to each policy; a run of one round begins under the first and never comes back to it."""
    reloads = (found.reloads.get(policy, []) for policy in POLICIES)
    return (what, *(number(statistics.median(map(value, some))) if some else "-" for some in reloads))


def calls(found: Measured) -> str:
    """How many calls were made around reloads and what became of them."""
    made = sum(sum(watched.calls.values()) for watched in found.watched)
    failures = [failure for watched in found.watched for failure in watched.failures]
    lines = [f"Calls around {sum(map(len, found.reloads.values()))} reloads: {made:,}, lost or wrong: {len(failures)}."]
    return "\n".join([*lines, *failures[:SHOWN_FAILURES]])
