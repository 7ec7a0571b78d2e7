"""The policies that are compared: many rules for the pod of the benchmark, and the right answers under them.

A policy of N rules has N that require, which the filter keeps, and N that prefer, which the scorer keeps. Half of each
are on labels and half in CEL on the CPU load, which moves with every report. Half of them select the pod, by its
labels, and half another pod; of a policy that `all_match` every one selects it.

All policies have the rules that select the pod reject the same 200 nodes, healthy ones, each rule some of its own, and
prefer with the same weight in all: then their answers are as large, and what differs is the number of rules.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from leadsman.domain.reasons import Reason, reply_text
from leadsman_bench import fleet
from leadsman_bench.node_objects import node_name

WEIGHT = 10.0
"""Of all preferences that select the pod together; that of the built-in components is 8."""

SHUNNED_POOL = "pool-3"
"""The label value of a seventh of the nodes that the preferences on labels do not like."""

_POD = {"app.kubernetes.io/name": "orders-db"}
_OTHER = {"app.kubernetes.io/name": "another"}
_REJECTED = tuple(node_name(number) for number in range(fleet.NODES) if number % 25 == 7)

Rule = dict[str, object]


@dataclass(frozen=True, slots=True)
class RulePolicy:
    """A policy of `count` rules that require and as many that prefer."""

    count: int
    all_match: bool = False

    @property
    def name(self) -> str:
        """It in words, as the tables show it."""
        return f"{self.count}, all match" if self.all_match else str(self.count)

    @property
    def matching(self) -> tuple[int, ...]:
        """The rules that select the pod: the first, then the two of every four that make half of each kind."""
        return tuple(number for number in range(self.count) if self.all_match or (number + 1) // 2 % 2 == 0)

    @property
    def rejected(self) -> dict[str, str]:
        """Nodes that the rules keep the pod off, with the reply text."""
        return {
            node: reply_text(Reason.RULE_NOT_MET, _require_name(number))
            for number, share in self._shares().items()
            for node in share
        }

    def document(self) -> str:
        """The file (JSON is YAML)."""
        shares, weight = self._shares(), WEIGHT / max(1, len(self.matching))
        requiring = [_requiring(number, shares.get(number)) for number in range(self.count)]
        preferring = [_preferring(number, weight, touched=number in shares) for number in range(self.count)]
        rules = [*requiring, *preferring]
        return json.dumps({"apiVersion": "leadsman.dev/v1alpha1", "kind": "SchedulingPolicy", "rules": rules}, indent=1)

    def _shares(self) -> dict[int, tuple[str, ...]]:
        """The nodes that each rule which selects the pod rejects."""
        matching = self.matching
        return {number: _REJECTED[place :: len(matching)] for place, number in enumerate(matching)}


POLICIES = (RulePolicy(0), RulePolicy(1), RulePolicy(10), RulePolicy(100), RulePolicy(100, all_match=True))
"""In the order of the tables."""

ONE_RULE = POLICIES[1]
"""What the others are compared with."""


def replace_file(path: Path, text: str) -> None:
    """Replace the file `path` in one step, as a ConfigMap volume does."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.rename(path)


def _require_name(number: int) -> str:
    return f"require-{number:03d}"  # names of one length make texts of one length


def _requiring(number: int, share: tuple[str, ...] | None) -> Rule:
    """A rule that no node in `share` meets; one for other pods (None) is as dear, and rejects nodes just as well."""
    nodes = _REJECTED[:4] if share is None else share
    return {
        "name": _require_name(number),
        "pods": {"matchLabels": _OTHER if share is None else _POD},
        "require": _not_in_labels(nodes) if number % 2 == 0 else _not_in_cel(nodes),
    }


def _not_in_labels(nodes: tuple[str, ...]) -> Rule:
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": nodes}]}


def _not_in_cel(nodes: tuple[str, ...]) -> Rule:
    names = ", ".join(f"'{node}'" for node in nodes)
    return {"cel": f"node.cpu.idle > 0.05 && !(node.name in [{names}])"}


def _preferring(number: int, weight: float, *, touched: bool) -> Rule:
    """Even ones are in CEL, so that a policy of one rule has one rule of either kind.

    Their values move by hundredths with every report, and so little that no score changes.
    """
    on_labels = {"key": "storage.example.com/pool", "operator": "NotIn", "values": [SHUNNED_POOL]}
    ask: Rule = {"matchExpressions": [on_labels]}
    if number % 2 == 0:
        ask = {"cel": f"0.9 + 0.0{number:03d}1 + 0.09 * node.cpu.idle"}
    return {
        "name": f"prefer-{number:03d}",
        "pods": {"matchLabels": _POD if touched else _OTHER},
        "prefer": ask | {"weight": weight},
    }
