"""Prometheus series of watches."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class WatchMetrics:
    """Series of all watches of one service, their names beginning with `prefix`; labels are kinds and closed words."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{prefix}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{prefix}_{name}", text, labels, registry=registry)

        self.objects = gauge("objects", "Objects in memory.", "kind")
        self.up = gauge("watch_up", "1 while a list or watch of this kind works.", "kind")
        self.age = gauge("last_event_age_seconds", "Time since the API server last sent anything.", "kind")
        self.relists = counter("relists_total", "Complete lists that were read.", "kind")
        self.restarts = counter("watch_restarts_total", "Watches that came to an end.", "kind", "reason")
        self.failures = counter("watch_failures_total", "Lists and watches that failed.", "kind", "cause")
        self.bad_objects = counter("bad_objects_total", "Objects that could not be read.", "kind")

    def follow_age(self, kind: str, age_s: Callable[[], float]) -> None:
        """Export `age_s()` at every scrape."""
        self.age.labels(kind).set_function(age_s)
