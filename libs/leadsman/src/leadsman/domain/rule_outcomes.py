"""What every rule says about every node, worked out when a node's facts change and never when it is asked. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from leadsman.domain.fact_index import FactIndex
from leadsman.domain.fact_table import FACTS
from leadsman.domain.node_facts import Freshness, NodeFacts
from leadsman.domain.policy import Rule, UndecidedError

_ON_LABELS = frozenset({"labels", "zone", "region"})
_FIXED = frozenset({"name"})


class OutcomeListener(Protocol):
    """Whoever makes something of outcomes when they change."""

    def moved(self, number: int, node: str, old: float | None, new: float | None) -> None:
        """Rule `number` had the outcome `old` on `node` and has `new`; None is undecided, or an unknown node.

        Called for every rule, whatever its outcome, when a node becomes known and when it is forgotten (it is no
        longer `in` the outcomes then); else only where the outcome changes.
        """
        ...


class Example(NamedTuple):
    """A node on which a rule cannot be decided, and why, for people."""

    node: str
    why: str


@dataclass(slots=True)
class _Node:
    """A node as it was looked at last: what each distinct test gave, and what counts of it for each rule."""

    facts: NodeFacts
    freshness: Freshness
    results: list[float | None]
    in_force: list[float | None]


class RuleOutcomes:
    """Outcomes of `rules` by position, on all nodes that `facts` knows; hears of their changes until `close`.

    A test runs on a node again only if something has changed there that it reads. Rules with equal tests share what
    their test says. Facts that are older than `staleAfter` decide nothing, except that while they are HELD a `require`
    that fails goes on failing.

    Nothing is known at first: run `fill` to its end. Changes between its steps are taken in as they come.
    """

    def __init__(self, rules: tuple[Rule, ...], facts: FactIndex, listener: OutcomeListener) -> None:
        self.rules = rules
        self.evaluations = 0
        """How often any test has run on any node."""
        self._facts = facts
        self._listener = listener
        self._tests = tuple({rule.test: None for rule in rules})
        place = {test: position for position, test in enumerate(self._tests)}
        self._test_of = tuple(place[rule.test] for rule in rules)
        self._readers = _Readers([test.reads for test in self._tests])
        self._nodes: dict[str, _Node] = {}
        self._undecided = [0] * len(rules)
        self._undecided_total = [0] * len(rules)
        if rules:
            facts.listen(self)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def outcome(self, number: int, node: str) -> float | None:
        """What rule `number` says about `node` now, 0 to 1; None if it cannot be decided or the node is not known."""
        one = self._nodes.get(node)
        return None if one is None else one.in_force[number]

    def undecided(self, number: int) -> int:
        """On how many nodes rule `number` cannot be decided now."""
        return self._undecided[number]

    def undecided_counts(self) -> dict[str, int]:
        """For every rule by name, how often news of some node has left it undecided there; never falls."""
        return {rule.name: count for rule, count in zip(self.rules, self._undecided_total, strict=True)}

    def example(self, number: int) -> Example | None:
        """One node on which rule `number` cannot be decided now. Looks through all nodes: for people, not requests."""
        if not self._undecided[number]:
            return None
        return next(
            Example(node, self._why(number, one)) for node, one in self._nodes.items() if one.in_force[number] is None
        )

    def fill(self) -> Iterator[str]:
        """Take in all nodes that are not known yet, one at each step."""
        for node in list(self._facts):
            if node not in self._nodes:
                self.refresh(node)
            yield node

    def refresh(self, node: str) -> None:
        """See `FactListener.refresh`."""
        one, facts = self._nodes.get(node), self._facts.get(node)
        if facts is None:
            if one is not None:
                self._forget(node, one)
        elif one is None:
            self._introduce(node, facts)
        else:
            self._update(node, one, facts)

    def close(self) -> None:
        """Hear of no more changes."""
        if self.rules:
            self._facts.unlisten(self)

    def _introduce(self, node: str, facts: NodeFacts) -> None:
        one = _Node(facts, self._facts.freshness(node), [None] * len(self._tests), [None] * len(self.rules))
        self._nodes[node] = one
        self._run(range(len(self._tests)), one)
        for number, test in enumerate(self._test_of):
            new = one.in_force[number] = self._worth(number, one.results[test], one.freshness)
            if new is None:
                self._undecided[number] += 1
                self._undecided_total[number] += 1
            self._listener.moved(number, node, None, new)

    def _forget(self, node: str, one: _Node) -> None:
        del self._nodes[node]
        for number, old in enumerate(one.in_force):
            self._undecided[number] -= old is None
            self._listener.moved(number, node, old, None)

    def _update(self, node: str, one: _Node, facts: NodeFacts) -> None:
        touched = self._readers.of_changes(one.facts, facts)
        one.facts = facts
        self._run(touched, one)
        aged, one.freshness = one.freshness, self._facts.freshness(node)
        if one.freshness is not aged:
            self._settle(node, one, range(len(self.rules)))
        elif touched:
            self._settle(node, one, [number for number, test in enumerate(self._test_of) if test in touched])

    def _run(self, tests: Collection[int], one: _Node) -> None:
        self.evaluations += len(tests)
        for test in tests:
            try:
                one.results[test] = self._tests[test].evaluate(one.facts)
            except UndecidedError:
                one.results[test] = None

    def _settle(self, node: str, one: _Node, numbers: Iterable[int]) -> None:
        """Bring in force what has become of these rules. When NATS is gone for good this runs for all nodes at once."""
        for number in numbers:
            new = self._worth(number, one.results[self._test_of[number]], one.freshness)
            if new is None:
                self._undecided_total[number] += 1
            old = one.in_force[number]
            if new != old:
                one.in_force[number] = new
                self._undecided[number] += (new is None) - (old is None)
                self._listener.moved(number, node, old, new)

    def _worth(self, number: int, result: float | None, freshness: Freshness) -> float | None:
        """What counts of `result` when the facts behind it are as fresh as that."""
        if freshness is Freshness.CURRENT:
            return result
        holds = freshness is Freshness.HELD and result == 0 and self.rules[number].require is not None
        return result if holds else None

    def _why(self, number: int, one: _Node) -> str:
        if not one.facts.reported:
            return "the node's agent has not reported"
        if one.freshness is not Freshness.CURRENT:
            return "the node's facts are too old"
        try:
            self._tests[self._test_of[number]].evaluate(one.facts)
        except UndecidedError as error:
            return str(error)
        return "it has just become decided"


class _Readers:
    """Which tests, by position, must run again after what change."""

    def __init__(self, reads_of_tests: Sequence[frozenset[str]]) -> None:
        self._labels: set[int] = set()
        self._storages: set[int] = set()
        self._any_fact: set[int] = set()
        self._unclear: set[int] = set()
        """They read what is not known here, so every change may be theirs."""
        self._facts: defaultdict[str, set[int]] = defaultdict(set)
        self._all = set(range(len(reads_of_tests)))
        for test, reads in enumerate(reads_of_tests):
            for name in reads - _FIXED:
                self._of(name).add(test)

    def _of(self, name: str) -> set[int]:
        if name in FACTS:
            return self._facts[name]
        if name in _ON_LABELS:
            return self._labels
        return {"storage": self._storages, "facts": self._any_fact}.get(name, self._unclear)

    def of_changes(self, before: NodeFacts, now: NodeFacts) -> set[int]:
        """The tests to which `now` may look different from `before`."""
        if now is before:
            return set()
        if now.reported is not before.reported:
            return self._all
        found = set(self._unclear)
        if self._labels and now.labels != before.labels:
            found |= self._labels
        if self._storages and now.storages != before.storages:
            found |= self._storages
        if self._any_fact and now.facts != before.facts:
            found |= self._any_fact
        for name, tests in self._facts.items():
            if now.facts.get(name) != before.facts.get(name):
                found |= tests
        return found
