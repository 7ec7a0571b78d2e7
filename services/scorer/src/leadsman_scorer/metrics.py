"""What the scorer's rules cannot decide, for Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from leadsman.runtime.hop.rule_metrics import undecided_family
from leadsman_scorer.view import ScorerView


class UndecidedPreferences(Collector):
    """`leadsman_scorer_rule_undecided_total{rule}`, read when scraped."""

    def __init__(self, view: Callable[[], ScorerView], registry: CollectorRegistry) -> None:
        self._view = view
        registry.register(self)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """See `prometheus_client.registry.Collector.collect`."""
        yield undecided_family("scorer", self._view().outcomes)
