"""The pictures: node by storage with states and ages, recent decisions, and the outcome of one scheduling attempt."""

import sys
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leadsman.domain.durations import format_duration
from leadsman_cli.messages import DecisionView, NodeView, Status, StorageView, VolumeView
from leadsman_cli.scheduling import Attempt

_STYLES = {"HEALTHY": "green", "DEGRADED": "yellow", "UNHEALTHY": "bold red", "UNKNOWN": "magenta"}
_PIPE_WIDTH = 200


def print_table(table: Table) -> None:
    """Print `table` as plain columns; colours on a terminal only, no trailing blanks in a pipe."""
    on_terminal = sys.stdout.isatty()
    console = Console(width=None if on_terminal else _PIPE_WIDTH)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def status_table(status: Status) -> Table:
    """One row per node and one column per storage that any node reports; below a node its bad volumes."""
    keys = sorted(
        {(storage.driver, storage.backend) for node in status.nodes for storage in node.storages}
        | {(volume.driver, "") for node in status.nodes for volume in node.bad_volumes}
    )
    table = columns("NODE", *("/".join(filter(None, key)) for key in keys), "REPORT", "BROKEN BY")
    for node in status.nodes:
        found = {(storage.driver, storage.backend): storage for storage in node.storages}
        cells = [_state_cell(found[key]) if key in found else Text("-", "dim") for key in keys]
        table.add_row(node.name, *cells, _report_cell(node), Text(", ".join(node.broken_by) or "-"))
        for volume in node.bad_volumes:
            table.add_row(
                f"  volume {volume.volume}",
                *[_state_cell(volume) if key == (volume.driver, "") else Text() for key in keys],
            )
    return table


def _state_cell(shown: StorageView | VolumeView) -> Text:
    words = " ".join(filter(None, (shown.state, shown.reason)))
    return Text.assemble((words, _STYLES.get(shown.state, "dim")), (f" {format_duration(shown.for_s)}", "dim"))


def _report_cell(node: NodeView) -> Text:
    if node.report_age_s is None:
        return Text("none yet", "magenta")
    return Text(f"{node.report_age_s:.1f}s ago", "dim")


def decisions_table(decisions: list[DecisionView]) -> Table:
    """Recent decisions, newest first."""
    table = columns("TIME", "CALL", "POD", "OUTCOME")
    for decision in reversed(decisions):
        table.add_row(clock_time(decision.at), decision.verb, decision.pod, decision_words(decision))
    return table


def decision_words(decision: DecisionView) -> str:
    """What a decision came to, in a few words."""
    if decision.scores:
        return "scores " + ", ".join(f"{node} {score}" for node, score in sorted(decision.scores.items()))
    if decision.verb == "prioritize":
        return f"no opinion ({decision.outcome})"
    passed = decision.candidates - decision.rejected_total
    words = f"{passed} of {decision.candidates} nodes pass"
    if decision.outcome != "decided":
        words += f" ({decision.outcome})"
    for found, said in ((decision.rejected, "not"), (decision.shadow, "in shadow not")):
        if found:
            words += f"; {said} {', '.join(f'{node} {reason}' for node, reason in sorted(found.items()))}"
    return words


def attempt_table(attempt: Attempt) -> Table:
    """What each candidate came to in one scheduling attempt."""
    table = columns("NODE", "VERDICT", "SCORE", "REASON")
    for node in attempt.nodes:
        verdict = "chosen" if node.name == attempt.chosen else "fits" if node.fits else "rejected"
        style = {"chosen": "bold green", "fits": "green", "rejected": "bold red"}[verdict]
        table.add_row(node.name, Text(verdict, style), "-" if node.score is None else str(node.score), node.reason)
    return table


def clock_time(epoch_s: float) -> str:
    """Time of day in the user's zone."""
    return datetime.fromtimestamp(epoch_s, UTC).astimezone().strftime("%H:%M:%S")


def columns(*names: str, wrapped: str = "") -> Table:
    """A table without lines whose columns go by `names`; only the one that is `wrapped` breaks its lines at words."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=name != wrapped, overflow="fold")
    return table
