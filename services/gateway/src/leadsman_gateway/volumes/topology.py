"""Where a volume's data is: zones and regions, from what Kubernetes and the CSI provisioners write on objects.

Provisioners write the required node affinity of a PersistentVolume with topology keys of their own
(`topology.ebs.csi.aws.com/zone`, `topology.gke.io/zone`), all ending in `/zone` and `/region`. The labels are those of
in-tree volumes (`ZonesToSet` of k8s.io/cloud-provider: several zones in one label are joined by `__`) and of operators.
"""

from collections.abc import Iterable, Mapping

import msgspec

from leadsman.domain.requirements import NOWHERE, Near

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
_SEPARATOR = "__"


class Expression(msgspec.Struct, gc=False):
    """`matchExpressions[]` of node affinity, or `matchLabelExpressions[]` of a class, which has no operator."""

    key: str = ""
    operator: str | None = None
    values: list[str] | None = None


class AffinityTerm(msgspec.Struct, rename="camel"):
    """`nodeSelectorTerms[]`."""

    match_expressions: list[Expression] | None = None


class Required(msgspec.Struct, rename="camel"):
    """`nodeAffinity.required`."""

    node_selector_terms: list[AffinityTerm] | None = None


class VolumeAffinity(msgspec.Struct):
    """`spec.nodeAffinity` of a PersistentVolume."""

    required: Required | None = None


class TopologyTerm(msgspec.Struct, rename="camel"):
    """`allowedTopologies[]` of a StorageClass."""

    match_label_expressions: list[Expression] | None = None


def near_volume(labels: Mapping[str, str] | None, affinity: VolumeAffinity | None) -> Near:
    """Where a volume is: by its labels, or else by the nodes that it may be used on."""
    terms = affinity.required.node_selector_terms if affinity and affinity.required else None
    if not labels and not terms:
        return NOWHERE
    labels = labels or {}
    expressions = [expression for term in terms or () for expression in term.match_expressions or ()]
    return Near(
        _values(labels.get(ZONE, "").split(_SEPARATOR)) or _named(expressions, "/zone"),
        _values(labels.get(REGION, "").split(_SEPARATOR)) or _named(expressions, "/region"),
    )


def near_class(terms: Iterable[TopologyTerm] | None) -> Near:
    """Where volumes of a class may come to be."""
    expressions = [expression for term in terms or () for expression in term.match_label_expressions or ()]
    return Near(_named(expressions, "/zone"), _named(expressions, "/region")) if expressions else NOWHERE


def _named(expressions: Iterable[Expression], ending: str) -> tuple[str, ...]:
    """All values that expressions allow for keys with this ending; terms are alternatives, so all count."""
    return _values(
        value
        for expression in expressions
        if expression.operator in {"In", None} and expression.key.endswith(ending)
        for value in expression.values or ()
    )


def _values(values: Iterable[str]) -> tuple[str, ...]:
    """Sorted, without repeats, and without the empty value that stands for no zone."""
    return tuple(sorted({value for value in values if value}))
