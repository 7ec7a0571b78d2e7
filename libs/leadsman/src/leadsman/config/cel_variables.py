"""What a CEL expression may name: a node's labels, its facts and those of its storages, typed by the table of facts."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from cel_expr_python import cel

from leadsman.domain.fact_table import FACTS, STORAGE_FACTS, Fact, FactType
from leadsman.domain.node_facts import NodeFacts, StorageFacts

Known = str | float | Mapping[str, str | float]
"""What CEL is given: a text, a number, or a map of such."""


class Variable(NamedTuple):
    """One name that expressions may use.

    `reads` is what it depends on in the terms of `NodeTest.reads`. `sample` is some value of its type. `of` gives its
    value on a node; None where that is not known, and then an expression that needs it cannot be decided.
    """

    type: Any  # a cel.Type; the library has no types that mypy could use
    reads: str
    sample: Known
    of: Callable[[NodeFacts], Known | None]


_TYPES = {FactType.NUMBER: cel.Type.DOUBLE, FactType.COUNT: cel.Type.INT, FactType.TEXT: cel.Type.STRING}
_SAMPLES: Mapping[FactType, str | float] = {FactType.NUMBER: 0.5, FactType.COUNT: 1, FactType.TEXT: "1"}

_OF_STORAGE: Mapping[str, Callable[[StorageFacts], str | float | None]] = {
    "state": lambda one: one.state.value,
    "latencySeconds": lambda one: one.latency_s,
    "used": lambda one: one.used,
    "inodesUsed": lambda one: one.inodes_used,
    "attachLimit": lambda one: one.attach_limit,
    "attachFree": lambda one: (
        None if one.attach_limit is None or one.attached is None else max(0, one.attach_limit - one.attached)
    ),
}


def _typed(wanted: FactType, value: float | str | None) -> float | str | None:
    """`value` as CEL wants it; None for one that is not what the table says, which counts as not known."""
    if value is None or wanted is FactType.TEXT or isinstance(value, str):
        return value if wanted is FactType.TEXT and isinstance(value, str) else None
    if not math.isfinite(value):
        return None
    if wanted is FactType.NUMBER:
        return float(value)
    return int(value) if value == int(value) and abs(value) < 2**63 else None


def _fact(fact: Fact) -> Variable:
    return Variable(
        _TYPES[fact.type], fact.name, _SAMPLES[fact.type], lambda node: _typed(fact.type, node.facts.get(fact.name))
    )


def _facts(node: NodeFacts) -> Mapping[str, str | float] | None:
    """The facts that are known, by name; None if that is not known either."""
    if not node.reported:
        return None
    every = ((name, _typed(FACTS[name].type, value)) for name, value in node.facts.items() if name in FACTS)
    return {name: value for name, value in every if value is not None}


def _storage(name: str, kind: FactType) -> Variable:
    of = _OF_STORAGE[name]

    def read(node: NodeFacts) -> Mapping[str, str | float]:
        return {str(key): value for key, one in node.storages.items() if (value := of(one)) is not None}

    return Variable(cel.Type.Map(cel.Type.STRING, _TYPES[kind]), "storage", {}, read)


VARIABLES: Mapping[str, Variable] = {
    "node.name": Variable(cel.Type.STRING, "name", "node-1", lambda node: node.node),
    "node.labels": Variable(
        cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
        "labels",
        {},
        lambda node: dict(node.labels) if node.reported else None,
    ),
    "node.zone": Variable(cel.Type.STRING, "labels", "zone-1", lambda node: node.zone or None),
    "node.region": Variable(cel.Type.STRING, "labels", "region-1", lambda node: node.region or None),
    "node.facts": Variable(cel.Type.Map(cel.Type.STRING, cel.Type.DYN), "facts", {}, _facts),
    **{f"node.{fact.name}": _fact(fact) for fact in FACTS.values()},
    **{f"node.storage.{fact.name}": _storage(fact.name, fact.type) for fact in STORAGE_FACTS.values()},
}
"""By name. Dotted names are variables of their own, so that the type checker refuses one that does not exist."""

ENVIRONMENT = cel.NewEnv(variables={name: variable.type for name, variable in VARIABLES.items()})
"""The language: standard CEL with `VARIABLES` and without extensions."""


def sample() -> Any:  # noqa: ANN401 - the library's own type
    """A made-up node on which everything but labels and storages is known."""
    return ENVIRONMENT.Activation(data={name: variable.sample for name, variable in VARIABLES.items()})


class NodeActivation:
    """What the expressions of one policy read of a node, put together once for all of them.

    Remembers the last node only: a node's rules are evaluated one after the other.
    """

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._last: tuple[NodeFacts, Any] | None = None

    def include(self, names: Iterable[str]) -> None:
        """Expressions read `names` of `VARIABLES`, too."""
        self._names |= dict.fromkeys(names)
        self._last = None

    def of(self, node: NodeFacts) -> Any:  # noqa: ANN401 - the library's own type
        """The values of `node` for an evaluation."""
        last = self._last
        if last is None or last[0] is not node:
            known = ((name, VARIABLES[name].of(node)) for name in self._names)
            data = {name: value for name, value in known if value is not None}
            self._last = last = (node, ENVIRONMENT.Activation(data=data))
        return last[1]
