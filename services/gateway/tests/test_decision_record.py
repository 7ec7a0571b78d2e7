"""A record tells what was decided and why, what would have been, and how scores came about, in bounded size."""

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Requirement
from leadsman.domain.verdicts import UNKNOWN_VALUE, Column, FilterAnswer, Rejection, ScoreAnswer
from leadsman.wire.decision import MAX_BREAKDOWNS, MAX_NODES, Breakdown, DecisionRecord, RejectedNodes, reasons_by_node
from leadsman.wire.pod import ObjectMeta, Pod
from leadsman_gateway.decider import Ruling
from leadsman_gateway.decision_record import to_record
from leadsman_gateway.extender import Decision
from leadsman_gateway.hop.answers import FilterTable, ScoreTable, none_pass
from leadsman_gateway.metrics import MAX_RULES, GatewayMetrics
from leadsman_gateway.volumes import Resolution

POD = Pod(ObjectMeta(name="db-0", namespace="shop", uid="u-1"))
NODES = [f"node-{number}" for number in range(MAX_NODES * 2)]
HUNG, DOWN = Rejection(Reason.MOUNT_HUNG, "a.csi"), Rejection(Reason.ENDPOINT_TIMEOUT, "a.csi")
NO_GPU = Rejection(Reason.RULE_NOT_MET, "gpu", resolvable=True)


def record(table: FilterTable) -> DecisionRecord:
    """Of a filter call about NODES."""
    needs = Resolution((Requirement("a.csi", "x", "pv-1"), Requirement("a.csi", "x", "pv-2"), Requirement("b.csi")))
    ruling = Ruling("decided", table, needs, "filter-1", 8, "4f2a", ("breaker:a.csi",))
    failed, names = table.failed(NODES).all, NODES if table.casts_shadow else ()
    decision = Decision("filter", POD, len(NODES), verdicts=ruling, failed=failed, names=names, seconds=0.0123456)
    return to_record(decision, 1.0)


def scored(answer: ScoreAnswer) -> DecisionRecord:
    """Of a prioritize call about NODES."""
    ruling = Ruling("decided", ScoreTable(answer), policy="4f2a")
    return to_record(Decision("prioritize", POD, len(NODES), scores=ruling, names=NODES), 1.0)


def named(groups: list[RejectedNodes]) -> list[str]:
    """The nodes that a record names."""
    return [node for group in groups for node in group.nodes]


def test_record_lists_some_nodes_and_counts_all() -> None:
    """A cluster-wide outage must not make a record of a megabyte."""
    told = record(none_pass(HUNG))

    assert told.rejections == [RejectedNodes("MountHung", "a.csi", len(NODES), NODES[:MAX_NODES])]
    assert (told.rejected_total, told.candidates, told.shadow_total) == (len(NODES), len(NODES), 0)
    assert (told.storages, told.instance, told.generation) == (["a.csi/x", "b.csi"], "filter-1", 8)
    assert (told.policy, told.mode, told.degraded) == ("4f2a", "enforce", ["breaker:a.csi"])
    assert told.duration_ms == 12.346


def test_nodes_are_told_by_what_they_failed_for() -> None:
    """Reason and subject, over all nodes; those that evictions could help are named after the others."""
    kinds = (HUNG, DOWN, NO_GPU)
    told = record(FilterTable(FilterAnswer({node: kinds[number % 3] for number, node in enumerate(NODES)})))

    assert {(group.reason, group.subject, group.total) for group in told.rejections} == {
        ("MountHung", "a.csi", 67),
        ("EndpointTimeout", "a.csi", 67),
        ("RuleNotMet", "gpu", 66),
    }
    assert len(named(told.rejections)) == MAX_NODES
    assert set(reasons_by_node(told.rejections).values()) == {"MountHung", "EndpointTimeout"}


