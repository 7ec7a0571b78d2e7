"""Rules of the policy document turned into the domain's, with the exact place of everything that cannot work."""

import re
from collections.abc import Sequence
from dataclasses import replace

from msgspec import UNSET

from leadsman.config.cel_test import CelError, CelTest, Use
from leadsman.config.cel_variables import NodeActivation
from leadsman.config.policy_structs import MAX_RULES, MAX_WEIGHT, RULE_NAME, PreferEntry, RequireEntry, RuleEntry
from leadsman.config.policy_terms import Complain, equalities, expressions, pod_selector
from leadsman.config.tree import Path
from leadsman.domain.label_test import LabelTest
from leadsman.domain.policy import NodeTest, Rule


def build_rules(entries: Sequence[RuleEntry], complain: Complain) -> tuple[Rule, ...]:
    """The rules in document order; those with problems, which `complain` hears of, are left out."""
    if len(entries) > MAX_RULES:
        complain(("rules",), f"{len(entries)} rules, over the limit of {MAX_RULES}")
        return ()
    _check_names([entry.name for entry in entries], complain)
    builder = _Builder(complain)
    rules = [builder.rule(entry, ("rules", number)) for number, entry in enumerate(entries)]
    return tuple(rule for rule in rules if rule is not None)


def check_weight(weight: float, path: Path, complain: Complain) -> None:
    """Complain of a weight that is no number from 0 to 1000."""
    if not 0 <= weight <= MAX_WEIGHT:
        complain(path, f"{weight} is not a weight; write a number from 0 to {MAX_WEIGHT}, 0 for what must not count")


def _check_names(names: Sequence[str], complain: Complain) -> None:
    first: dict[str, int] = {}
    for number, name in enumerate(names):
        path: Path = ("rules", number, "name")
        if not re.fullmatch(RULE_NAME, name):
            words = "is not a name: lower-case letters, digits and '-', at most 63 of them; it stands in events of pods"
            complain(path, f"{name[:80]!r} {words}")
        elif first.setdefault(name, number) != number:
            complain(path, f"rules[{first[name]}] has the name {name!r} already")


class _Builder:
    """Makes the rules of one document; their expressions share what they read of a node."""

    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self._values = NodeActivation()

    def rule(self, entry: RuleEntry, path: Path) -> Rule | None:
        """The rule that `entry`, which stands at `path`, asks for; None if it cannot be."""
        pods = pod_selector(entry.pods, (*path, "pods"), self._complain)
        plain = Rule(entry.name, pods, on_error=entry.on_error, enforce=entry.enforce)
        if entry.require is not UNSET and entry.prefer is UNSET:
            test = self._test(entry.require, "require", (*path, "require"))
            return None if test is None else replace(plain, require=test, resolvable=entry.resolvable is True)
        if entry.prefer is not UNSET and entry.require is UNSET:
            self._check_preferring(entry, entry.prefer.weight, path)
            test = self._test(entry.prefer, "prefer", (*path, "prefer"))
            return None if test is None else replace(plain, prefer=test, weight=entry.prefer.weight)
        given = "neither" if entry.require is UNSET else "both"
        self._complain(path, f"a rule has either require or prefer; this one has {given}")
        return None

    def _check_preferring(self, entry: RuleEntry, weight: float, path: Path) -> None:
        check_weight(weight, (*path, "prefer", "weight"), self._complain)
        if entry.resolvable is not UNSET:
            words = "means something only beside require; a rule that prefers rejects nobody"
            self._complain((*path, "resolvable"), words)

    def _test(self, entry: RequireEntry | PreferEntry, use: Use, path: Path) -> NodeTest | None:
        forms = {"labels": entry.labels, "matchExpressions": entry.match_expressions, "cel": entry.cel}
        given = [name for name, value in forms.items() if value is not UNSET]
        if len(given) != 1:
            has = " and ".join(given) or "none of them"
            self._complain(path, f"{use} needs exactly one of labels, matchExpressions and cel; this one has {has}")
            return None
        if entry.cel is not UNSET:
            return self._cel(entry.cel, use, (*path, "cel"))
        terms = equalities(entry.labels, (*path, "labels"), self._complain)
        terms += expressions(entry.match_expressions, (*path, "matchExpressions"), self._complain)
        if not terms:
            self._complain((*path, given[0]), "is empty, so every node would do; name a label, or leave the rule out")
        return LabelTest(tuple(terms))

    def _cel(self, text: str, use: Use, path: Path) -> CelTest | None:
        try:
            return CelTest(text, use, self._values)
        except CelError as error:
            for words in error.problems:
                self._complain(path, words)
            return None
