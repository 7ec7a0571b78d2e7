"""The policy document as it is written: `apiVersion: leadsman.dev/v1alpha1`, `kind: SchedulingPolicy`.

The JSON Schema is made of these structs, so what they say about a key is what editors show. Bounds and patterns are for
the schema alone: `policy_document` and `policy_rules` check the same in words that name the line.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from leadsman.config.cel_test import MAX_LENGTH
from leadsman.domain.policy import Component, Mode, OnError
from leadsman.domain.storage_policy import Treatment

MAX_RULES = 500
"""Rules of one policy; every node is judged by each of them."""

MAX_WEIGHT = 1000
"""Of a component or a rule; only the ratios of weights matter."""

RULE_NAME = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""A DNS label, because it stands in the events of pods."""

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_KEY = rf"({_SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
LABEL_VALUE = "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
NAMESPACE = RULE_NAME
PRIORITY_CLASS = _SUBDOMAIN
DRIVER = "[A-Za-z0-9]([-A-Za-z0-9./]{0,126}[A-Za-z0-9])?"
"""A CSI driver's name, or the one that stands for a kind of volume in the tree, such as kubernetes.io/nfs."""


def _about(words: str, **schema: object) -> msgspec.Meta:
    return msgspec.Meta(description=words, extra_json_schema=schema or None)


def _whole(pattern: str) -> str:
    return f"^(?:{pattern})$"


def _matching(pattern: str) -> dict[str, Any]:
    return {"pattern": _whole(pattern)}


_DURATION = _whole(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+")
_WEIGHT = {"minimum": 0, "maximum": MAX_WEIGHT}
_SOME = {"minProperties": 1, "propertyNames": _matching(LABEL_KEY)}

_Value = Annotated[str, msgspec.Meta(extra_json_schema=_matching(LABEL_VALUE))]
_Namespace = Annotated[str, msgspec.Meta(extra_json_schema=_matching(NAMESPACE))]
_PriorityClass = Annotated[str, msgspec.Meta(extra_json_schema=_matching(PRIORITY_CLASS))]
_Attribute = Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1})]
_PodOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
_NodeOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
_Key = Annotated[str, _about("The key of a label or annotation.", pattern=_whole(LABEL_KEY))]
_Values = Annotated[
    list[str], _about("What the value may be (In) or not be (NotIn); Exists and DoesNotExist take none.")
]


class DriverEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What to do about storage whose state is unknown or out of date; what a driver leaves out is as in `default`."""

    unknown: Annotated[
        Treatment | UnsetType,
        _about("A state that no probe could find out, or that no report lists: allow, penalize (low score) or reject."),
    ] = UNSET
    stale: Annotated[Treatment | UnsetType, _about("The same for a node that has gone silent.")] = UNSET
    stale_after: Annotated[
        str | UnsetType,
        _about("Age at which a report is out of date; three heartbeats of collectors or more.", pattern=_DURATION),
    ] = UNSET
    hold_unhealthy: Annotated[
        str | UnsetType,
        _about("How long beyond staleAfter what rejects goes on rejecting: silence is no recovery.", pattern=_DURATION),
    ] = UNSET


class BreakerEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """When a mass of bad verdicts on control-plane evidence is taken for a failure of monitoring, driver by driver."""

    share: Annotated[
        float,
        _about(
            "Of the nodes that have the driver, more than this must be bad; 1: never.", exclusiveMinimum=0, maximum=1
        ),
    ] = 0.8
    min_nodes: Annotated[int, _about("And so many nodes at least must have the driver.", minimum=1)] = 5


class BusFrozenEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What to do while NATS is out of reach."""

    max_age: Annotated[
        str, _about("How long the last known states stand; then all are unknown.", pattern=_DURATION)
    ] = "15m"


class StorageEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How states of storage become verdicts."""

    default: Annotated[DriverEntry, _about("For every driver that is not in `drivers`.")] = DriverEntry()
    drivers: Annotated[
        dict[str, DriverEntry],
        _about("Drivers that differ from `default`, by name.", propertyNames=_matching(DRIVER)),
    ] = {}
    backends: Annotated[
        dict[str, _Attribute],
        _about(
            "The volume attribute that names the backend, by driver, for drivers that Leadsman does not know.",
            propertyNames=_matching(DRIVER),
        ),
    ] = {}
    breaker: BreakerEntry = BreakerEntry()
    bus_frozen: BusFrozenEntry = BusFrozenEntry()


class PodTerm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One requirement of a Kubernetes label selector."""

    key: _Key
    operator: _PodOperator
    values: _Values = []


