"""Prometheus series of the collector itself; labels are bounded by what one node can have."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import State

_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)


class ProbeMetrics:
    """Series about looks, by probe."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.duration = Histogram(
            "leadsman_collector_probe_duration_seconds",
            "Time that one look took, whatever came of it.",
            ["probe"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.results = Counter(
            "leadsman_collector_probe_results_total",
            "Looks by outcome: good, starting, absent, removed, error, timeout, and not_run (the look itself failed).",
            ["probe", "outcome"],
            registry=registry,
        )
        self.last_success = Gauge(
            "leadsman_collector_probe_last_success_timestamp_seconds",
            "When a look of this probe last said something, good or bad (seconds since 1970).",
            ["probe"],
            registry=registry,
        )
        self.rounds = Counter(
            "leadsman_collector_probe_rounds_total", "Rounds of looks that ended.", ["probe"], registry=registry
        )
        self.sources = Gauge(
            "leadsman_collector_sources", "Sockets, addresses and superblocks looked at.", ["probe"], registry=registry
        )
        self.discovery_errors = Counter(
            "leadsman_collector_discovery_errors_total",
            "Rounds in which it could not be told what there is to look at.",
            ["probe"],
            registry=registry,
        )
        self.internal_errors = Counter(
            "leadsman_collector_internal_errors_total",
            "Looks and discoveries that failed by a bug of ours; please report them.",
            ["probe"],
            registry=registry,
        )

    def of(self, probe: str) -> "ProbeSeries":
        """The series of one probe."""
        return ProbeSeries(self, probe)


class ProbeSeries:
    """The series of one probe, each found by its labels once: that takes ten times as long as counting in it.

    None is there before it is needed: a probe that has never succeeded has no time of its last success.
    """

    def __init__(self, metrics: ProbeMetrics, probe: str) -> None:
        self._metrics = metrics
        self._probe = probe
        self._results: dict[str, Counter] = {}

    @cached_property
    def duration(self) -> Histogram:
        """See `ProbeMetrics.duration`."""
        return self._metrics.duration.labels(self._probe)

    @cached_property
    def last_success(self) -> Gauge:
        """See `ProbeMetrics.last_success`."""
        return self._metrics.last_success.labels(self._probe)

    @cached_property
    def rounds(self) -> Counter:
        """See `ProbeMetrics.rounds`."""
        return self._metrics.rounds.labels(self._probe)

    @cached_property
    def sources(self) -> Gauge:
        """See `ProbeMetrics.sources`."""
        return self._metrics.sources.labels(self._probe)

    @cached_property
    def discovery_errors(self) -> Counter:
        """See `ProbeMetrics.discovery_errors`."""
        return self._metrics.discovery_errors.labels(self._probe)

    @cached_property
    def internal_errors(self) -> Counter:
        """See `ProbeMetrics.internal_errors`."""
        return self._metrics.internal_errors.labels(self._probe)

    def results(self, outcome: str) -> Counter:
        """See `ProbeMetrics.results`."""
        if outcome not in self._results:
            self._results[outcome] = self._metrics.results.labels(self._probe, outcome)
        return self._results[outcome]


class CollectorMetrics:
    """Every series, registered once: those about looks in `probes`, the others here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.probes = ProbeMetrics(registry)
        self.stuck = Gauge(
            "leadsman_collector_stuck_workers", "Mount workers that do not come back.", registry=registry
        )
        self.unidentified = Gauge(
            "leadsman_collector_unidentified_sockets",
            "CSI sockets whose driver is not known: it never answered, and its registration does not tell.",
            registry=registry,
        )
        self.unmapped = Gauge(
            "leadsman_collector_unmapped_mounts", "CSI mounts whose driver nobody tells.", registry=registry
        )
        self.endpoints_left_out = Gauge(
            "leadsman_collector_endpoints_left_out", "Endpoints beyond the limit, not looked at.", registry=registry
        )
        self.notice_errors = Counter(
            "leadsman_collector_backend_list_errors_total",
            "Backend lists, or addresses in them, that could not be read.",
            registry=registry,
        )
        self.state_file_errors = Counter(
            "leadsman_collector_state_file_errors_total",
            "Failures with the state file, by operation: read, write.",
            ["operation"],
            registry=registry,
        )
        self.truncated = Counter(
            "leadsman_collector_report_truncated_total",
            "Reports from which the best storages were left out to fit the bus.",
            registry=registry,
        )
        self.storage_state = Gauge(
            "leadsman_collector_storage_state",
            "1 for the present state of each storage on this node.",
            ["driver", "backend", "state"],
            registry=registry,
        )
        self._shown: Mapping[StorageKey, State] = {}

    def show(self, statuses: Iterable[StorageStatus]) -> None:
        """Export the present statuses and no others."""
        states = {status.key: status.state for status in statuses}
        if states == self._shown:  # as after almost every round
            return
        self._shown = states
        self.storage_state.clear()
        for key, present in states.items():
            for state in State:
                self.storage_state.labels(key.driver, key.backend, state.value).set(present is state)
