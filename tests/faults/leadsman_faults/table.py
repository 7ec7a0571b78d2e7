"""Results as a table: for a terminal, for a file, and for docs/faults.md."""

from collections.abc import Sequence

from leadsman_faults.pace import Pace
from leadsman_faults.play import Result, Verdict

HEADS = ("fault", "expected", "detected", "limit", "recovered", "worker left", "verdict")


def cells(result: Result) -> tuple[str, ...]:
    """One row of the table."""
    row = result.row
    if result.verdict is Verdict.NOT_HERE:
        return (row.fault, row.wanted if row.expects else "-", "-", "-", "-", "-", f"not here: {result.words}")
    borne = not row.expects
    return (
        row.fault,
        row.wanted,
        "-" if borne else _seconds(result.detected_s),
        "-" if borne else _seconds(result.limit_s),
        "-" if borne or row.passing else _seconds(result.recovered_s),
        "yes" if result.left else "no",
        result.verdict.value,
    )


def plain(results: Sequence[Result]) -> str:
    """Aligned columns."""
    lines = [HEADS, *map(cells, results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in lines
    )


def markdown(results: Sequence[Result]) -> str:
    """The same for a document."""
    lines = [HEADS, ("---",) * len(HEADS), *map(cells, results)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def summary(results: Sequence[Result], pace: Pace) -> str:
    """One line about all rows."""
    count = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    return (
        f"{count[Verdict.PASS]} passed, {count[Verdict.MISS]} missed, {count[Verdict.NOT_HERE]} not possible here; "
        f"period {pace.period_s:g} s, deadline {pace.deadline_s:g} s"
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
