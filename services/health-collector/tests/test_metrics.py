"""The collector's own series."""

from prometheus_client import CollectorRegistry

from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import Evidence, State
from leadsman_health_collector.metrics import CollectorMetrics, ProbeMetrics
from leadsman_health_collector.observation import Kind, Outcome


def status(backend: str, state: State, message: str = "") -> StorageStatus:
    return StorageStatus(StorageKey("nfs.csi.k8s.io", backend), state, None, Evidence.DATA_PATH, message, 0.0)


def states(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """Value by backend and state."""
    series = registry.get_sample_value
    found = {}
    for backend in ("a", "b"):
        for state in State:
            labels = {"driver": "nfs.csi.k8s.io", "backend": backend, "state": state.value}
            value = series("leadsman_collector_storage_state", labels)
            if value is not None:
                found[backend, state.value] = value
    return found


def test_the_series_of_a_probe_are_those_of_its_label() -> None:
    """Counting twice counts twice in one series, and another probe's is another."""
    registry = CollectorRegistry()
    metrics = ProbeMetrics(registry)
    tcp, mount = metrics.of(Kind.TCP), metrics.of(Kind.MOUNT)
    for _ in range(2):
        tcp.results(Outcome.GOOD).inc()
        tcp.rounds.inc()
    mount.results(Outcome.TIMEOUT).inc()
    results, rounds = "leadsman_collector_probe_results_total", "leadsman_collector_probe_rounds_total"
    assert registry.get_sample_value(results, {"probe": "tcp_endpoint", "outcome": "good"}) == 2
    assert registry.get_sample_value(rounds, {"probe": "tcp_endpoint"}) == 2
    assert registry.get_sample_value(results, {"probe": "mount_liveness", "outcome": "timeout"}) == 1
    assert registry.get_sample_value(results, {"probe": "mount_liveness", "outcome": "good"}) is None


def test_a_probe_that_never_succeeded_has_no_time_of_success() -> None:
    """A zero would mean 1970, and every alert on its age would go off."""
    registry = CollectorRegistry()
    series = ProbeMetrics(registry).of(Kind.TCP)
    series.duration.observe(1.0)
    assert registry.get_sample_value("leadsman_collector_probe_duration_seconds_count", {"probe": "tcp_endpoint"}) == 1
    name = "leadsman_collector_probe_last_success_timestamp_seconds"
    assert registry.get_sample_value(name, {"probe": "tcp_endpoint"}) is None


def test_present_states_are_shown_and_no_others() -> None:
    """A storage that is no longer reported loses its series; a new state of another one replaces the old."""
    registry = CollectorRegistry()
    metrics = CollectorMetrics(registry)
    metrics.show([status("a", State.HEALTHY), status("b", State.HEALTHY)])
    assert {key for key, value in states(registry).items() if value == 1} == {("a", "HEALTHY"), ("b", "HEALTHY")}
    metrics.show([status("b", State.UNHEALTHY)])
    assert {key[0] for key in states(registry)} == {"b"}
    assert {key for key, value in states(registry).items() if value == 1} == {("b", "UNHEALTHY")}


def test_what_has_not_changed_is_not_exported_anew() -> None:
    """Only the states count: a new message or latency touches no series."""
    registry = CollectorRegistry()
    metrics = CollectorMetrics(registry)
    metrics.show([status("a", State.HEALTHY)])
    metrics.storage_state.clear()
    metrics.show([status("a", State.HEALTHY, "another message")])
    assert states(registry) == {}
