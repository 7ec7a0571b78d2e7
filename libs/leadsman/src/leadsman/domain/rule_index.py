"""Per rule that requires something, the nodes that it keeps pods off; kept in step with the nodes' facts. Pure."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.policy import OnError, Rule
from leadsman.domain.reasons import Reason
from leadsman.domain.rule_outcomes import RuleOutcomes
from leadsman.domain.verdicts import Rejection

MAX_COMBINATIONS = 64
"""Combinations of rules whose common result is kept; pods of one kind are touched by one combination."""


class Counts(NamedTuple):
    """Known nodes by the outcome of a rule."""

    passing: int
    failing: int
    undecided: int


class Together(NamedTuple):
    """What several rules say together: the known nodes that fail, and what becomes of unknown ones (None: they pass).

    Do not keep it across changes.
    """

    failing: Mapping[str, Rejection]
    unlisted: Rejection | None


@dataclass(slots=True)
class _Standing:
    """One rule. It has one Rejection for each reason, so that whoever packs thousands of them need not hash each."""

    name: str
    enforced: bool
    not_met: Rejection
    undecided: Rejection | None
    """The rejection of nodes that are undecided or not known; None where `onError` lets them pass."""
    changed: int
    failing: dict[str, Rejection] = field(default_factory=dict)
    not_met_on: int = 0
    combinations: "list[_Combination]" = field(default_factory=list)

    def judge(self, outcome: float | None) -> Rejection | None:
        """What becomes of a node with `outcome`."""
        if outcome is None:
            return self.undecided
        return None if outcome > 0 else self.not_met


class _Combination:
    """Several rules in order of precedence. When asked it looks only at nodes on which one of them has changed.

    So a request pays for what has changed since the last one, and not for the number of rules.
    """

    def __init__(self, parts: list[_Standing]) -> None:
        self.moved: set[str] = set()
        """Nodes to look at again."""
        self._parts = parts
        self._unlisted = next((one.undecided for one in parts if one.undecided is not None), None)
        self._failing = self._judge_all()
        for one in parts:
            one.combinations.append(self)

    def now(self) -> Together:
        """What the rules say now."""
        if len(self.moved) * len(self._parts) > sum(len(one.failing) for one in self._parts):
            self._failing = self._judge_all()
        else:
            for node in self.moved:
                self._judge(node)
        self.moved.clear()
        return Together(self._failing, self._unlisted)

    def drop(self) -> None:
        """Be told of no more changes."""
        for one in self._parts:
            one.combinations.remove(self)

    def _judge_all(self) -> dict[str, Rejection]:
        failing: dict[str, Rejection] = {}
        for one in reversed(self._parts):
            failing |= one.failing
        return failing

    def _judge(self, node: str) -> None:
        for one in self._parts:
            if (rejection := one.failing.get(node)) is not None:
                self._failing[node] = rejection
                return
        self._failing.pop(node, None)


class RuleIndex:
    """The nodes that each of `rules` (all of them have `require`) rejects, by the rule's position.

    All numbers of changes come from `changes`. Nothing is known at first: run `fill` to its end.
    """

    def __init__(self, rules: tuple[Rule, ...], facts: FactIndex, changes: ChangeCounter) -> None:
        self.rules = rules
        self._changes = changes
        first = changes.next()
        self._standings = tuple(_standing(rule, first) for rule in rules)
        self._combinations: OrderedDict[tuple[int, ...], _Combination] = OrderedDict()
        self._recovered: set[str] = set()
        self.outcomes = RuleOutcomes(rules, facts, self)

    def failing(self, number: int) -> Mapping[str, Rejection]:
        """The known nodes that rule `number` rejects; do not keep it across changes."""
        return self._standings[number].failing

    def rejects_unlisted(self, number: int) -> bool:
        """Whether rule `number` rejects nodes that are not known (not in `outcomes`): its `onError` says so."""
        return self._standings[number].undecided is not None

    def together(self, numbers: tuple[int, ...]) -> Together:
        """What the rules `numbers`, ascending, say together.

        Rules that evicting pods could not resolve go before those that it could, then the first in the document.
        """
        found = self._combinations.get(numbers)
        if found is None:
            strongest_first = sorted(numbers, key=lambda number: self.rules[number].resolvable)
            found = self._combinations[numbers] = _Combination([self._standings[number] for number in strongest_first])
            if len(self._combinations) > MAX_COMBINATIONS:
                self._combinations.popitem(last=False)[1].drop()
        self._combinations.move_to_end(numbers)
        return found.now()

    def changed(self, number: int) -> int:
        """The last change of whom rule `number` rejects; the number of the index's making if there was none."""
        return self._standings[number].changed

    def counts(self, number: int) -> Counts:
        """How many nodes pass, fail, and are undecided (whatever `onError` makes of those)."""
        failing, undecided = self._standings[number].not_met_on, self.outcomes.undecided(number)
        return Counts(len(self.outcomes) - failing - undecided, failing, undecided)

    @property
    def recovering(self) -> bool:
        """Whether `take_recovered` has something to tell."""
        return bool(self._recovered)

    def take_recovered(self) -> set[str]:
        """The enforced rules, as `rule <name>`, that let some node pass which they rejected; each is told once."""
        names, self._recovered = self._recovered, set()
        return names

    def fill(self) -> Iterator[str]:
        """Evaluate all rules on all nodes, one node at each step."""
        return self.outcomes.fill()

    def close(self) -> None:
        """Follow the facts no more."""
        self.outcomes.close()

    def moved(self, number: int, node: str, old: float | None, new: float | None) -> None:
        """See `OutcomeListener.moved`."""
        one = self._standings[number]
        before, now = one.judge(old), one.judge(new)
        one.not_met_on += (now is one.not_met) - (before is one.not_met)
        if now is before and one.undecided is None:
            return
        # Where unknown nodes are rejected, those that pass are named in answers: any news of a node counts there.
        one.changed = self._changes.next()
        if now is not None and node in self.outcomes:
            one.failing[node] = now
        else:
            one.failing.pop(node, None)
        for combination in one.combinations:
            combination.moved.add(node)
        if before is not None and now is None and one.enforced:
            self._recovered.add(f"rule {one.name}")


def _standing(rule: Rule, first: int) -> _Standing:
    undecided = Rejection(Reason.RULE_UNDECIDED, rule.name, rule.resolvable)
    return _Standing(
        rule.name,
        rule.enforce,
        Rejection(Reason.RULE_NOT_MET, rule.name, rule.resolvable),
        undecided if rule.on_error is OnError.REJECT else None,
        first,
    )