def test_what_is_not_enforced_is_told_apart() -> None:
    """Nodes named are a hundred over the whole record."""
    rejected = dict.fromkeys(NODES[:70], HUNG)
    shadow = FilterAnswer(dict.fromkeys(NODES[70:150], NO_GPU))
    told = record(FilterTable(FilterAnswer(rejected, shadow=shadow)))

    assert [(group.subject, group.total) for group in told.rejections] == [("a.csi", 70)]
    assert told.shadow == [RejectedNodes("RuleNotMet", "gpu", 80, NODES[70:100])]
    assert (told.rejected_total, told.shadow_total, told.mode) == (70, 80, "enforce")


def test_shadow_mode_tells_everything_as_a_shadow() -> None:
    """Storage, rules, the pod's own volumes, and rules that are not enforced; nothing was rejected."""
    table = FilterTable(FilterAnswer({"node-0": NO_GPU}, shadow=FilterAnswer({"node-1": NO_GPU}), dry_run=True))
    told = record(table.with_volumes({"node-0": HUNG, "node-2": HUNG}))

    assert (told.mode, told.rejected_total, told.rejections, told.shadow_total) == ("shadow", 0, [], 3)
    assert reasons_by_node(told.shadow) == {"node-0": "MountHung", "node-1": "RuleNotMet", "node-2": "MountHung"}


def test_node_that_a_bad_volume_rejects_casts_no_shadow() -> None:
    """A shadow is of nodes that nothing enforced rejects."""
    table = FilterTable(FilterAnswer({}, shadow=FilterAnswer({}, otherwise=NO_GPU)))

    assert record(table.with_volumes({"node-0": HUNG})).shadow_total == len(NODES) - 1


def test_scores_are_those_of_the_best_candidates() -> None:
    """Best first, equal ones in the order sent; those that the scorer lacks have its default."""
    told = scored(ScoreAnswer(("node-7", "node-9"), b"\x03\x09", 5))

    assert list(told.scores.items())[:2] == [("node-9", 9), ("node-0", 5)]
    assert len(told.scores) == MAX_NODES
    assert "node-7" not in told.scores
    assert list(told.breakdown) == ["node-9"]


def test_breakdown_tells_how_a_score_came_about() -> None:
    """Shares of one with their weights; what was not known is null."""
    columns = (Column("cpu", 1.0, bytes([35, 0])), Column("rule:near", 2.5, bytes([UNKNOWN_VALUE, 100])))
    told = scored(ScoreAnswer(("node-3", "elsewhere"), bytes([6, 7]), 0, bytes([10, 10]), columns, dry_run=True))

    assert told.breakdown == {"node-3": Breakdown(6, 10, {"cpu": (0.35, 1.0), "rule:near": (None, 2.5)})}
    assert (told.mode, told.policy) == ("shadow", "4f2a")


def test_breakdowns_are_few() -> None:
    """They are large, and what matters is who won."""
    everyone = ScoreAnswer(tuple(NODES), bytes([4] * 150 + [8] * 50), 0)

    assert list(scored(everyone).breakdown) == NODES[150 : 150 + MAX_BREAKDOWNS]


@pytest.mark.parametrize(("verb", "counted"), [("filter", 2), ("preempt", 0)])
def test_nodes_are_counted_by_reason_and_by_rule(verb: str, counted: int) -> None:
    """Enforced or not; a rule counts once per attempt, and only so many rules have a name."""
    registry = CollectorRegistry()
    metrics = GatewayMetrics(registry)
    groups = [RejectedNodes("MountHung", "a.csi", 3), RejectedNodes("RuleNotMet", "gpu", 2)]
    others = [RejectedNodes("RuleUndecided", f"rule-{number}", 1) for number in range(MAX_RULES + 4)]
    metrics.count_rejections(
        DecisionRecord(1.0, verb, "shop", "db-0", "u", "decided", 9, rejections=groups, shadow=others)
    )

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"leadsman_gateway_{name}", labels) or 0.0

    assert value("rejected_nodes_total", verb=verb, reason="MountHung") == 3
    assert value("shadow_rejected_nodes_total", verb=verb, reason="RuleUndecided") == MAX_RULES + 4
    assert value("rule_rejected_nodes_total", rule="gpu", mode="enforce") == counted
    assert value("rule_rejected_nodes_total", rule="(others)", mode="shadow") == (5 if counted else 0)
