"""Which pods a policy rule touches, in the terms of Kubernetes label selectors."""

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadsman.domain.requirements import Profile

_NUMBER = re.compile("[+-]?[0-9]{1,19}")

MAX_KEPT = 4096
"""Kinds of pods whose rules are remembered; pods of one workload are of one kind."""


class Operator(StrEnum):
    """Of a label selector; Gt and Lt are for nodes only, as in node affinity."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement on a set of labels; `values` is empty for Exists and DoesNotExist, one number for Gt and Lt."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet it, by the rules of Kubernetes: NotIn also holds where the key is absent."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        """As node affinity does: both sides are whole numbers, and anything else does not hold."""
        number, limit = _whole(value or ""), _whole(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator is Operator.GT else number < limit


@dataclass(frozen=True, slots=True)
class PodSelector:
    """The pods that a rule touches: all of these must match; an empty one matches every pod.

    `namespaces` and `priority_classes` match any of theirs, or everything when empty.
    """

    labels: tuple[Term, ...] = ()
    annotations: tuple[Term, ...] = ()
    namespaces: frozenset[str] = frozenset()
    priority_classes: frozenset[str] = frozenset()

    def matches(self, profile: Profile) -> bool:
        """Whether a pod with `profile` is touched."""
        return (
            (not self.namespaces or profile.namespace in self.namespaces)
            and (not self.priority_classes or profile.priority_class in self.priority_classes)
            and all(term.holds(profile.labels) for term in self.labels)
            and all(term.holds(profile.annotations) for term in self.annotations)
        )


class SelectorSet:
    """The selectors of all rules of one policy; looks at every selector once for each kind of pod."""

    def __init__(self, selectors: Sequence[PodSelector]) -> None:
        self.selectors = tuple(selectors)
        self._labels = _named([term for each in selectors for term in each.labels])
        self._annotations = _named([term for each in selectors for term in each.annotations])
        self.annotations = tuple(sorted(self._annotations))
        """The annotations that any selector reads."""
        self._namespaces = frozenset[str]().union(*[each.namespaces for each in selectors])
        self._priority_classes = frozenset[str]().union(*[each.priority_classes for each in selectors])
        self._known: OrderedDict[object, tuple[int, ...]] = OrderedDict()

    def matching(self, profile: Profile) -> tuple[int, ...]:
        """Positions of the selectors that match, ascending; a look-up for all pods but the first of their kind."""
        if not self.selectors:
            return ()
        kind = self._kind(profile)
        found = self._known.get(kind)
        if found is None:
            found = tuple(number for number, each in enumerate(self.selectors) if each.matches(profile))
            self._known[kind] = found
            if len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)
        return found

    def _kind(self, profile: Profile) -> object:
        """All that any selector could tell of a pod.

        Of a value that no selector names only that it is there: values are the pod's to choose, up to 256 KiB each.
        """
        return (
            profile.namespace if profile.namespace in self._namespaces else None,
            profile.priority_class if profile.priority_class in self._priority_classes else None,
            _seen(profile.labels, self._labels),
            _seen(profile.annotations, self._annotations) if self._annotations else (),
        )


def _whole(text: str) -> int | None:
    """The number that Go's ParseInt reads in `text`, 64 bits wide."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _named(terms: Sequence[Term]) -> dict[str, frozenset[str]]:
    """The keys that `terms` read, each with the values that some of them name."""
    found: dict[str, frozenset[str]] = {}
    for term in terms:
        found[term.key] = found.get(term.key, frozenset()) | frozenset(term.values)
    return found


def _seen(values: Mapping[str, str], named: Mapping[str, frozenset[str]]) -> tuple[str | bool, ...]:
    return tuple(
        [
            value if (value := values.get(key)) is not None and value in known else value is not None
            for key, known in named.items()
        ]
    )
