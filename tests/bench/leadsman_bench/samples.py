"""Numbers out of samples: percentiles over pooled latencies, ratios to Go, medians over repeats."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leadsman_bench.cases import Goal


@dataclass(frozen=True, slots=True)
class Figures:
    """One server in one case of one repeat, over all its bursts.

    Latencies in milliseconds; `rate` in requests per second; `cpu_ms` is the processor time of the server's processes
    per request.
    """

    requests: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    rate: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Both servers in one case of one repeat."""

    go: Figures
    ours: Figures


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0-1) of the ascending samples lie; the largest one when there are few."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def figures(latencies_ns: Sequence[int], seconds: float, cpu_s: float) -> Figures:
    """Figures of pooled samples: latencies in nanoseconds, `seconds` of load and `cpu_s` of processor time in all.

    Raises:
        ValueError: there is no sample.
    """
    if not latencies_ns:
        raise ValueError("no request was answered within the burst; make it longer")
    ordered = sorted(latency / 1e6 for latency in latencies_ns)
    return Figures(
        requests=len(ordered),
        p50_ms=percentile(ordered, 0.50),
        p99_ms=percentile(ordered, 0.99),
        max_ms=ordered[-1],
        rate=len(ordered) / seconds,
        cpu_ms=cpu_s / len(ordered) * 1e3,
    )


def median_of(pairs: Sequence[Pair], value: Callable[[Pair], float]) -> float:
    """The median of `value` over repeats."""
    return statistics.median(map(value, pairs))


def median_ratio(pairs: Sequence[Pair], value: Callable[[Figures], float]) -> float:
    """The median over repeats of ours divided by Go's in the same repeat."""
    return statistics.median(value(pair.ours) / value(pair.go) for pair in pairs)


def p50_limit(goal: Goal, pairs: Sequence[Pair]) -> float | None:
    """The p50 goal as a ratio to Go, its milliseconds on top included (median repeat); None without such a goal."""
    limit = goal.p50
    return None if limit is None else statistics.median(limit + goal.p50_extra_ms / pair.go.p50_ms for pair in pairs)


def p50_met(goal: Goal, pairs: Sequence[Pair]) -> bool | None:
    """Whether the p50 goal is met by the median repeat; None without such a goal."""
    if goal.p50 is None:
        return None
    limit = goal.p50
    return statistics.median(pair.ours.p50_ms / (limit * pair.go.p50_ms + goal.p50_extra_ms) for pair in pairs) <= 1


def p99_met(goal: Goal, pairs: Sequence[Pair]) -> bool | None:
    """Whether the p99 goal is met by the median repeat; None without such a goal."""
    return None if goal.p99 is None else median_ratio(pairs, lambda side: side.p99_ms) <= goal.p99


def rate_met(goal: Goal, pairs: Sequence[Pair]) -> bool | None:
    """Whether the throughput goal is met by the median repeat; None without such a goal."""
    return None if goal.rate is None else median_ratio(pairs, lambda side: side.rate) >= goal.rate
