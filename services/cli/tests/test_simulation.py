"""Simulating: every node's verdict and score, what another policy would change, and how it is shown."""

import json

import pytest
import yaml

from leadsman.domain.node_facts import ZONE
from leadsman.domain.policy import Component, Mode, OnError, Rule, SchedulingPolicy
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Near, Profile, Requirement
from leadsman.domain.states import State
from leadsman.domain.what_if import Heard
from leadsman.testing.reports import status
from leadsman.testing.rules import FactAbove, LabelIs, facts_report
from leadsman.wire.notices import PolicyInForce
from leadsman_cli.cluster import choose_policy
from leadsman_cli.policy_tables import as_text, heading, simulation_table, summary
from leadsman_cli.simulation import Candidate, Question, Simulation, simulate
from leadsman_cli.tables import print_table

QUESTION = Question("default/web", Profile())
NEEDS = (Requirement("nfs.example", "s1", "data"),)
BUILT_IN = Candidate(SchedulingPolicy(weights={Component.CPU: 1.0}), "built-in", NEEDS)
STRICT = Candidate(
    SchedulingPolicy(
        rules=(
            Rule("gpu-nodes", require=LabelIs("node-type", "gpu")),
            Rule("enough-memory", require=FactAbove("memory.availableShare", 0.2), on_error=OnError.REJECT),
            Rule("fast", require=FactAbove("cpu.mhz", 3000), enforce=False),
            Rule("idle", prefer=FactAbove("cpu.idle", 0.5), weight=3),
        ),
        weights={Component.CPU: 1.0},
        fingerprint="0123456789ab",
    ),
    "strict.yaml",
    NEEDS,
)


def _reports() -> list[Heard]:
    well, hung = [status("nfs.example/s1", State.HEALTHY)], [status("nfs.example/s1", State.UNHEALTHY)]
    facts = {"cpu.idle": 0.26, "memory.availableShare": 0.5, "cpu.mhz": 4000.0}
    return [
        (facts_report("gpu-1", labels={"node-type": "gpu"}, facts=facts, storages=well), 3.2),
        (facts_report("gpu-2", labels={"node-type": "gpu"}, facts=facts | {"cpu.mhz": 2000.0}, storages=well), 4.0),
        (facts_report("gpu-3", labels={"node-type": "gpu"}, facts={"cpu.idle": 0.9}, storages=well), 1.0),
        (facts_report("cpu-1", facts=facts | {"cpu.idle": 0.9}, storages=well), 2.0),
        (facts_report("cpu-2", facts=facts, storages=hung), 2.5),
        (facts_report("cpu-2", scope="nfs.example", storages=hung), 9.0),
    ]


def _shown(simulation: Simulation, capsys: pytest.CaptureFixture[str], *, wide: bool = False) -> str:
    print_table(simulation_table(simulation, wide=wide))
    return capsys.readouterr().out


def test_nodes_come_with_the_best_first() -> None:
    """Those that pass before those that do not, then by score and name; ages are the agents'."""
    answer = simulate(QUESTION, "nats://n:4222", _reports(), BUILT_IN)
    assert [(node.node, node.last.verdict, node.last.score) for node in answer.nodes] == [
        ("cpu-1", "allowed", 10),
        ("gpu-3", "allowed", 10),
        ("gpu-1", "allowed", 5),
        ("gpu-2", "allowed", 5),
        ("cpu-2", "rejected", 0),
    ]
    assert answer.nodes[-1].report_age_s == 2.5
    assert answer.nodes[-1].last.text == "node(s) had a hung storage mount (nfs.example)"
    assert answer.fits


