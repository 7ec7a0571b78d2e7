"""The results as text for people: one row per case and goal, ratios first."""

from collections.abc import Collection, Mapping, Sequence

from leadsman_bench import samples
from leadsman_bench.cases import Case, Goal
from leadsman_bench.samples import Pair

Row = tuple[str, ...]

_HEAD = (
    *("case", "Go p50", "p99", "ours p50", "p99"),
    *("p50 x", "goal", "p99 x", "goal", "req/s x", "goal", "cpu x", "", ""),
)
_TEXT_COLUMNS = {0, len(_HEAD) - 2, len(_HEAD) - 1}


def render(head: Row, rows: Sequence[Row], text_columns: Collection[int]) -> str:
    """Columns side by side: text on the left of its column, numbers on the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = []
    for row in (head, tuple("-" * width for width in widths), *rows):
        cells = [
            cell.ljust(width) if column in text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def comparison(results: Mapping[Case, Sequence[Pair]]) -> str:
    """All cases: milliseconds, ratios, and beside each ratio the goal; one more line for each further goal."""
    rows = [row for case, pairs in results.items() for row in _case_rows(case, pairs)]
    return render(_HEAD, rows, _TEXT_COLUMNS)


def number(value: float) -> str:
    """`value` with three digits that matter."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def verdict(goal: Goal, pairs: Sequence[Pair]) -> str:
    """`met`, or `not yet` with what is missing."""
    checks = {
        "p50": samples.p50_met(goal, pairs),
        "p99": samples.p99_met(goal, pairs),
        "req/s": samples.rate_met(goal, pairs),
    }
    missed = [name for name, met in checks.items() if met is False]
    return f"not yet: {', '.join(missed)}" if missed else "met"


def resource_table(rows: Sequence[Row]) -> str:
    """A table of `limit_row` rows."""
    return render(("resource", "measured", "goal", ""), rows, {0, 3})


def limit_row(what: str, value: float, unit: str, goal: float | None) -> Row:
    """One measured value with its upper limit."""
    if goal is None:
        return (what, f"{number(value)} {unit}", "", "")
    return (what, f"{number(value)} {unit}", f"<= {goal:g} {unit}", "met" if value <= goal else "not yet")


def _case_rows(case: Case, pairs: Sequence[Pair]) -> list[Row]:
    first, *others = case.goals or (None,)
    blank = ("",) * 5
    return [
        _row((case.name, *_milliseconds(pairs)), _ratios(pairs), first, pairs),
        *(_row(blank, ("",) * 4, goal, pairs) for goal in others),
    ]


def _row(begin: Row, ratios: Row, goal: Goal | None, pairs: Sequence[Pair]) -> Row:
    p50, p99, rate, cpu = ratios
    limits = ("", "", "") if goal is None else _limits(goal, pairs)
    end = ("", "") if goal is None else (verdict(goal, pairs), goal.label)
    return (*begin, p50, limits[0], p99, limits[1], rate, limits[2], cpu, *end)


def _limits(goal: Goal, pairs: Sequence[Pair]) -> Row:
    """The goal's limits as ratios; milliseconds on top are turned into a ratio by Go's own p50."""
    p50 = samples.p50_limit(goal, pairs)
    return (
        "" if p50 is None else f"<={p50:.3g}",
        "" if goal.p99 is None else f"<={goal.p99:g}",
        "" if goal.rate is None else f">={goal.rate:g}",
    )


def _milliseconds(pairs: Sequence[Pair]) -> Row:
    values = (
        lambda pair: pair.go.p50_ms,
        lambda pair: pair.go.p99_ms,
        lambda pair: pair.ours.p50_ms,
        lambda pair: pair.ours.p99_ms,
    )
    return tuple(number(samples.median_of(pairs, value)) for value in values)


def _ratios(pairs: Sequence[Pair]) -> Row:
    values = (
        lambda side: side.p50_ms,
        lambda side: side.p99_ms,
        lambda side: side.rate,
        lambda side: side.cpu_ms,
    )
    return tuple(f"{samples.median_ratio(pairs, value):.2f}" for value in values)