class NodeTerm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One requirement on node labels, as in node affinity; Gt and Lt take one whole number in quotes."""

    key: _Key
    operator: _NodeOperator
    values: _Values = []


class PodsEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which pods a rule touches: all of these must match; without any, every pod."""

    match_labels: Annotated[dict[str, _Value] | UnsetType, _about("Labels that the pod has, by key.", **_SOME)] = UNSET
    match_expressions: Annotated[list[PodTerm] | UnsetType, _about("Requirements on the pod's labels.", minItems=1)] = (
        UNSET
    )
    match_annotations: Annotated[
        dict[str, str] | UnsetType, _about("Annotations that the pod has, by key.", **_SOME)
    ] = UNSET
    annotation_expressions: Annotated[
        list[PodTerm] | UnsetType, _about("Requirements on the pod's annotations.", minItems=1)
    ] = UNSET
    namespaces: Annotated[
        list[_Namespace] | UnsetType,
        _about("The pod's namespace is one of these.", minItems=1),
    ] = UNSET
    priority_classes: Annotated[
        list[_PriorityClass] | UnsetType,
        _about("Its priority class is one of these.", minItems=1),
    ] = UNSET


_Labels = Annotated[dict[str, _Value] | UnsetType, _about("Labels that the node has, by key.", **_SOME)]
_Expressions = Annotated[list[NodeTerm] | UnsetType, _about("Requirements on the node's labels.", minItems=1)]


class RequireEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a node must be like; exactly one of these."""

    labels: _Labels = UNSET
    match_expressions: _Expressions = UNSET
    cel: Annotated[
        str | UnsetType,
        _about("A CEL expression over the node that gives true or false.", minLength=1, maxLength=MAX_LENGTH),
    ] = UNSET


class PreferEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a node had better be like (one of `labels`, `matchExpressions`, `cel`), and how much that weighs."""

    labels: _Labels = UNSET
    match_expressions: _Expressions = UNSET
    cel: Annotated[
        str | UnsetType,
        _about(
            "A CEL expression over the node that gives true or false, or a number from 0 to 1.",
            minLength=1,
            maxLength=MAX_LENGTH,
        ),
    ] = UNSET
    weight: Annotated[float, _about("Beside the weights of `score` and of other rules.", **_WEIGHT)] = 1.0


class RuleEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One rule: `require` rejects nodes, `prefer` is a part of their score; exactly one of both."""

    name: Annotated[str, _about("Stands in events, metrics and records.", pattern=_whole(RULE_NAME))]
    pods: PodsEntry = PodsEntry()
    require: RequireEntry | UnsetType = UNSET
    prefer: PreferEntry | UnsetType = UNSET
    on_error: Annotated[
        OnError, _about("What happens on a node about which the rule cannot be decided: allow or reject.")
    ] = OnError.ALLOW
    enforce: Annotated[bool, _about("With false the rule is computed and recorded only.")] = True
    resolvable: Annotated[
        bool | UnsetType, _about("Whether evicting pods from a node that `require` rejects could help.")
    ] = UNSET


class ScoreEntry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How scores are made up."""

    weights: Annotated[
        dict[Component, Annotated[float, msgspec.Meta(extra_json_schema=_WEIGHT)]],
        _about("What components of the score weigh; those that are left out keep their weight."),
    ] = {}


class PolicyDocument(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How Leadsman turns what it knows of nodes into verdicts and scores."""

    api_version: Literal["leadsman.dev/v1alpha1"]
    kind: Literal["SchedulingPolicy"]
    mode: Annotated[Mode, _about("enforce, or shadow: compute and record everything, reject and score nothing.")] = (
        Mode.ENFORCE
    )
    storage: StorageEntry = StorageEntry()
    rules: Annotated[list[RuleEntry], _about("In order of precedence.", maxItems=MAX_RULES)] = []
    score: ScoreEntry = ScoreEntry()
