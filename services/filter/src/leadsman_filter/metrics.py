"""What the filter rejects right now, for Prometheus."""

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.reasons import Reason
from leadsman.domain.rejections import reject, rejecting
from leadsman.domain.states import State
from leadsman.runtime.hop.rule_metrics import undecided_family
from leadsman_filter.view import FilterView


class RejectedNodes(Collector):
    """What storages, volumes and rules reject, counted when scraped.

    `leadsman_filter_nodes_rejected{reason}`, `leadsman_filter_volumes_rejected{reason}`, and of rules
    `leadsman_filter_rule_nodes{rule,outcome}` and `leadsman_filter_rule_undecided_total{rule}`.

    The first counts nodes with some storage that rejects for that reason, and a node with two reasons under both. The
    second counts volumes that are bad by themselves, once for each node on which they are.
    """

    def __init__(self, index: HealthIndex, view: Callable[[], FilterView], registry: CollectorRegistry) -> None:
        self._index = index
        self._view = view
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """See `prometheus_client.registry.Collector.collect`."""
        found: set[tuple[Reason, str]] = set()
        for key in self._index.storages():
            for state in State:
                found |= {(one.reason, node) for node, one in rejecting(self._index, key, state).items()}
        counts = Counter(reason for reason, _ in found)
        family = GaugeMetricFamily(
            "leadsman_filter_nodes_rejected", "Nodes with storage that keeps pods off, by reason.", labels=["reason"]
        )
        for reason in Reason:
            family.add_metric([reason.value], counts[reason])
        yield family
        yield self._volumes()
        yield from self._rules()

    def _rules(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        nodes = GaugeMetricFamily(
            "leadsman_filter_rule_nodes",
            "Nodes by outcome of a rule that requires: pass, fail, undecided (its onError decides).",
            labels=["rule", "outcome"],
        )
        view = self._view()
        for number, rule in enumerate(view.policy.requiring):
            for outcome, count in zip(("pass", "fail", "undecided"), view.rules.counts(number), strict=True):
                nodes.add_metric([rule.name, outcome], count)
        yield nodes
        yield undecided_family("filter", view.rules.outcomes)

    def _volumes(self) -> GaugeMetricFamily:
        counts = Counter(
            reject(health, volume.driver).reason
            for volume in self._index.volumes()
            for health in self._index.refusing(volume).values()
        )
        family = GaugeMetricFamily(
            "leadsman_filter_volumes_rejected",
            "Bad volumes, once for each node that keeps off the pods that need them, by reason.",
            labels=["reason"],
        )
        for reason in Reason:
            family.add_metric([reason.value], counts[reason])
        return family
