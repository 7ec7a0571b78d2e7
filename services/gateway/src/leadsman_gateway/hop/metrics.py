"""What the hop exports; `hop` is `filter` or `scorer`."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class HopMetrics:
    """Instruments of one gateway's hops."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.links_ready = Gauge(
            "leadsman_gateway_hop_links_ready",
            "Replicas that have said hello and answer.",
            ["hop"],
            registry=registry,
        )
        self.failures = Counter(
            "leadsman_gateway_hop_failures_total",
            "Streams to a replica that could not be opened or were lost, by cause.",
            ["hop", "cause"],
            registry=registry,
        )
        self.answers = Counter(
            "leadsman_gateway_hop_answers_total",
            "Answers over the hop: `full`, or `unchanged` since the generation the gateway holds.",
            ["hop", "kind"],
            registry=registry,
        )
        self.seconds = Histogram(
            "leadsman_gateway_hop_duration_seconds",
            "Time from asking over the hop to the answer, failover included.",
            ["hop"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.frozen = Gauge(
            "leadsman_gateway_hop_frozen",
            "1 while the replica in use, or any if none is, says that its view of the nodes is frozen.",
            ["hop"],
            registry=registry,
        )
