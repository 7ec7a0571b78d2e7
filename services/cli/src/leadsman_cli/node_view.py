"""What is known of one node now: its facts, labels and storages, with the age of what its collectors said."""

from collections.abc import Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from leadsman.domain.durations import format_duration
from leadsman.domain.fact_table import FACTS
from leadsman.domain.node_facts import NodeFacts, StorageFacts, node_facts
from leadsman.domain.what_if import Heard
from leadsman_cli.errors import CommandError
from leadsman_cli.policy_nodes import nearest
from leadsman_cli.tables import columns

_BYTES = "bytes"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class StorageNumbers(msgspec.Struct, frozen=True):
    """One storage of a node; None is not known. Units as in `docs/facts.md`."""

    state: str
    latency_seconds: float | None
    used: float | None
    inodes_used: float | None
    attach_limit: int | None
    attach_free: int | None


class NodePicture(msgspec.Struct, frozen=True):
    """One node. `facts` has every fact there is, None where it is not known; `report_ages_s` goes by reporter."""

    node: str
    report_ages_s: dict[str, float]
    labels: dict[str, str]
    facts: dict[str, float | str | None]
    storages: dict[str, StorageNumbers]


def picture_of(node: str, reports: Sequence[Heard]) -> NodePicture:
    """What all reporters of `node` say together.

    Raises:
        CommandError: none of them has reported.
    """
    mine = [(report, age_s) for report, age_s in reports if report.node == node]
    if not mine:
        names = sorted({report.node for report, _ in reports})
        raise CommandError(f"no report of a node {node!r}; {nearest(node, names) if names else 'no node reports'}")
    known: NodeFacts = node_facts(node, [report for report, _ in mine])
    return NodePicture(
        node,
        {report.reporter: round(age_s, 1) for report, age_s in mine},
        dict(sorted(known.labels.items())),
        {name: known.facts.get(name) for name in FACTS},
        {str(key): _numbers(one) for key, one in sorted(known.storages.items())},
    )


def _numbers(one: StorageFacts) -> StorageNumbers:
    free = None if one.attach_limit is None or one.attached is None else max(0, one.attach_limit - one.attached)
    return StorageNumbers(one.state.value, one.latency_s, one.used, one.inodes_used, one.attach_limit, free)


def ages_line(picture: NodePicture) -> str:
    """`node-1, reported 3s ago`, with sidecars where there are some."""
    ages = ", ".join(
        f"{'reported' if name == picture.node else name.partition('/')[2] + ' sidecar'} {format_duration(age_s)} ago"
        for name, age_s in sorted(picture.report_ages_s.items())
    )
    return f"{picture.node}, {ages}"


def fact_values_table(picture: NodePicture) -> Table:
    """Every fact with its value."""
    table = columns("FACT", "VALUE", "UNIT")
    for name, value in picture.facts.items():
        table.add_row(f"node.{name}", _value(value, FACTS[name].unit), FACTS[name].unit or "-")
    return table


def _value(value: float | str | None, unit: str) -> Text:
    if value is None:
        return Text("not known", "dim")
    if isinstance(value, str):
        return Text(value)
    return Text(f"{value:.0f} ({_sized(value)})" if unit == _BYTES else f"{value:.6g}")


def _sized(value: float) -> str:
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.1f} {unit}"


def labels_table(picture: NodePicture) -> Table:
    """Labels, as `node.labels` has them."""
    table = columns("LABEL", "VALUE")
    for key, value in picture.labels.items():
        table.add_row(key, value or '""')
    return table


def storages_table(picture: NodePicture) -> Table:
    """Storages with their numbers, as `node.storage` has them."""
    table = columns("STORAGE", "STATE", "LATENCY", "USED", "INODES", "ATTACH LIMIT", "ATTACH FREE")
    for name, one in picture.storages.items():
        latency = "-" if one.latency_seconds is None else f"{one.latency_seconds:.4f}s"
        numbers = (_share(one.used), _share(one.inodes_used), _count(one.attach_limit), _count(one.attach_free))
        table.add_row(name, one.state, latency, *numbers)
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
