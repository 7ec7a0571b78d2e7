"""The gauge of rejected nodes says how many nodes are bad and why, never which."""

from prometheus_client import CollectorRegistry

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.testing.reports import report, status, volume
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


def test_bad_volumes_are_counted_by_reason_once_for_each_node() -> None:
    """A degraded one keeps nobody off, so it does not count; nor does it make its node a rejected one."""
    index, registry = HealthIndex(StoragePolicy()), CollectorRegistry()
    RejectedNodes(index, registry)
    index.apply(report("n1", volumes=[volume("nfs/a"), volume("nfs/b"), volume("nfs/c", State.DEGRADED)]), 0, 0)
    index.apply(report("n2", volumes=[volume("nfs/a", reason=Reason.MOUNT_HUNG)]), 0, 0)

    def value(name: str, reason: str) -> float | None:
        return registry.get_sample_value(f"leadsman_filter_{name}_rejected", {"reason": reason})

    assert [value("volumes", reason) for reason in ("StaleFileHandle", "MountHung", "MountIOError")] == [2, 1, 0]
    assert value("nodes", "StaleFileHandle") == 0
