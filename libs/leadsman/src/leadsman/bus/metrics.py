"""Prometheus series of the bus. No label ever holds a node name."""

import statistics
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from leadsman.bus.cache import ReportCache


class BusMetrics:
    """Series of one connection to NATS."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.connected = Gauge("leadsman_bus_connected", "1 while NATS is connected.", registry=registry)
        self.connects = Counter("leadsman_bus_connects_total", "Connections established to NATS.", registry=registry)
        self.disconnects = Counter("leadsman_bus_disconnects_total", "Connections to NATS lost.", registry=registry)
        self.failed_attempts = Counter(
            "leadsman_bus_failed_connects_total", "Attempts to connect to NATS that failed.", registry=registry
        )
        self.errors = Counter(
            "leadsman_bus_errors_total",
            "Errors that NATS or the client reported: slow_consumer (messages lost), permission, authorization, "
            "unreadable (a message the client could not parse), handler (our own callback failed), connection.",
            ["kind"],
            registry=registry,
        )
        published = Counter(
            "leadsman_bus_published_total",
            "Messages given to NATS, by result: sent, not_connected, buffer_full, refused.",
            ["result"],
            registry=registry,
        )
        self.published = {
            result: published.labels(result) for result in ("sent", "not_connected", "buffer_full", "refused")
        }
        self.round_trip = Gauge(
            "leadsman_bus_round_trip_seconds", "Last PING to PONG time of the connection.", registry=registry
        )


class PublisherMetrics:
    """Series of a collector's report publisher."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reports = Counter(
            "leadsman_report_publishes_total",
            "Node reports by result: sent, failed (no connection or full buffer), too_large.",
            ["result"],
            registry=registry,
        )


class ReplicaMetrics:
    """Series of a replica of all node reports."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.nodes = Gauge("leadsman_replica_nodes", "Nodes in the cache.", registry=registry)
        self.sidecars = Gauge(
            "leadsman_replica_sidecars", "Reporters in the cache that watch a single driver.", registry=registry
        )
        self.synced = Gauge("leadsman_replica_synced", "1 once a whole snapshot was loaded.", registry=registry)
        self.frozen = Gauge("leadsman_replica_frozen", "1 while NATS is lost and ages stand still.", registry=registry)
        self.oldest = Gauge(
            "leadsman_replica_oldest_report_age_seconds", "Age of the oldest report in the cache.", registry=registry
        )
        self.median = Gauge(
            "leadsman_replica_median_report_age_seconds", "Median age of the reports in the cache.", registry=registry
        )
        merged = Counter(
            "leadsman_replica_reports_total",
            "Reports that changed the cache, by the way they came: live or snapshot.",
            ["path"],
            registry=registry,
        )
        self.merged = {path: merged.labels(path) for path in ("live", "snapshot")}
        self.dropped = Counter(
            "leadsman_replica_dropped_reports_total",
            "Messages that did not change the cache, by reason.",
            ["reason"],
            registry=registry,
        )
        self.stepped_back = Counter(
            "leadsman_replica_clock_steps_back_total",
            "Reports of a lower epoch that were accepted: the clock of their node went back.",
            registry=registry,
        )
        self.expired = Counter(
            "leadsman_replica_expired_nodes_total", "Nodes dropped after long silence.", registry=registry
        )
        self.snapshots = Counter(
            "leadsman_replica_snapshots_total",
            "Snapshot loads by result: loaded, young (the stream is too new to be complete), no_stream, failed.",
            ["result"],
            registry=registry,
        )
        self.snapshot_seconds = Histogram(
            "leadsman_replica_snapshot_duration_seconds",
            "Time to load a whole snapshot.",
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10),
            registry=registry,
        )
        self.snapshot_rows = Gauge("leadsman_replica_snapshot_rows", "Rows in the last snapshot.", registry=registry)
        self.stream_resets = Counter(
            "leadsman_replica_stream_resets_total",
            "Times the stream was found recreated or rolled_back.",
            ["kind"],
            registry=registry,
        )
        self.failures = Counter(
            "leadsman_replica_internal_errors_total",
            "Unexpected errors in the replica's own tasks or in its listener; please report them.",
            registry=registry,
        )

    def follow(
        self,
        cache: ReportCache,
        ages: Callable[[], Mapping[str, float]],
        synced: Callable[[], bool],
        frozen: Callable[[], bool],
    ) -> None:
        """Take the gauges' values from these whenever they are asked for."""
        self.nodes.set_function(lambda: cache.nodes)
        self.sidecars.set_function(lambda: cache.sidecars)
        self.oldest.set_function(lambda: max(ages().values(), default=0.0))
        self.median.set_function(lambda: statistics.median(ages().values() or [0.0]))
        self.synced.set_function(synced)
        self.frozen.set_function(frozen)
