"""The JSON Schema of the policy: it takes what the loader takes, and refuses what it can of the rest."""

import re

import pytest
import yaml
from jsonschema import Draft202012Validator

from leadsman.config import DocumentError
from leadsman.config.policy_document import parse_policy
from leadsman.config.policy_schema import policy_schema

HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicy\n"
VALIDATOR = Draft202012Validator(policy_schema())


def mistakes(text: str) -> list[str]:
    return [error.json_path for error in VALIDATOR.iter_errors(yaml.safe_load(HEAD + text))]


def test_the_schema_is_one():
    """Of the dialect that it names."""
    Draft202012Validator.check_schema(policy_schema())


GOOD = [
    "",
    "mode: shadow\nstorage: {default: {unknown: penalize, staleAfter: 1m30s}, busFrozen: {maxAge: 0.5h}}",
    "storage: {drivers: {kubernetes.io/nfs: {}}, backends: {nfs.csi.k8s.io: server}, breaker: {share: 1}}",
    "score: {weights: {cpu: 0, nearness: 2.5}}",
    "rules: [{name: a, require: {labels: {example.com/a: b}}, onError: reject, enforce: false, resolvable: true}]",
    "rules: [{name: a, prefer: {cel: node.cpu.idle, weight: 3}, pods: {namespaces: [a], priorityClasses: [vip.x]}}]",
    "rules: [{name: a, require: {matchExpressions: [{key: a, operator: Gt, values: ['-8']}]}}]",
    (
        "rules: [{name: a, pods: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: Exists}], "
        "matchAnnotations: {a: b c}, annotationExpressions: [{key: a, operator: In, values: [b c]}]}, "
        "require: {cel: 'true'}}]"
    ),
]


@pytest.mark.parametrize("text", GOOD)
def test_what_the_loader_takes_fits(text):
    """An editor must not complain of a good policy."""
    parse_policy(HEAD + text, "policy.yaml")
    assert mistakes(text) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("mod: shadow", "$"),
        ("mode: off", "$.mode"),
        ("storage: {default: {staleAfter: 30}}", "$.storage.default.staleAfter"),
        ("storage: {default: {staleAfter: 30 s}}", "$.storage.default.staleAfter"),
        ("storage: {default: {unknown: deny}}", "$.storage.default.unknown"),
        ("storage: {drivers: {'a b': {}}}", "$.storage.drivers"),
        ("storage: {backends: {a: ''}}", "$.storage.backends.a"),
        ("storage: {breaker: {share: 0}}", "$.storage.breaker.share"),
        ("storage: {breaker: {share: 1.1}}", "$.storage.breaker.share"),
        ("storage: {breaker: {minNodes: 0}}", "$.storage.breaker.minNodes"),
        ("score: {weights: {latency: 1}}", "$.score.weights"),
        ("score: {weights: {cpu: -1}}", "$.score.weights.cpu"),
        ("rules: [{require: {labels: {a: b}}}]", "$.rules[0]"),
        ("rules: [{name: A, require: {labels: {a: b}}}]", "$.rules[0].name"),
        ("rules: [{name: a}]", "$.rules[0]"),
        ("rules: [{name: a, require: {cel: 'true'}, prefer: {cel: 'true'}}]", "$.rules[0]"),
        ("rules: [{name: a, resolvable: true, prefer: {cel: 'true'}}]", "$.rules[0]"),
        ("rules: [{name: a, require: {}}]", "$.rules[0].require"),
        ("rules: [{name: a, require: {cel: 'true', labels: {a: b}}}]", "$.rules[0].require"),
        ("rules: [{name: a, require: {cel: ''}}]", "$.rules[0].require.cel"),
        ("rules: [{name: a, require: {labels: {}}}]", "$.rules[0].require.labels"),
        ("rules: [{name: a, require: {labels: {a: b c}}}]", "$.rules[0].require.labels.a"),
        ("rules: [{name: a, require: {labels: }}]", "$.rules[0].require.labels"),
        ("rules: [{name: a, prefer: {cel: 'true', weight: 1001}}]", "$.rules[0].prefer.weight"),
        ("rules: [{name: a, pods: {namespaces: []}, require: {cel: 'true'}}]", "$.rules[0].pods.namespaces"),
        ("rules: [{name: a, pods: {namespaces: [A]}, require: {cel: 'true'}}]", "$.rules[0].pods.namespaces[0]"),
        (
            "rules: [{name: a, require: {matchExpressions: [{key: a, operator: In}]}}]",
            "$.rules[0].require.matchExpressions[0]",
        ),
        (
            "rules: [{name: a, require: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]",
            "$.rules[0].require.matchExpressions[0].values",
        ),
        (
            "rules: [{name: a, require: {matchExpressions: [{key: a, operator: Lt, values: ['1', '2']}]}}]",
            "$.rules[0].require.matchExpressions[0].values",
        ),
        (
            "rules: [{name: a, require: {matchExpressions: [{key: a, operator: Lt, values: ['1.5']}]}}]",
            "$.rules[0].require.matchExpressions[0].values[0]",
        ),
        (
            "rules: [{name: a, require: {cel: 'true'}, pods: {matchExpressions: [{key: a, operator: Gt}]}}]",
            "$.rules[0].pods.matchExpressions[0].operator",
        ),
    ],
)
def test_what_the_loader_refuses_does_not_fit(text, place):
    """An editor shows the mistake before the file is anywhere near a cluster."""
    with pytest.raises(DocumentError):
        parse_policy(HEAD + text, "policy.yaml")
    assert place in mistakes(text)


def test_every_key_is_described():
    """What an editor shows of a key under the pointer."""
    defs = policy_schema()["$defs"]
    bare = [
        f"{name}.{key}"
        for name, definition in defs.items()
        for key, value in definition.get("properties", {}).items()
        if not _described(value, defs)
    ]
    assert bare == ["PolicyDocument.apiVersion", "PolicyDocument.kind", "PodTerm.operator", "NodeTerm.operator"]


def _described(value: dict, defs: dict) -> bool:
    target = defs.get(value.get("$ref", "").rpartition("/")[2], {})
    return bool(value.get("description") or target.get("description"))


def test_patterns_are_anchored():
    """JSON Schema searches; the loader matches all of a text."""
    patterns = re.findall(r"'pattern': '(.*?)'", str(policy_schema()))
    assert patterns
    assert all(pattern.startswith("^") and pattern.endswith("$") for pattern in patterns)
