"""JSON Schema of the policy document.

It knows every key, type, pattern and bound, and which keys go together. What only the loader finds: names that occur
twice, and whether an expression compiles and gives what it must.
"""

from typing import Any

from leadsman.config.policy_structs import NodeTerm, PodTerm, PolicyDocument, PreferEntry, RequireEntry, RuleEntry
from leadsman.config.schema import document_schema

_NEED_VALUES = {"required": ["values"], "properties": {"values": {"minItems": 1}}}
_NO_VALUES = {"properties": {"values": {"maxItems": 0}}}
_ONE_NUMBER = {
    "required": ["values"],
    "properties": {"values": {"minItems": 1, "maxItems": 1, "items": {"pattern": "^-?[0-9]{1,18}$"}}},
}


def policy_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of `kind: SchedulingPolicy`."""
    schema = {**document_schema(PolicyDocument), "title": "SchedulingPolicy"}
    defs = schema["$defs"]
    for entry in (RequireEntry, PreferEntry):
        defs[entry.__name__]["oneOf"] = [{"required": [form]} for form in ("labels", "matchExpressions", "cel")]
    defs[RuleEntry.__name__]["oneOf"] = [{"required": [use]} for use in ("require", "prefer")]
    defs[RuleEntry.__name__]["dependentRequired"] = {"resolvable": ["require"]}
    plain = [_when(("In", "NotIn"), _NEED_VALUES), _when(("Exists", "DoesNotExist"), _NO_VALUES)]
    defs[PodTerm.__name__]["allOf"] = plain
    defs[NodeTerm.__name__]["allOf"] = [*plain, _when(("Gt", "Lt"), _ONE_NUMBER)]
    return schema


def _when(operators: tuple[str, ...], then: dict[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {"operator": {"enum": list(operators)}}}, "then": then}
