"""The printed tables."""

from leadsman_bench import table
from leadsman_bench.cases import Case, Goal
from leadsman_bench.payloads import Body
from leadsman_bench.samples import Figures, Pair


def pair(ratio: float) -> Pair:
    go = Figures(requests=10, p50_ms=1.0, p99_ms=2.0, max_ms=9.0, rate=1000.0, cpu_ms=0.5)
    return Pair(go, Figures(10, ratio, 2 * ratio, 9.0, 1000 / ratio, 0.5 * ratio))


def test_every_goal_of_a_case_gets_a_line_with_its_verdict() -> None:
    """The figures stand on the first line only, each with its goal beside it."""
    goals = (Goal("lease held", p50=1.25, p99=0.7), Goal("over the hop", p50=1.25, p50_extra_ms=0.4))
    lines = table.comparison({Case("filter", Body(500), goals): [pair(1.5)]}).splitlines()
    assert " ".join(lines[2].split()[4:]) == (
        "1.00 2.00 1.50 3.00 1.50 <=1.25 1.50 <=0.7 0.67 1.50 not yet: p50, p99 lease held"
    )
    assert lines[3].split() == ["<=1.65", "met", "over", "the", "hop"]


def test_a_case_without_a_goal_is_shown_all_the_same() -> None:
    """Not everything that is worth knowing is in the contract."""
    lines = table.comparison({Case("prioritize", Body(100, storage=False)): [pair(1.0)]}).splitlines()
    assert lines[2].split()[:5] == ["prioritize,", "no", "storage,", "100", "names"]


def test_columns_line_up() -> None:
    """Numbers are right-aligned below their heads."""
    text = table.render(("what", "ms", "goal"), [("a", "1.5", "met"), ("longer", "12.25", "")], {0, 2})
    assert text.splitlines() == [
        "what       ms  goal",
        "------  -----  ----",
        "a         1.5  met",
        "longer  12.25",
    ]


def test_numbers_keep_three_digits() -> None:
    """Enough to compare, short enough to read."""
    assert [table.number(value) for value in (0.1234, 1.234, 12.34, 1234.5)] == ["0.123", "1.23", "12.3", "1,234"]


def test_a_resource_is_judged_by_its_upper_limit() -> None:
    """A row says what was measured, what was asked and whether it is met."""
    assert table.limit_row("memory", 90.0, "MB", 110.0) == ("memory", "90.0 MB", "<= 110 MB", "met")
    assert table.limit_row("memory", 120.0, "MB", 110.0)[-1] == "not yet"
    assert table.limit_row("memory", 120.0, "MB", None)[2:] == ("", "")
