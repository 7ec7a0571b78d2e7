"""The gauge of rejected nodes says how many nodes are bad and why, never which."""

import dataclasses

from prometheus_client import CollectorRegistry

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.label_test import LabelTest
from leadsman.domain.pod_selectors import Operator, Term
from leadsman.domain.policy import OnError, Rule, SchedulingPolicy
from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.testing.reports import report, status, volume
from leadsman_filter.metrics import RejectedNodes
from leadsman_filter.view import FilterView

RULES = (
    Rule("zone-a", require=LabelTest((Term("zone", Operator.IN, ("a",)),))),
    Rule("zone-b", require=LabelTest((Term("zone", Operator.IN, ("b",)),)), on_error=OnError.REJECT),
)


def parts() -> tuple[HealthIndex, FactIndex, CollectorRegistry]:
    """What is measured, with the metrics in a registry."""
    changes, registry = ChangeCounter(), CollectorRegistry()
    index, facts = HealthIndex(StoragePolicy(), changes), FactIndex(StoragePolicy())
    view = FilterView(index, facts, changes, SchedulingPolicy(rules=RULES))
    RejectedNodes(index, lambda: view, registry)
    return index, facts, registry


def test_rejected_nodes_are_counted_by_reason_at_every_scrape() -> None:
    """A node counts once per reason, whatever the number of its storages; zero is shown too."""
    index, _, registry = parts()
    index.apply(report("n1", status("nfs/a", State.UNHEALTHY), status("nfs/b", State.UNHEALTHY)), 0, 0)
    index.apply(report("n2", status("nfs", State.NOT_APPLICABLE), status("smb", State.UNKNOWN)), 0, 0)

    def value(reason: str) -> float | None:
        return registry.get_sample_value("leadsman_filter_nodes_rejected", {"reason": reason})

    assert [value(reason) for reason in ("MountHung", "DriverNotRegistered", "DriverStarting")] == [1, 1, 0]


def test_bad_volumes_are_counted_by_reason_once_for_each_node() -> None:
    """A degraded one keeps nobody off, so it does not count; nor does it make its node a rejected one."""
    index, _, registry = parts()
    index.apply(report("n1", volumes=[volume("nfs/a"), volume("nfs/b"), volume("nfs/c", State.DEGRADED)]), 0, 0)
    index.apply(report("n2", volumes=[volume("nfs/a", reason=Reason.MOUNT_HUNG)]), 0, 0)

    def value(name: str, reason: str) -> float | None:
        return registry.get_sample_value(f"leadsman_filter_{name}_rejected", {"reason": reason})

    assert [value("volumes", reason) for reason in ("StaleFileHandle", "MountHung", "MountIOError")] == [2, 1, 0]
    assert value("nodes", "StaleFileHandle") == 0


def test_nodes_are_counted_by_what_each_rule_says_of_them() -> None:
    """A node without an agent is undecided, and counts as an evaluation without result."""
    _, facts, registry = parts()
    for node, labels, scope in (("n1", {"zone": "a"}, ""), ("n2", {"zone": "b"}, ""), ("n3", {}, "nfs")):
        facts.apply(dataclasses.replace(report(node, status("nfs", State.HEALTHY)), labels=labels, scope=scope), 0, 0)

    def nodes(rule: str) -> list[float | None]:
        name = "leadsman_filter_rule_nodes"
        outcomes = ("pass", "fail", "undecided")
        return [registry.get_sample_value(name, {"rule": rule, "outcome": outcome}) for outcome in outcomes]

    assert (nodes("zone-a"), nodes("zone-b")) == ([1, 1, 1], [1, 1, 1])
    assert registry.get_sample_value("leadsman_filter_rule_undecided_total", {"rule": "zone-a"}) == 1
