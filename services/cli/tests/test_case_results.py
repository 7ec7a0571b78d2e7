"""Trying a policy on cases: what passes, and what is said about what does not."""

import pytest

from leadsman.domain.pod_selectors import PodSelector
from leadsman.domain.policy import Component, Mode, OnError, Rule, SchedulingPolicy
from leadsman.testing.rules import FactAbove, LabelIs
from leadsman_cli.case_results import CaseResult, Difference, run_cases
from leadsman_cli.policy_cases import parse_cases

POLICY = SchedulingPolicy(
    rules=(
        Rule("gpu-nodes", require=LabelIs("node-type", "gpu")),
        Rule("idle", require=FactAbove("cpu.idle", 0.5), enforce=False),
        Rule("likes-idle", prefer=FactAbove("cpu.idle", 0.5)),
    ),
    weights={Component.CPU: 1.0},
)

NODES = """apiVersion: leadsman.dev/v1alpha1
kind: SchedulingPolicyTest
nodes:
  gpu-idle: {labels: {node-type: gpu}, facts: {cpu.idle: 0.9}}
  gpu-busy: {labels: {node-type: gpu}, facts: {cpu.idle: 0.1}}
  cpu-idle: {labels: {node-type: cpu}, facts: {cpu.idle: 0.9}}
cases:
  - name: the case
"""


def _result(expect: str, policy: SchedulingPolicy = POLICY, pod: str = "{}") -> CaseResult:
    text = f"{NODES}    pod: {pod}\n    expect: {expect}\n"
    [result] = run_cases(policy, parse_cases(text, "cases.yaml"))
    assert (result.file, result.line, result.name) == ("cases.yaml", 8, "the case")
    assert result.passed is not bool(result.differences)
    return result


@pytest.mark.parametrize(
    "expect",
    [
        "{rejected: {cpu-idle: RuleNotMet}}",
        "{rejected: {cpu-idle: {reason: RuleNotMet, rule: gpu-nodes}}}",
        "{allowed: [gpu-idle, gpu-busy]}",
        "{rejected: {cpu-idle: RuleNotMet}, allowed: [gpu-idle, gpu-busy]}",
        "{rejected: {cpu-idle: RuleNotMet}, shadow: {gpu-busy: {reason: RuleNotMet, rule: idle}}}",
        "{rejected: {cpu-idle: RuleNotMet}, scores: {gpu-idle: 10, gpu-busy: 1, cpu-idle: 10}}",
        "{rejected: {cpu-idle: RuleNotMet}, best: gpu-idle}",
    ],
)
def test_a_case_passes_when_everything_it_states_is_so(expect: str) -> None:
    """Of rejections as much counts as is stated; what is not stated of shadow and scores is not looked at."""
    assert _result(expect).differences == []


@pytest.mark.parametrize(
    ("expect", "differences"),
    [
        ("{}", [Difference("cpu-idle", "allowed", "rejected: RuleNotMet (rule gpu-nodes)")]),
        (
            "{rejected: {cpu-idle: RuleNotMet, gpu-idle: {reason: MountHung, driver: d}}}",
            [Difference("gpu-idle", "rejected: MountHung (d)", "allowed")],
        ),
        (
            "{rejected: {cpu-idle: {reason: RuleNotMet, rule: other}}}",
            [Difference("cpu-idle", "rejected: RuleNotMet (rule other)", "rejected: RuleNotMet (rule gpu-nodes)")],
        ),
        (
            "{rejected: {cpu-idle: Stale}}",
            [Difference("cpu-idle", "rejected: Stale", "rejected: RuleNotMet (rule gpu-nodes)")],
        ),
        (
            "{allowed: [gpu-idle, cpu-idle]}",
            [
                Difference("cpu-idle", "allowed", "rejected: RuleNotMet (rule gpu-nodes)"),
                Difference("gpu-busy", "rejected", "allowed"),
            ],
        ),
        (
            "{allowed: [gpu-idle, gpu-busy], shadow: {}}",
            [Difference("gpu-busy", "no shadow rejection", "shadow: RuleNotMet (rule idle)")],
        ),
        (
            "{allowed: [gpu-idle, gpu-busy], shadow: {gpu-busy: RuleNotMet, gpu-idle: RuleNotMet}}",
            [Difference("gpu-idle", "shadow: RuleNotMet", "no shadow rejection")],
        ),
        (
            "{allowed: [gpu-idle, gpu-busy], scores: {gpu-busy: 7}}",
            [Difference("gpu-busy", "score 7", "score 1 (cap 10; cpu 0.17 x 1, rule:likes-idle 0.00 x 1)")],
        ),
        (
            "{allowed: [gpu-idle, gpu-busy], best: [gpu-busy, gpu-idle]}",
            [Difference("", "best: gpu-busy, gpu-idle", "best: gpu-idle (score 10)")],
        ),
    ],
)
def test_a_difference_is_told_node_by_node(expect: str, differences: list[Difference]) -> None:
    """With what was expected and what came, in full."""
    assert _result(expect).differences == differences


def test_an_undecided_rule_is_told_with_its_cause() -> None:
    """The missing fact is what its author needs to know."""
    policy = SchedulingPolicy(
        rules=(Rule("free", require=FactAbove("gpu.memoryFreeBytes", 1), on_error=OnError.REJECT),)
    )
    [first, *_] = _result("{}", policy).differences
    assert first == Difference(
        "cpu-idle", "allowed", "rejected: RuleUndecided (rule free): no fact gpu.memoryFreeBytes"
    )


def test_in_shadow_mode_nothing_is_rejected() -> None:
    """Cases state under shadow what would be."""
    policy = SchedulingPolicy(mode=Mode.SHADOW, rules=POLICY.rules)
    assert _result("{rejected: {}, shadow: {cpu-idle: RuleNotMet, gpu-busy: RuleNotMet}}", policy).passed
    assert not _result("{rejected: {cpu-idle: RuleNotMet}}", policy).passed


def test_scores_of_a_pod_that_nobody_scores_are_a_difference() -> None:
    """The gateway does not ask the scorer about it, so a score that a case states never reaches kube-scheduler."""
    ours = PodSelector(namespaces=frozenset({"ours"}))
    policy = SchedulingPolicy(rules=(Rule("likes", ours, prefer=LabelIs("node-type", "gpu")),))
    words = "none: the pod needs no storage, is near nothing, and no rule that prefers touches it"
    assert _result("{best: [cpu-idle, gpu-busy, gpu-idle]}", policy).differences[-1] == Difference("", "scores", words)
    assert _result("{best: gpu-idle}", policy, "{namespace: ours}").passed
    assert _result("{best: gpu-idle}", policy, "{storage: [d.example]}").differences[0].expected == "best: gpu-idle"


def test_a_best_node_must_pass() -> None:
    """Where none passes there is no best."""
    policy = SchedulingPolicy(rules=(Rule("none", require=LabelIs("no", "no")), POLICY.rules[2]))
    expect = "{rejected: {gpu-idle: RuleNotMet, gpu-busy: RuleNotMet, cpu-idle: RuleNotMet}, best: gpu-idle}"
    assert _result(expect, policy).differences == [Difference("", "best: gpu-idle", "no node passes")]
