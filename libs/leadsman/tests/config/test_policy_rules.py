"""Rules in the policy document, and what is said about those that cannot work."""

import textwrap

import pytest

from leadsman.config import DocumentError
from leadsman.config.cel_test import CelError, CelTest
from leadsman.config.policy_document import parse_policy
from leadsman.config.policy_rules import build_rules
from leadsman.config.policy_structs import RequireEntry, RuleEntry

HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicy\nrules:\n"


def problems(text: str) -> list[str]:
    """What is said of the rules in `text`, whose first line is line 4, without the file's name."""
    with pytest.raises(DocumentError) as caught:
        parse_policy(HEAD + textwrap.dedent(text), "policy.yaml")
    return [line.removeprefix("policy.yaml:") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "- {name: GPU_pods, require: {labels: {a: b}}}",
            (
                "4: rules[0].name: 'GPU_pods' is not a name: lower-case letters, digits and '-', at most 63 of them; "
                "it stands in events of pods"
            ),
        ),
        ("- {require: {labels: {a: b}}}", "4: rules[0]: missing key name"),
        ("- {name: a}", "4: rules[0]: a rule has either require or prefer; this one has neither"),
        (
            "- {name: a, require: {labels: {a: b}}, prefer: {labels: {a: b}}}",
            "4: rules[0]: a rule has either require or prefer; this one has both",
        ),
        (
            "- name: a\n  require: {}",
            (
                "5: rules[0].require: require needs exactly one of labels, matchExpressions and cel; "
                "this one has none of them"
            ),
        ),
        (
            "- name: a\n  prefer: {labels: {a: b}, cel: 'true', weight: 2}",
            (
                "5: rules[0].prefer: prefer needs exactly one of labels, matchExpressions and cel; "
                "this one has labels and cel"
            ),
        ),
        ("- name: a\n  require:", "5: rules[0].require: expected a mapping of keys to values, got nothing"),
        (
            "- {name: a, require: {labels: {}}}",
            "4: rules[0].require.labels: is empty, so every node would do; name a label, or leave the rule out",
        ),
        (
            "- {name: a, prefer: {matchExpressions: []}}",
            (
                "4: rules[0].prefer.matchExpressions: is empty, so every node would do; name a label, "
                "or leave the rule out"
            ),
        ),
        (
            "- {name: a, require: {labels: {a: b}, weight: 3}}",
            "4: rules[0].require.weight: unknown key; known: cel, labels, matchExpressions",
        ),
        (
            "- {name: a, prefer: {labels: {a: b}, weight: -1}}",
            "4: rules[0].prefer.weight: -1.0 is not a weight; write a number from 0 to 1000, 0 for what must not count",
        ),
        (
            "- {name: a, prefer: {labels: {a: b}, weight: .inf}}",
            "4: rules[0].prefer.weight: inf is not a weight; write a number from 0 to 1000, 0 for what must not count",
        ),
        (
            "- {name: a, prefer: {labels: {a: b}}, resolvable: true}",
            "4: rules[0].resolvable: means something only beside require; a rule that prefers rejects nobody",
        ),
        (
            "- {name: a, require: {labels: {a: b}}, onError: deny}",
            "4: rules[0].onError: 'deny' is not possible here; known: allow, reject",
        ),
        (
            "- {name: a, require: {labels: {gpu: true}}}",
            "4: rules[0].require.labels.gpu: expected text, got true or false (True); put it in quotes",
        ),
        (
            "- {name: a, require: {labels: {-gpu: b}}}",
            (
                "4: rules[0].require.labels.-gpu: '-gpu' is not a key of Kubernetes labels, "
                "such as app or topology.kubernetes.io/zone"
            ),
        ),
        (
            "- {name: a, require: {labels: {gpu: b c}}}",
            (
                "4: rules[0].require.labels.gpu: 'b c' cannot be the value of a label: "
                "letters, digits, '-', '_' and '.', at most 63 of them"
            ),
        ),
        (
            "- {name: a, pods: {matchLabels: {}}, require: {labels: {a: b}}}",
            "4: rules[0].pods.matchLabels: is empty; write what to select by, or leave it out to select every pod",
        ),
        (
            "- {name: a, pods: {matchLabels: }, require: {labels: {a: b}}}",
            "4: rules[0].pods.matchLabels: expected a mapping of keys to values, got nothing",
        ),
        (
            "- {name: a, pods: {namespaces: []}, require: {labels: {a: b}}}",
            "4: rules[0].pods.namespaces: is empty; write what to select by, or leave it out to select every pod",
        ),
        (
            "- {name: a, pods: {namespaces: [prod, 'a/b']}, require: {labels: {a: b}}}",
            "4: rules[0].pods.namespaces[1]: 'a/b' cannot be the name of a namespace",
        ),
        (
            "- {name: a, pods: {priorityClasses: [VIP]}, require: {labels: {a: b}}}",
            "4: rules[0].pods.priorityClasses[0]: 'VIP' cannot be the name of a priority class",
        ),
        (
            "- {name: a, pods: {labels: {a: b}}, require: {labels: {a: b}}}",
            (
                "4: rules[0].pods.labels: unknown key; did you mean 'matchLabels'? (known: annotationExpressions, "
                "matchAnnotations, matchExpressions, matchLabels, namespaces, priorityClasses)"
            ),
        ),
        (
            "- {name: a, require: {cel: 'node.gpu.drvMajor >= 550'}}",
            (
                "4: rules[0].require.cel: column 9: unknown name 'node.gpu.drvMajor'; did you mean "
                "'node.gpu.driverMajor'? ('leadsman policy facts' lists all)"
            ),
        ),
        (
            "- name: a\n  require:\n    cel: |\n      node.cpu.count >= 4 &&\n        node.xyzzy > 1",
            (
                "6: rules[0].require.cel: line 2, column 7: unknown name 'node.xyzzy'; all names begin with node. "
                "('leadsman policy facts' lists all)"
            ),
        ),
    ],
)
def test_what_cannot_work_in_a_rule_is_named(text, expected):
    """File, line and key of the mistake, and what to write."""
    assert problems(text) == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("{key: a, operator: In}", ".values: In needs values, such as ['a', 'b']"),
        ("{key: a, operator: NotIn, values: []}", ".values: NotIn needs values, such as ['a', 'b']"),
        (
            "{key: a, operator: Exists, values: [b]}",
            ".values: Exists takes no values; leave them out, or write In or NotIn",
        ),
        ("{key: a, operator: Gt, values: ['1.5']}", ".values: Gt takes one whole number in quotes, such as ['8']"),
        ("{key: a, operator: Lt, values: ['1', '2']}", ".values: Lt takes one whole number in quotes, such as ['8']"),
        ("{key: a, operator: Lt}", ".values: Lt takes one whole number in quotes, such as ['8']"),
        (
            "{key: a, operator: Gt, values: [8]}",
            ".values[0]: expected text, got a whole number (8); put it in quotes",
        ),
        (
            "{key: a, operator: Equals, values: [b]}",
            ".operator: 'Equals' is not possible here; known: DoesNotExist, Exists, Gt, In, Lt, NotIn",
        ),
        (
            "{key: a/b/c, operator: Exists}",
            ".key: 'a/b/c' is not a key of Kubernetes labels, such as app or topology.kubernetes.io/zone",
        ),
    ],
)
def test_a_requirement_on_labels_is_checked_as_kubernetes_would(expression, expected):
    """Operators and values in the combinations that node affinity takes."""
    (found,) = problems(f"- name: a\n  require:\n    matchExpressions:\n    - {expression}")
    assert found == f"7: rules[0].require.matchExpressions[0]{expected}"


