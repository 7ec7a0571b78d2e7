"""The version of what is running, for /version, metrics and the hop."""

from importlib import metadata

from prometheus_client import CollectorRegistry, Gauge


def version() -> str:
    """Version of the installed `leadsman` library; all members are released together."""
    return metadata.version("leadsman")


def publish_build_info(registry: CollectorRegistry, component: str) -> None:
    """Export `leadsman_build_info{component, version} 1`."""
    Gauge("leadsman_build_info", "What is running.", ["component", "version"], registry=registry).labels(
        component, version()
    ).set(1)
