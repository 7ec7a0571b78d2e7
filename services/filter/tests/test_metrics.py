"""The gauge of rejected nodes says how many nodes are bad and why, never which."""

from prometheus_client import CollectorRegistry

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.testing.reports import report, status
from leadsman_filter.metrics import RejectedNodes


def test_rejected_nodes_are_counted_by_reason_at_every_scrape() -> None:
    """A node counts once per reason, whatever the number of its storages; zero is shown too."""
    index, registry = HealthIndex(StoragePolicy()), CollectorRegistry()
    RejectedNodes(index, registry)
    index.apply(report("n1", status("nfs/a", State.UNHEALTHY), status("nfs/b", State.UNHEALTHY)), 0, 0)
    index.apply(report("n2", status("nfs", State.NOT_APPLICABLE), status("smb", State.UNKNOWN)), 0, 0)

    def value(reason: str) -> float | None:
        return registry.get_sample_value("leadsman_filter_nodes_rejected", {"reason": reason})

    assert [value(reason) for reason in ("MountHung", "DriverNotRegistered", "DriverStarting")] == [1, 1, 0]
