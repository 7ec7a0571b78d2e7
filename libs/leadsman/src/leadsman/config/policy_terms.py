"""Selectors of the policy document turned into the domain's, by the rules of Kubernetes for labels."""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET, UnsetType

from leadsman.config.policy_structs import (
    LABEL_KEY,
    LABEL_VALUE,
    NAMESPACE,
    PRIORITY_CLASS,
    NodeTerm,
    PodsEntry,
    PodTerm,
)
from leadsman.config.tree import Path
from leadsman.domain.pod_selectors import Operator, PodSelector, Term

Complain = Callable[[Path, str], None]
"""Notes a problem at a path of the document."""

_KEY = re.compile(LABEL_KEY)
_VALUE = re.compile(LABEL_VALUE)
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_SHOWN = 80
_MAX_PREFIX = 253


def pod_selector(entry: PodsEntry, path: Path, complain: Complain) -> PodSelector:
    """The pods that `entry`, which stands at `path`, selects."""
    for key, value in (
        ("matchLabels", entry.match_labels),
        ("matchExpressions", entry.match_expressions),
        ("matchAnnotations", entry.match_annotations),
        ("annotationExpressions", entry.annotation_expressions),
        ("namespaces", entry.namespaces),
        ("priorityClasses", entry.priority_classes),
    ):
        if value is not UNSET and not value:
            complain((*path, key), "is empty; write what to select by, or leave it out to select every pod")
    labels = equalities(entry.match_labels, (*path, "matchLabels"), complain)
    labels += expressions(entry.match_expressions, (*path, "matchExpressions"), complain)
    annotations = equalities(entry.match_annotations, (*path, "matchAnnotations"), complain, values=None)
    annotations += expressions(entry.annotation_expressions, (*path, "annotationExpressions"), complain, values=None)
    return PodSelector(
        tuple(labels),
        tuple(annotations),
        _names(entry.namespaces, NAMESPACE, "namespace", (*path, "namespaces"), complain),
        _names(entry.priority_classes, PRIORITY_CLASS, "priority class", (*path, "priorityClasses"), complain),
    )


def equalities(
    pairs: Mapping[str, str] | UnsetType, path: Path, complain: Complain, values: re.Pattern[str] | None = _VALUE
) -> list[Term]:
    """A term for each key and value; values must match `values`, if given."""
    terms = []
    for key, value in (pairs or {}).items():
        _check_key(key, (*path, key), complain)
        _check_value(value, values, (*path, key), complain)
        terms.append(Term(key, Operator.IN, (value,)))
    return terms


def expressions(
    entries: Sequence[PodTerm | NodeTerm] | UnsetType,
    path: Path,
    complain: Complain,
    values: re.Pattern[str] | None = _VALUE,
) -> list[Term]:
    """A term for each entry; values of In and NotIn must match `values`, if given."""
    terms = []
    for number, entry in enumerate(entries or ()):
        where = (*path, number)
        operator = Operator(entry.operator)
        _check_key(entry.key, (*where, "key"), complain)
        _check_values(operator, entry.values, values, where, complain)
        terms.append(Term(entry.key, operator, tuple(entry.values)))
    return terms


def _names(names: Sequence[str] | UnsetType, pattern: str, what: str, path: Path, complain: Complain) -> frozenset[str]:
    for number, name in enumerate(names or ()):
        if not re.fullmatch(pattern, name):
            complain((*path, number), f"{name[:_SHOWN]!r} cannot be the name of a {what}")
    return frozenset(names or ())


def _check_values(
    operator: Operator, given: Sequence[str], values: re.Pattern[str] | None, path: Path, complain: Complain
) -> None:
    where = (*path, "values")
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST}:
        if given:
            complain(where, f"{operator.value} takes no values; leave them out, or write In or NotIn")
    elif operator in {Operator.GT, Operator.LT}:
        if len(given) != 1 or not _NUMBER.fullmatch(given[0]):
            complain(where, f"{operator.value} takes one whole number in quotes, such as ['8']")
    elif given:
        for number, value in enumerate(given):
            _check_value(value, values, (*where, number), complain)
    else:
        complain(where, f"{operator.value} needs values, such as ['a', 'b']")


def _check_key(key: str, path: Path, complain: Complain) -> None:
    if not _KEY.fullmatch(key) or len(key.rpartition("/")[0]) > _MAX_PREFIX:
        complain(
            path, f"{key[:_SHOWN]!r} is not a key of Kubernetes labels, such as app or topology.kubernetes.io/zone"
        )


def _check_value(value: str, wanted: re.Pattern[str] | None, path: Path, complain: Complain) -> None:
    if wanted and not wanted.fullmatch(value):
        complain(
            path,
            f"{value[:_SHOWN]!r} cannot be the value of a label: letters, digits, '-', '_' and '.', at most 63 of them",
        )
