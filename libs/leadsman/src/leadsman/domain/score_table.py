"""The scores of all nodes for one kind of pod, kept as bytes, so that a change costs one row and an answer a copy."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import NamedTuple

from leadsman.domain.curves import nearness
from leadsman.domain.health import Health
from leadsman.domain.node_values import OF_NODE, NodeValues, Values
from leadsman.domain.policy import Component, SchedulingPolicy
from leadsman.domain.report import StorageKey
from leadsman.domain.requirements import Near, Needs, Question
from leadsman.domain.scores import NEUTRAL, Cap, Combination, hundredths, rule_column, worst
from leadsman.domain.verdicts import UNKNOWN_VALUE, Column, ScoreAnswer

ValueOf = Callable[[NodeValues], int]
States = Mapping[StorageKey, Health]


class Source(NamedTuple):
    """Where a column comes from. Its `weight` is shown, and counts if `counts`."""

    name: str
    weight: float
    value_of: ValueOf
    counts: bool = True


def sources(policy: SchedulingPolicy, question: Question, regions: frozenset[str]) -> tuple[Source, ...]:
    """The columns for `question`: components with a weight that mean something for it, then its rules.

    `regions` are those near to the pod's data: its own, and those in which its zones lie.
    """
    of_question = _of_question(question, regions)
    components = [
        Source(component.value, weight, value_of)
        for component in Component
        if (weight := policy.weights.get(component, 0.0)) > 0
        and (value_of := OF_NODE.get(component) or of_question.get(component))
    ]
    rules = policy.preferring
    preferred = [
        Source(rule_column(rules[number]), rules[number].weight, _of_rule(number), rules[number].enforce)
        for number in question.rules
    ]
    return (*components, *preferred)


def _of_question(question: Question, regions: frozenset[str]) -> dict[Component, ValueOf]:
    """Components that depend on the pod, as far as they mean something for it."""
    found: dict[Component, ValueOf] = {}
    if question.needs:
        found[Component.STORAGE_LATENCY] = _worst(question.needs, attrgetter("latency"))
        found[Component.CAPACITY] = _worst(question.needs, attrgetter("capacity"))
    if question.near != Near():
        found[Component.NEARNESS] = _nearness(question.near, regions)
    return found


def _worst(needs: Needs, values_of: Callable[[NodeValues], Values]) -> ValueOf:
    """The worst over `needs`, each by its backend or, where nothing is known of that, by its driver."""
    keys = [(need, StorageKey(need.driver)) for need in needs]

    def value_of(node: NodeValues) -> int:
        values = values_of(node)
        found = []
        for backend, driver in keys:
            value = values.get(backend)
            found.append(values.get(driver, UNKNOWN_VALUE) if value is None else value)
        return worst(found)

    return value_of


def _nearness(near: Near, regions: frozenset[str]) -> ValueOf:
    @cache
    def at(zone: str, region: str, held: bool) -> int:  # noqa: FBT001 - a key
        value = nearness(zone, region, near, regions)
        if value is None or (held and hundredths(value) > NEUTRAL):
            return UNKNOWN_VALUE
        return hundredths(value)

    return lambda values: at(values.zone, values.region, values.held)


def _of_rule(number: int) -> ValueOf:
    return lambda values: values.rules[number]


class ScoreTable:
    """Scores, caps and components of all nodes for one question, in the order of the nodes' names.

    `seen` and `generation` belong to whoever keeps it in step. It is made for the policy, the `unlisted` state and the
    `regions` near to the pod that hold at that moment; when they change, make another.
    """

    def __init__(self, columns: tuple[Source, ...], cap: Cap, unknown: NodeValues) -> None:
        self.seen = 0
        self.generation = 0
        self.nodes: list[str] = []
        self._sources = columns
        self._values_of = [one.value_of for one in columns]
        self._cap = cap
        self._score = Combination([one.weight if one.counts else 0.0 for one in columns]).score
        self._width = 2 + len(columns)
        self._cells = bytearray()
        """Row by row, in the order of `nodes`: score, cap, components."""
        self._default = self._scored(self._row(unknown, {}))[0]

    def build(self, nodes: Mapping[str, tuple[NodeValues, States]]) -> None:
        """Begin anew with exactly `nodes`: the values and the states in force of each."""
        self.nodes = sorted(nodes)
        self._cells = bytearray().join([self._scored(self._row(*nodes[node])) for node in self.nodes])

    def update(self, node: str, values: NodeValues, states: States) -> bool:
        """Note what is in force on `node` now; tells whether anything has changed."""
        at, known = self._find(node)
        row = self._row(values, states)
        begin = at * self._width
        end = begin + self._width if known else begin
        if known and self._cells[begin + 1 : end] == row:
            return False
        if not known:
            self.nodes.insert(at, node)
        self._cells[begin:end] = self._scored(row)
        return True

    def forget(self, node: str) -> bool:
        """Drop `node`; tells whether it was there."""
        at, known = self._find(node)
        if known:
            del self.nodes[at]
            del self._cells[at * self._width : (at + 1) * self._width]
        return known

    def answer(self, *, dry_run: bool) -> ScoreAnswer:
        """What the table says now."""
        scores, caps, *columns = [bytes(self._cells[place :: self._width]) for place in range(self._width)]
        named = [Column(one.name, one.weight, column) for one, column in zip(self._sources, columns, strict=True)]
        return ScoreAnswer(tuple(self.nodes), scores, self._default, caps, tuple(named), dry_run)

    def _find(self, node: str) -> tuple[int, bool]:
        at = bisect_left(self.nodes, node)
        return at, at < len(self.nodes) and self.nodes[at] == node

    def _row(self, values: NodeValues, states: States) -> bytes:
        """Cap and components."""
        return bytes([self._cap.of(states), *[value_of(values) for value_of in self._values_of]])

    def _scored(self, row: bytes) -> bytes:
        return bytes((self._score(row[1:], row[0]),)) + row