def test_gt_and_lt_are_not_for_pods():
    """They are of node affinity; label selectors do not have them."""
    (found,) = problems(
        "- {name: a, pods: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}, require: {cel: 'true'}}"
    )
    assert "'Gt' is not possible here" in found


def test_annotations_may_have_any_value():
    """Unlike labels, by the rules of Kubernetes."""
    (rule,) = parse_policy(
        HEAD + "- {name: a, pods: {matchAnnotations: {a: 'two words'}}, require: {labels: {a: b}}}", "policy.yaml"
    ).rules
    assert rule.pods.annotations[0].values == ("two words",)


def test_names_that_occur_twice_are_refused():
    """Events, metrics and records go by the name."""
    assert problems("- {name: a, require: {labels: {a: b}}}\n- {name: a, prefer: {labels: {a: b}}}") == [
        "5: rules[1].name: rules[0] has the name 'a' already"
    ]


@pytest.mark.parametrize(
    "cel",
    [
        "node.labels['a'].matches('[')",
        'true || node.name.matches(r"[")',
        "'a' in node.labels && node.name.matches('a\\'[')",
    ],
)
def test_a_pattern_that_is_none_is_refused_wherever_it_stands(cel):
    """It would leave the rule undecided on the nodes that come so far, and nobody would see why."""
    with pytest.raises(CelError, match="the pattern of matches"):
        CelTest(cel, "require")


@pytest.mark.parametrize(
    "cel", ["node.name.matches('^\\\\d+$')", "true // .matches('\\q')", "node.name.matches(node.zone)"]
)
def test_a_good_pattern_is_taken(cel):
    """Also beside what only looks like one."""
    CelTest(cel, "require")


def test_every_mistake_of_an_expression_is_told():
    """Not only the first one."""
    found = problems("- {name: a, require: {cel: 'node.foo == 1 && node.cpu.idle > 0'}}")
    assert [line.split(": ")[2] for line in found] == ["column 5", "column 32"]


def test_there_is_a_limit_to_rules():
    """A list that long is made by a program gone wrong; it would cost every report of every node."""
    entries = [RuleEntry(f"r{number}", require=RequireEntry(labels={"a": "b"})) for number in range(501)]
    found = []
    assert build_rules(entries, lambda path, words: found.append((path, words))) == ()
    assert found == [(("rules",), "501 rules, over the limit of 500")]
    assert len(build_rules(entries[:500], found.append)) == 500


def test_expressions_of_one_policy_share_what_they_read():
    """A node is put together once, and holds no more than the rules ask for."""
    policy = parse_policy(
        HEAD + "- {name: a, require: {cel: 'node.cpu.count > 1'}}\n- {name: b, prefer: {cel: node.cpu.idle}}",
        "policy.yaml",
    )
    first, second = [rule.test for rule in policy.rules]
    assert first._values is second._values
