"""What is measured, and the goal of each case: the performance contract, as ratios to the Go extender."""

from dataclasses import dataclass

from leadsman_bench.payloads import Body


@dataclass(frozen=True, slots=True)
class Goal:
    """Limits that one row of the contract sets; None: no limit.

    p50 is met at or below `p50` times Go's plus `p50_extra_ms`; p99 at or below `p99` times Go's; throughput at or
    above `rate` times Go's. `label` says under which condition the goal holds.
    """

    label: str
    p50: float | None = None
    p50_extra_ms: float = 0.0
    p99: float | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One verb, one request body, some connections."""

    verb: str
    body: Body
    goals: tuple[Goal, ...] = ()
    connections: int = 1

    @property
    def name(self) -> str:
        """The case in words, as the table shows it."""
        need = "storage" if self.body.storage else "no storage"
        crowd = f", {self.connections} connections" if self.connections > 1 else ""
        return f"{self.verb}, {need}, {self.body.candidates}{crowd}"


def _leased(p50: float, p99: float) -> Goal:
    return Goal("lease held", p50=p50, p99=p99)


def _over_hop(lease_p50: float) -> Goal:
    # Stream hop: the lease's figure and 0.4 ms on top.
    return Goal("over the hop", p50=lease_p50, p50_extra_ms=0.4)


_FAST_PATH = {100: (0.9, 0.6), 500: (0.8, 0.5), 1000: (0.7, 0.4), 5000: (0.4, 0.3)}
_LEASED_FILTER = {100: (1.5, 0.8), 500: (1.25, 0.7), 1000: (1.0, 0.6), 5000: (0.5, 0.35)}
_LEASED_PRIORITIZE = {500: (1.2, 0.6), 5000: (0.4, 0.35)}
_COUNTS = (100, 500, 1000, 5000)


def _names_cases() -> list[Case]:
    cases = []
    for count in _COUNTS:
        p50, p99 = _LEASED_FILTER[count]
        hop = Goal("over the hop", p50=0.7, p99=0.4) if count == 5000 else _over_hop(p50)
        cases.append(Case("filter", Body(count), (_leased(p50, p99), hop)))
    for count in _COUNTS:
        p50, p99 = _FAST_PATH[count]
        cases.append(Case("filter", Body(count, storage=False), (Goal("fast path", p50=p50, p99=p99),)))
    for count in _COUNTS:
        limits = _LEASED_PRIORITIZE.get(count)
        cases.append(Case("prioritize", Body(count), (_leased(*limits),) if limits else ()))
    return cases + [Case("prioritize", Body(count, storage=False)) for count in _COUNTS]


def _full_cases() -> list[Case]:
    goal_500, goal_5000 = Goal("full nodes", p50=0.2, p99=0.2), Goal("full nodes", p50=0.25, p99=0.25)
    return [
        Case("filter", Body(500, full=True), (goal_500,)),
        Case("filter", Body(500, full=True, storage=False), (goal_500,)),
        Case("prioritize", Body(500, full=True)),
        Case("prioritize", Body(500, full=True, storage=False)),
        # Last: what comes after it would see the large buffers that it leaves behind.
        Case("filter", Body(5000, full=True), (goal_5000,)),
    ]


_CROWDED = [
    Case("filter", Body(500), (Goal("8 connections", rate=1.0, p99=0.5),), connections=8),
    Case("filter", Body(5000), (Goal("8 connections", rate=1.2, p99=0.45),), connections=8),
]
CASES = (*_names_cases(), *_CROWDED, *_full_cases())
"""All cases in the order of measurement."""
QUICK_CASES = tuple(case for case in CASES if not (case.body.full and case.body.count > 500))
"""The cases of `--quick`: all but the 44 MB bodies."""

COLD_START_GOAL_S = 0.5
RECEIVE_GOAL_US = 20.0
FILTER_RSS_GOAL_MB = 110.0
GATEWAY_RSS_GOAL_MB = 130.0
GATEWAY_RSS_FULL_GOAL_MB = 330.0

NOT_MEASURED = (
    "100 names beside a connection that posts 5,000 full nodes",
    "pods per second on a real scheduler",
    "start and requests with 50,000 nodes",
)
"""Rows of the contract that this benchmark has no case for."""