def test_the_table_has_a_line_for_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict, score and reason."""
    answer = simulate(QUESTION, "nats://n:4222", _reports(), BUILT_IN)
    assert _shown(answer, capsys) == (
        "NODE   VERDICT   SCORE  REASON\n"
        "cpu-1  allowed   10     -\n"
        "gpu-3  allowed   10     -\n"
        "gpu-1  allowed   5      -\n"
        "gpu-2  allowed   5      -\n"
        "cpu-2  rejected  0      MountHung (nfs.example)\n"
    )


def test_the_wide_table_has_the_parts_of_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    """The cap, and every component with its weight; what is not known is a question mark."""
    answer = simulate(QUESTION, "nats://n:4222", _reports(), STRICT)
    assert _shown(answer, capsys, wide=True) == (
        "NODE   VERDICT   SCORE  CAP  cpu x 1  rule:idle x 3  REASON\n"
        "gpu-1  allowed   1      10   0.50     0.00           -\n"
        "gpu-2  allowed   1      10   0.50     0.00           shadow: RuleNotMet (rule fast)\n"
        "cpu-1  rejected  10     10   1.00     1.00           RuleNotMet (rule gpu-nodes)\n"
        "gpu-3  rejected  10     10   1.00     1.00           "
        "RuleUndecided (rule enough-memory): no fact memory.availableShare\n"
        "cpu-2  rejected  0      0    0.50     0.00           MountHung (nfs.example)\n"
    )


def test_another_policy_shows_what_it_would_change(capsys: pytest.CaptureFixture[str]) -> None:
    """Before and after wherever they differ, and one word where not."""
    answer = simulate(QUESTION, "nats://n:4222", _reports(), BUILT_IN, STRICT)
    assert _shown(answer, capsys) == (
        "NODE   VERDICT              SCORE   REASON\n"
        "gpu-1  allowed              5 -> 1  -\n"
        "gpu-2  allowed              5 -> 1  - -> shadow: RuleNotMet (rule fast)\n"
        "cpu-1  allowed -> rejected  10      - -> RuleNotMet (rule gpu-nodes)\n"
        "gpu-3  allowed -> rejected  10      - -> RuleUndecided (rule enough-memory): no fact memory.availableShare\n"
        "cpu-2  rejected             0       MountHung (nfs.example)\n"
    )
    assert [node.node for node in answer.nodes if not node.changes] == ["cpu-2"]


def test_the_head_and_the_end_say_what_was_asked_and_what_to_know() -> None:
    """Pod, needs, both policies with the rules that touch the pod; then the sums."""
    answer = simulate(
        Question("default/web", Profile(), Near(("z1",), ())), "nats://n:4222", _reports(), BUILT_IN, STRICT
    )
    assert heading(answer) == [
        "pod     default/web, needs nfs.example/s1, near z1",
        "policy  built-in, enforce; rules for this pod: none",
        "then    strict.yaml 0123456789ab, enforce; rules for this pod: gpu-nodes, enough-memory, fast, idle",
    ]
    assert summary(answer) == [
        "2 of 5 nodes may take it. The other policy changes 4 of them.",
        "kube-scheduler's own plugins are not part of this.",
    ]


def test_what_scores_are_not_for_is_said() -> None:
    """A pod that is not scored, mode shadow, and an open breaker."""
    no_needs = Candidate(SchedulingPolicy(), "built-in")
    answer = simulate(QUESTION, "nats://n:4222", _reports(), no_needs)
    assert heading(answer)[0] == "pod     default/web, needs no storage"
    assert (
        "No scores are asked for: it needs no storage, is near nothing, and no rule that prefers touches it."
        in summary(answer)
    )

    shadow = Candidate(SchedulingPolicy(mode=Mode.SHADOW), "shadow.yaml", NEEDS)
    answer = simulate(QUESTION, "nats://n:4222", _reports(), shadow)
    assert "Mode shadow: nothing is enforced, and kube-scheduler gets no scores." in summary(answer)
    assert answer.nodes[-1].last.shadow == "MountHung (nfs.example)"

    gone = [status("nfs.example", State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED)]
    reports = [(facts_report(f"n{number}", storages=gone), 0.0) for number in range(5)]
    answer = simulate(QUESTION, "nats://n:4222", reports, BUILT_IN)
    assert "The breaker of nfs.example is open: its nodes are not rejected on weak evidence." in summary(answer)


def test_a_pod_that_fits_nowhere_does_not_fit() -> None:
    """By the policy that the question is about."""
    nowhere = Candidate(SchedulingPolicy(rules=(Rule("no", require=LabelIs("no", "no")),)), "no.yaml", NEEDS)
    assert not simulate(QUESTION, "n", _reports(), BUILT_IN, nowhere).fits
    assert simulate(QUESTION, "n", _reports(), nowhere, BUILT_IN).fits
    assert not simulate(QUESTION, "n", [], BUILT_IN).fits


def test_programs_get_everything() -> None:
    """JSON and YAML are one document; labels alone make nearness known."""
    near = Question("default/web", Profile(), Near(("z1",)))
    reports = [(facts_report("a", labels={ZONE: "z1"}), 1.0)]
    answer = simulate(near, "nats://n:4222", reports, Candidate(SchedulingPolicy(), "built-in"))
    document = json.loads(as_text(answer, "json"))
    assert yaml.safe_load(as_text(answer, "yaml")) == document
    assert document["policy"]["fingerprint"] == "built-in"
    [node] = document["nodes"]
    assert node["node"] == "a"
    assert {"name": "nearness", "weight": 2.0, "value": 1.0} in node["now"]["components"]


def _in_force(instance: str, fingerprint: str, refused: str = "") -> PolicyInForce:
    return PolicyInForce(instance, "filter", fingerprint, "text", refused)


def test_the_policy_of_most_replicas_is_taken() -> None:
    """With a warning that names who works by what."""
    agreeing = [_in_force("filter-a", "111"), _in_force("scorer-a", "111")]
    assert choose_policy(agreeing) == (agreeing[0], [])
    mixed = [_in_force("filter-a", "222"), *agreeing[:1], agreeing[1]]
    chosen, warnings = choose_policy(mixed)
    assert chosen == agreeing[0]
    assert warnings == ["replicas work by different policies (filter-a 222, filter-a 111, scorer-a 111); 111 is taken"]


def test_silence_and_refusals_are_told() -> None:
    """Nobody answers; or a replica holds on to an older version of its file."""
    assert choose_policy([]) == (
        None,
        ["no filter or scorer says which policy is in force; the built-in one is taken"],
    )
    _, warnings = choose_policy([_in_force("filter-a", "111", "p.yaml:3: bad\np.yaml:4: worse")])
    assert warnings == ["filter-a refuses a newer policy: p.yaml:3: bad; p.yaml:4: worse"]
