"""Whatever is written in a policy, and whatever nodes report: a DocumentError, an UndecidedError, or a result."""

import contextlib

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.config import DocumentError
from leadsman.config.cel_test import CelError, CelTest
from leadsman.config.cel_variables import VARIABLES
from leadsman.config.policy_document import parse_policy
from leadsman.domain.fact_table import FACTS
from leadsman.domain.node_facts import NodeFacts, StorageFacts
from leadsman.domain.policy import SchedulingPolicy, UndecidedError
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State

HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicy\n"

KEYS = st.sampled_from(
    [
        *("mode", "storage", "rules", "score", "default", "drivers", "backends", "breaker", "share", "minNodes"),
        *("busFrozen", "maxAge", "unknown", "stale", "staleAfter", "holdUnhealthy", "name", "pods", "require"),
        *("prefer", "labels", "matchLabels", "matchExpressions", "matchAnnotations", "annotationExpressions"),
        *("namespaces", "priorityClasses", "cel", "weight", "onError", "enforce", "resolvable", "key", "operator"),
        *("values", "weights", "cpu", "app", "nfs.csi.k8s.io"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["In", "Exists", "Gt", "allow", "reject", "shadow", "30s", "0s", "1", "a", "node.cpu.idle"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)

TOKENS = st.sampled_from(
    [
        *VARIABLES,
        *("node", "[", "]", "(", ")", "{", "}", "'a'", '"', "'", "`", "1", "0.5", "-", "+", "/", "%", "!", "&&", "||"),
        *("==", "<", "in", "?", ":", ".", ",", "//", "\n", "\\", "1u", "b'x'", "true", "null", "has(", "size(", "int("),
        *(".all(k, ", ".exists(k, ", ".map(k, ", ".matches(", ".startsWith(", "k", "dyn(", "timestamp(", "string("),
    ]
)
EXPRESSIONS = st.lists(TOKENS, max_size=12).map(" ".join) | st.text(max_size=40)

FACT_VALUES = st.floats() | st.integers(-(2**70), 2**70) | st.text(st.characters(codec=None), max_size=5)
NODES = st.builds(
    NodeFacts,
    st.text(max_size=5),
    st.dictionaries(st.sampled_from(["a", "topology.kubernetes.io/zone"]), st.text(max_size=5), max_size=2),
    st.dictionaries(st.sampled_from([*FACTS, "of.another.version"]), FACT_VALUES, max_size=8),
    st.dictionaries(
        st.builds(StorageKey, st.sampled_from(["a", "b"]), st.text(max_size=3)),
        st.builds(
            StorageFacts,
            st.sampled_from(State),
            st.none() | st.floats(),
            st.none() | st.floats(),
            st.none() | st.floats(),
            st.none() | st.integers(0, 200),
            st.none() | st.integers(0, 200),
        ),
        max_size=3,
    ),
    st.booleans(),
)

WORKING = [
    *(f"node.{name} == node.{name}" for name in FACTS if not name.startswith("load.")),
    "node.facts.exists(key, node.facts[key] == 'x')",
    "node.gpu.count * node.gpu.count / (node.gpu.driverMajor - 1) % 2 == 0",
    "node.storage.attachFree['a'] > 3 || node.storage.used['b/x'] > 0.5",
    "node.labels['a'].matches(node.name)",
    "int(node.cpu.idle * 1e30) > 1",
    "node.cpu.idle / node.load.`1m`",
    "node.gpu.memoryFreeBytes + node.gpu.memoryTotalBytes",
    "node.storage.latencySeconds.all(k, node.storage.latencySeconds[k] < 0.1)",
]
TESTS = [CelTest(text, "prefer") for text in WORKING]


def is_policy_or_refused(text: str) -> None:
    refusal = None
    try:
        assert isinstance(parse_policy(text, "policy.yaml"), SchedulingPolicy)
    except DocumentError as error:
        refusal = error
    if refusal is not None:
        assert refusal.problems
        assert str(refusal).startswith("policy.yaml")
        assert str(refusal).encode()


@given(st.text())
@settings(deadline=None)
def test_any_text_is_a_policy_or_refused(text):
    """Also what is no YAML at all."""
    is_policy_or_refused(text)
    is_policy_or_refused(HEAD + text)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
@settings(max_examples=30, deadline=None)
def test_any_tree_of_known_keys_is_a_policy_or_refused(tree):
    """With the right words in the wrong places."""
    is_policy_or_refused(HEAD + yaml.safe_dump(tree) if tree else HEAD)


@given(st.dictionaries(KEYS, VALUES, max_size=6), st.dictionaries(KEYS, VALUES, max_size=4))
@settings(max_examples=30, deadline=None)
def test_any_rule_is_taken_or_refused(rule, test):
    """Close to a good one, so that the checks behind the types are reached."""
    document = {"rules": [{"name": "a", "require": test}, {"name": "b", "prefer": test, **rule}]}
    is_policy_or_refused(HEAD + yaml.safe_dump(document))


@given(EXPRESSIONS, NODES)
@settings(max_examples=100, deadline=None)
def test_any_expression_is_refused_or_says_0_to_1_or_is_undecided(text, node):
    """Nothing else comes out of the library, whatever it is given."""
    with contextlib.suppress(CelError, UndecidedError):
        assert 0 <= CelTest(text, "prefer").evaluate(node) <= 1


@given(NODES)
@settings(max_examples=60, deadline=None)
def test_any_node_gives_0_to_1_or_is_undecided(node):
    """Numbers of any size, texts where numbers belong, facts of another version, nothing at all."""
    for test in TESTS:
        with contextlib.suppress(UndecidedError):
            assert 0 <= test.evaluate(node) <= 1


@given(NODES, NODES)
@settings(max_examples=50, deadline=None)
def test_what_is_not_among_its_reads_changes_nothing(one, other):
    """A rule is evaluated again only when something of `reads` has changed."""
    for test in TESTS:
        kept = {name: value for name, value in one.facts.items() if name in test.reads or "facts" in test.reads}
        mixed = NodeFacts(
            one.node,
            one.labels if "labels" in test.reads else other.labels,
            {**{name: value for name, value in other.facts.items() if name not in test.reads}, **kept}
            if "facts" not in test.reads
            else one.facts,
            one.storages if "storage" in test.reads else other.storages,
            one.reported,
        )
        assert outcome(test, one) == outcome(test, mixed)


def outcome(test: CelTest, node: NodeFacts) -> float | str:
    try:
        return test.evaluate(node)
    except UndecidedError as error:
        return str(error)
