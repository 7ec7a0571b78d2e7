"""Prometheus metrics of the volume catalogue."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from leadsman_gateway.volumes.catalogue import Store
from leadsman_gateway.volumes.records import Kind


class CatalogueMetrics:
    """Registered once per process; labels are kinds and closed sets of words."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"leadsman_catalogue_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"leadsman_catalogue_{name}", text, labels, registry=registry)

        self.objects = gauge("objects", "Objects in memory.", "kind")
        self.up = gauge("watch_up", "1 while a list or watch of this kind works.", "kind")
        self.age = gauge("last_event_age_seconds", "Time since the API server last sent anything.", "kind")
        self.relists = counter("relists_total", "Complete lists that were read.", "kind")
        self.restarts = counter("watch_restarts_total", "Watches that came to an end.", "kind", "reason")
        self.failures = counter("watch_failures_total", "Lists and watches that failed.", "kind", "cause")
        self.bad_objects = counter("bad_objects_total", "Objects that could not be read.", "kind")
        self.bad_files = counter("bad_files_total", "Manifest files that could not be used, at each change.")
        self.reads = counter("read_throughs_total", "Objects asked for that were not in memory.", "result")

    def counted(self, kind: Kind, store: Store) -> None:
        """Export the number of objects of `kind`."""
        self.objects.labels(kind).set(store.count(kind))

    def follow_age(self, kind: Kind, age_s: Callable[[], float]) -> None:
        """Export `age_s()` at every scrape."""
        self.age.labels(kind).set_function(age_s)
