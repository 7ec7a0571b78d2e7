"""Prometheus series about the API server."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from leadsman.kube.metrics import WatchMetrics

PREFIX = "leadsman_collector_kube"


class ViewMetrics(WatchMetrics):
    """Series of the watches, and of what in their objects is of no use."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry, PREFIX)
        self.labels_cut = Counter(
            f"{PREFIX}_labels_cut_total",
            "Labels of the Node left out, at each change, because all of them are too long for a report.",
            registry=registry,
        )
        self.unread_conditions = Counter(
            f"{PREFIX}_unread_storage_health_total",
            "Conditions in the CSINode's status, at each change, that could not be read.",
            registry=registry,
        )


class EventMetrics:
    """Series of Events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.written = Counter(
            f"{PREFIX}_events_total", "Events written, by operation: create, update.", ["operation"], registry=registry
        )
        self.dropped = Counter(
            f"{PREFIX}_events_dropped_total",
            "Events given up, by cause: overflow (too many were waiting), refused (the API server never takes them).",
            ["cause"],
            registry=registry,
        )
        self.failures = Counter(
            f"{PREFIX}_event_failures_total", "Attempts to write an Event that failed.", registry=registry
        )
        self.waiting = Gauge(f"{PREFIX}_events_waiting", "Events that wait to be written.", registry=registry)


class ConditionMetrics:
    """Series of the Node condition."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.written = Counter(f"{PREFIX}_condition_writes_total", "Writes of the Node condition.", registry=registry)
        self.failures = Counter(
            f"{PREFIX}_condition_failures_total", "Attempts to write the Node condition that failed.", registry=registry
        )
