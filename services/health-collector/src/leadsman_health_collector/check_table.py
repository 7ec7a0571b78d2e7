"""The table of `check` for people: every storage with what it rests on, bad volumes, facts, and what was left out."""

import io
from collections.abc import Mapping
from typing import Literal

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from leadsman.domain.durations import format_duration
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman_health_collector.check_report import CheckReport, Looked
from leadsman_health_collector.probes.probe import FactValue

_STYLES = {
    State.HEALTHY: "green",
    State.DEGRADED: "yellow",
    State.UNHEALTHY: "bold red",
    State.UNKNOWN: "magenta",
    State.NOT_APPLICABLE: "dim",
}
_PLACE = 48
_FIRST = 14
_PIPE_WIDTH = 10_000
"""Lines in a pipe are as long as they need to be: they are for searching."""


def wants_colour(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether to colour: on a terminal that can, unless NO_COLOR is set (https://no-color.org)."""
    return terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def render_table(report: CheckReport, *, width: int | None = None, colour: bool = False) -> str:
    """`report` as text; `width` is that of the terminal in characters, None without one."""
    parts = [_storages(report)] if report.keys else []
    if report.bad_volumes:
        parts.append(_bad_volumes(report))
    if report.facts:
        parts.append(_pairs("FACT", "VALUE", {name: _value(report.facts[name]) for name in sorted(report.facts)}))
    if report.skipped:
        parts.append(_pairs("NOT LOOKED AT", "WHY", {one.what: one.why for one in report.skipped}))
    shown: list[Table | Text] = []
    for part in parts:
        shown += [part, Text()]
    summary = Text(_plain(report.summary()), _STYLES[report.worst] if report.worst else "")
    hint = [Text("docs/reasons.md tells what each reason means and what to do", "dim")] if report.has_reasons else []
    return _printed(Group(*shown, summary, *hint), width, colour=colour)


def _storages(report: CheckReport) -> Table:
    table = _table("STORAGE / PROBE", "STATE", "REASON", ">LATENCY", "WHAT")
    listed = {one.key: one for one in report.storages}
    for key in report.keys:
        status = listed.get(key)
        verdict = _verdict(status.state, status.reason) if status else ("", "")
        table.add_row(Text(_plain(_name(key)), "bold"), *verdict, "", _about(status) if status else "")
        for one in report.looks_at(key):
            table.add_row(f"  {one.kind.value}", *_verdict(one.state, one.reason), _latency(one.latency_s), _what(one))
    return table


def _name(key: StorageKey) -> str:
    """Storage that no CSI driver brought is listed too, by its server if it has one."""
    return str(key) if key.driver else f"no CSI driver{f', {key.backend}' if key.backend else ''}"


def _about(status: StorageStatus) -> str:
    shares = [("space", status.used), ("inodes", status.inodes_used)]
    used = ", ".join(f"{share:.0%} of {what}" for what, share in shares if share is not None)
    return "; ".join(filter(None, (_plain(status.message), f"{used} in use" if used else "")))


def _what(one: Looked) -> str:
    place, words = _plain(one.source.place or one.name), _plain(one.words)
    if place in words:
        return words
    return f"{shorten(place)}: {words}" if words else shorten(place)


def _bad_volumes(report: CheckReport) -> Table:
    table = _table("BAD VOLUME", "DRIVER", "STATE", "REASON", "WHAT")
    for one in report.bad_volumes:
        verdict = _verdict(one.state, one.reason)
        table.add_row(_plain(one.volume), _plain(one.driver), *verdict, _plain(one.message))
    return table


def _pairs(left: str, right: str, rows: Mapping[str, str]) -> Table:
    table = _table(left, right)
    for name, value in rows.items():
        table.add_row(_plain(name), _plain(value))
    return table


def _table(*names: str) -> Table:
    """Plain columns; where there is too little room the first and the last go on below. `>` aligns to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        justify: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        fixed = name not in {names[0], names[-1]}
        table.add_column(name.removeprefix(">"), justify=justify, no_wrap=fixed, overflow="fold")
    return table


def _verdict(state: State, reason: object) -> tuple[Text, str]:
    return Text(state.value, _STYLES[state]), str(reason) if reason else ""


def _latency(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:.1f}ms" if seconds < 0.01 else format_duration(seconds)


def _value(value: FactValue) -> str:
    return value if isinstance(value, str) else str(round(value, 4)).removesuffix(".0")


def shorten(place: str) -> str:
    """`place` without its middle if it is long: the end of a path tells most."""
    return place if len(place) <= _PLACE else f"{place[:_FIRST]}…{place[_FIRST + 1 - _PLACE :]}"


def _plain(text: str) -> str:
    """`text` without anything that a terminal would obey; drivers and paths can say what they like."""
    return "".join(each if each.isprintable() else "�" for each in text)


def _printed(content: Group, width: int | None, *, colour: bool) -> str:
    console = Console(
        file=io.StringIO(),
        width=width or _PIPE_WIDTH,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(content)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
