"""The Prometheus registry of a process: what is running, and what the process itself uses."""

from prometheus_client import CollectorRegistry, Gauge, GCCollector, ProcessCollector, disable_created_metrics

from leadsman.telemetry.version import version


def service_registry(component: str) -> CollectorRegistry:
    """A registry of its own for one service, with `leadsman_build_info{component, version} 1`, process and GC series.

    Counters come without their `_created` twin, which doubles the page and which no rule of ours reads.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    Gauge("leadsman_build_info", "What is running.", ["component", "version"], registry=registry).labels(
        component, version()
    ).set(1)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
