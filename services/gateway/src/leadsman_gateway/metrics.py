"""What the gateway exports about requests and their outcomes.

No label ever holds a name from the cluster; those of policy rules are the operator's, and bounded.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from leadsman.domain.reasons import Reason
from leadsman.wire.decision import DecisionRecord, RejectedNodes

MAX_RULES = 256
"""Rules by name in metrics; those of later policies count under `OTHERS`."""

OTHERS = "(others)"
_RULES = {Reason.RULE_NOT_MET, Reason.RULE_UNDECIDED}

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.8, 1.0, 2.5)


class GatewayMetrics:
    """Instruments of one gateway."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rules: set[str] = set()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"leadsman_gateway_{name}", text, labels, registry=registry)

        self.requests = counter(
            "requests_total", "Answered calls of kube-scheduler, by how the answer came about.", "verb", "outcome"
        )
        self.seconds = Histogram(
            "leadsman_gateway_request_duration_seconds",
            "Time from a call's arrival to its answer.",
            ["verb"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.bad_requests = counter(
            "bad_requests_total", "Requests that could not be answered as they came.", "verb", "reason"
        )
        self.rejected_nodes = counter("rejected_nodes_total", "Nodes kept from a pod, by reason.", "verb", "reason")
        self.shadow_rejected_nodes = counter(
            "shadow_rejected_nodes_total",
            "Nodes that a pod would be kept from if that were enforced, by reason.",
            "verb",
            "reason",
        )
        self.rule_rejected_nodes = counter(
            "rule_rejected_nodes_total",
            "Nodes that a policy rule kept from a pod (mode enforce), or would have (mode shadow); verb filter only.",
            "rule",
            "mode",
        )
        self.whole_sample = counter(
            "whole_sample_rejected_total",
            "Filter calls of which no candidate was left: kube-scheduler may have untested nodes that fit.",
        )
        self.node_mode = counter(
            "node_mode_requests_total", "Calls with whole nodes, which nodeCacheCapable: true would avoid."
        )
        self.unresolved = counter("unresolved_volumes_total", "Volumes whose driver could not be found.")
        self.fetch_timeouts = counter("fetch_timeouts_total", "Reads of missing objects given up for lack of time.")
        self.internal_errors = counter("internal_errors_total", "Bugs met and survived, by place.", "place")
        self.body_bytes = counter("request_body_bytes_total", "Bytes of request bodies read.", "verb")
        self.degraded = Gauge(
            "leadsman_gateway_degraded",
            "1 while the last storage verdict could not be had and the configured failure mode answered.",
            registry=registry,
        )

    def count_rejections(self, record: DecisionRecord) -> None:
        """Count the nodes of a decision by reason, and those of rules by rule."""
        for group in record.rejections:
            self.rejected_nodes.labels(record.verb, group.reason).inc(group.total)
        for group in record.shadow:
            self.shadow_rejected_nodes.labels(record.verb, group.reason).inc(group.total)
        if record.verb == "filter":  # preempt asks again about the same nodes
            self._count_rules(record.rejections, "enforce")
            self._count_rules(record.shadow, "shadow")

    def _count_rules(self, groups: list[RejectedNodes], mode: str) -> None:
        for group in groups:
            if group.reason in _RULES:
                if len(self._rules) < MAX_RULES:
                    self._rules.add(group.subject)
                rule = group.subject if group.subject in self._rules else OTHERS
                self.rule_rejected_nodes.labels(rule, mode).inc(group.total)

    def count_bad_http(self, reason: str) -> None:
        """A connection was ended because it brought no request with a head: there is no verb to count for."""
        self.bad_requests.labels("none", reason).inc()
