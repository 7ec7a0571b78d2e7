"""What the filter rejects right now, for Prometheus."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.reasons import Reason
from leadsman.domain.rejections import rejecting
from leadsman.domain.states import State


class RejectedNodes(Collector):
    """`leadsman_filter_nodes_rejected{reason}`: nodes with some storage that rejects for that reason.

    Counted when scraped. A node with two reasons counts under both.
    """

    def __init__(self, index: HealthIndex, registry: CollectorRegistry) -> None:
        self._index = index
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
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
