"""Percentiles, ratios and goals."""

import pytest

from leadsman_bench import samples
from leadsman_bench.cases import Goal
from leadsman_bench.samples import Figures, Pair


def side(p50: float = 1.0, p99: float = 2.0, rate: float = 100.0) -> Figures:
    return Figures(requests=10, p50_ms=p50, p99_ms=p99, max_ms=9.0, rate=rate, cpu_ms=0.5)


def pairs(*ratios: float) -> list[Pair]:
    return [Pair(go=side(), ours=side(ratio, 2 * ratio, 100 * ratio)) for ratio in ratios]


def test_percentiles_are_taken_over_the_pooled_samples() -> None:
    """Samples of all bursts count as one set, in any order."""
    found = samples.figures([value * 1_000_000 for value in range(100, 0, -1)], seconds=2.0, cpu_s=0.5)
    assert (found.p50_ms, found.p99_ms, found.max_ms) == (51.0, 100.0, 100.0)
    assert (found.rate, found.cpu_ms) == (50.0, 5.0)


def test_the_p99_of_few_samples_is_their_largest() -> None:
    """Some ten slow answers have no 99th percentile of their own."""
    assert samples.figures([3_000_000, 1_000_000, 2_000_000], 1.0, 0.0).p99_ms == 3.0


def test_a_burst_without_an_answer_is_an_error() -> None:
    """A ratio out of nothing would look like a result."""
    with pytest.raises(ValueError, match="no request was answered"):
        samples.figures([], 1.0, 0.0)


def test_ratios_are_medians_over_repeats_and_not_ratios_of_medians() -> None:
    """Noise that slows one repeat slows both sides of it."""
    noisy = [Pair(side(1), side(3)), Pair(side(10), side(20)), Pair(side(100), side(100))]
    assert samples.median_ratio(noisy, lambda one: one.p50_ms) == 2


def test_a_goal_is_judged_by_the_median_repeat() -> None:
    """One bad repeat of three does not decide."""
    goal = Goal("", p50=1.2, p99=1.2, rate=1.0)
    assert samples.p50_met(goal, pairs(1.0, 1.1, 5.0)) is True
    assert samples.p99_met(goal, pairs(1.0, 1.3, 5.0)) is False
    assert samples.rate_met(goal, pairs(0.5, 1.1, 2.0)) is True
    assert samples.rate_met(goal, pairs(0.5, 0.9, 2.0)) is False


def test_milliseconds_on_top_of_a_ratio_are_granted() -> None:
    """Asked over the hop, a call may take the lease's figure and some milliseconds more."""
    assert samples.p50_met(Goal("", p50=1.0, p50_extra_ms=0.4), pairs(1.4)) is True
    assert samples.p50_met(Goal("", p50=1.0, p50_extra_ms=0.3), pairs(1.4)) is False


def test_a_goal_without_a_limit_is_neither_met_nor_missed() -> None:
    """The contract does not limit everything in every case."""
    assert samples.p50_met(Goal(""), pairs(1.0)) is None
    assert samples.p99_met(Goal(""), pairs(1.0)) is None
    assert samples.rate_met(Goal(""), pairs(1.0)) is None
