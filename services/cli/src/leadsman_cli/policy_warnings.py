"""What is allowed in a policy but is probably not meant, or costs more than it looks."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec

from leadsman.config.tree import Path, parse_tree
from leadsman.domain.fact_table import FACTS
from leadsman.domain.label_test import LabelTest
from leadsman.domain.pod_selectors import Operator, PodSelector, Term
from leadsman.domain.policy import Rule, SchedulingPolicy
from leadsman.domain.storage_policy import Treatment

_UP_TO_1 = frozenset({"share", "0 or 1"})
_AS_SHARE = "as 0 to 1, so nearly every node is worth 1: divide it by what the best node has"
_REJECTS_ALL = (
    "keeps pods off all nodes whose collectors are new, late or gone; set it for the drivers that need it "
    "(storage.drivers)"
)


class Warned(msgspec.Struct, frozen=True):
    """One warning; `line` is 0 where no place of the file stands for it."""

    line: int
    words: str


def warnings_about(policy: SchedulingPolicy, text: str) -> list[Warned]:
    """What is odd about `policy`, which was read from `text`, in the order of the file."""
    tree = parse_tree(text, "policy")
    found = [Warned(tree.line(path), words) for path, words in (*_all(policy), *_bare_facts(tree.value))]
    return sorted(found, key=lambda one: one.line)


def _all(policy: SchedulingPolicy) -> Iterator[tuple[Path, str]]:
    yield from _storage(policy)
    yield from _weights(policy)
    for number, rule in enumerate(policy.rules):
        yield from ((("rules", number), f"rule {rule.name} {words}") for words in _rule(rule, policy.rules[:number]))


def _bare_facts(value: object) -> Iterator[tuple[Path, str]]:
    """Preferences that are nothing but a fact that is no share: nearly every node would be worth 1."""
    rules = value.get("rules", []) if isinstance(value, dict) else []
    for number, rule in enumerate(rules):
        expression = (rule.get("prefer") or {}).get("cel", "")
        fact = FACTS.get(expression.strip().removeprefix("node."))
        if fact is not None and fact.unit not in _UP_TO_1:
            yield (
                ("rules", number, "prefer", "cel"),
                f"rule {rule['name']} takes {fact.unit or 'a number'} {_AS_SHARE}",
            )


def _storage(policy: SchedulingPolicy) -> Iterator[tuple[Path, str]]:
    for name in ("unknown", "stale"):
        if getattr(policy.storage.default, name) is Treatment.REJECT:
            yield (
                ("storage", "default", name),
                f"{name}: reject for every driver {_REJECTS_ALL}",
            )


def _weights(policy: SchedulingPolicy) -> Iterator[tuple[Path, str]]:
    counting = [rule for rule in policy.preferring if rule.enforce and rule.weight > 0]
    if not counting and not any(policy.weights.values()):
        yield (
            ("score", "weights"),
            "all weights are 0 and no rule prefers anything: every node scores as much as its storage's state allows",
        )


def _rule(rule: Rule, earlier: Sequence[Rule]) -> Iterator[str]:
    if contradiction := _contradiction(rule.pods):
        yield f"can never touch a pod: {contradiction}"
    if rule.pods == PodSelector():
        yield "has no pods selector: it touches every pod, so pods without storage are asked about as well"
    if isinstance(rule.test, LabelTest) and (contradiction := _contradictory(rule.test.terms)):
        yield f"is met by no node: {contradiction}"
    if not rule.test.reads:
        yield "reads nothing about nodes: it says the same of every node"
    if rule.prefer is not None and not rule.weight:
        yield "has weight 0: it changes no score"
    for other in earlier:
        if words := _in_the_shadow(rule, other):
            yield words
            return


def _in_the_shadow(rule: Rule, other: Rule) -> str:
    """What is odd about `rule` beside `other`, which stands before it, asks the same and touches the same pods."""
    if rule.test != other.test or not _covers(other.pods, rule.pods) or not other.enforce or not rule.enforce:
        return ""
    if rule.prefer is not None and other.prefer is not None:
        return f"asks the same as rule {other.name} about the same pods: it counts twice"
    if rule.require is None or other.require is None:
        return ""
    same = rule.on_error is other.on_error and rule.resolvable >= other.resolvable
    return f"never decides: rule {other.name} requires the same of the same pods" if same else ""


def _covers(wide: PodSelector, narrow: PodSelector) -> bool:
    """Whether every pod that `narrow` selects is selected by `wide`, as far as their words tell."""
    return (
        set(wide.labels) <= set(narrow.labels)
        and set(wide.annotations) <= set(narrow.annotations)
        and _within(narrow.namespaces, wide.namespaces)
        and _within(narrow.priority_classes, wide.priority_classes)
    )


def _within(narrow: frozenset[str], wide: frozenset[str]) -> bool:
    """Whether any of `narrow` is one of `wide`; none at all stands for everything."""
    return not wide or (bool(narrow) and narrow <= wide)


def _contradiction(pods: PodSelector) -> str:
    """Two terms of `pods` that no pod meets together, in words."""
    return _contradictory(pods.labels) or _contradictory(pods.annotations)


def _contradictory(terms: Sequence[Term]) -> str:
    for one, other in combinations(terms, 2):
        if one.key == other.key and (_excludes(one, other) or _excludes(other, one)):
            return f"{_words(one)} and {_words(other)}"
    return ""


def _excludes(one: Term, other: Term) -> bool:
    match (one.operator, other.operator):
        case (Operator.IN, Operator.IN):
            return not set(one.values) & set(other.values)
        case (Operator.IN, Operator.NOT_IN):
            return set(one.values) <= set(other.values)
        case (Operator.IN | Operator.EXISTS, Operator.DOES_NOT_EXIST):
            return True
        case _:
            return False


def _words(term: Term) -> str:
    values = f" ({', '.join(term.values)})" if term.values else ""
    return f"{term.key} {term.operator.value}{values}"
