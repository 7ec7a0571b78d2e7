"""Policies of many rules for the pod of the benchmark: half of them on labels, half in CEL on facts that move.

Every other rule touches the pod, and with `all_match` every one. Each that touches it requires something, of which
five nodes of its own fall short (label rules), or which all nodes have (CEL); one in ten prefers instead.
"""

import json
from pathlib import Path

from leadsman_bench.node_objects import node_name

COUNTS = (0, 1, 10, 100)
"""Rules of the policies that are compared."""

_POD = {"app.kubernetes.io/name": "orders-db"}
_OTHER = {"app.kubernetes.io/name": "another"}
_FALL_SHORT = 5


def document(count: int, *, all_match: bool) -> str:
    """A policy of `count` rules (JSON is YAML)."""
    rules = [_rule(number, touched=all_match or number % 2 == 0) for number in range(count)]
    return json.dumps({"apiVersion": "leadsman.dev/v1alpha1", "kind": "SchedulingPolicy", "rules": rules})


def write(path: Path, text: str) -> None:
    """Replace the file `path` in one step, as a ConfigMap volume does."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.rename(path)


def _rule(number: int, *, touched: bool) -> dict[str, object]:
    rule: dict[str, object] = {"name": f"rule-{number}", "pods": {"matchLabels": _POD if touched else _OTHER}}
    if number % 10 == 9:
        return rule | {"prefer": {"cel": f"node.cpu.idle > 0.0{number:03d}1", "weight": 1}}
    if number % 4 < 2:
        names = [node_name(number * _FALL_SHORT + step) for step in range(_FALL_SHORT)]
        term = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": names}
        return rule | {"require": {"matchExpressions": [term]}}
    return rule | {"require": {"cel": f"node.cpu.idle > 0.0{number:03d}1 && node.cpu.count >= 4"}}
