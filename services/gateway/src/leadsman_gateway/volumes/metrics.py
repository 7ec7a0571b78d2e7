"""Prometheus metrics of the volume catalogue."""

from prometheus_client import CollectorRegistry, Counter

from leadsman.kube.metrics import WatchMetrics
from leadsman_gateway.volumes.catalogue import Store
from leadsman_gateway.volumes.records import Kind


class CatalogueMetrics(WatchMetrics):
    """Registered once per process; labels are kinds and closed sets of words."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry, "leadsman_catalogue")
        self.bad_files = Counter(
            "leadsman_catalogue_bad_files_total",
            "Manifest files that could not be used, at each change.",
            registry=registry,
        )
        self.reads = Counter(
            "leadsman_catalogue_read_throughs_total",
            "Objects asked for that were not in memory.",
            ["result"],
            registry=registry,
        )

    def counted(self, kind: Kind, store: Store) -> None:
        """Export the number of objects of `kind`."""
        self.objects.labels(kind).set(store.count(kind))
