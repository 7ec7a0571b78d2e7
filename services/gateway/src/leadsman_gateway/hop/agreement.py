"""Whether all filters and scorers work by the same policy."""

from collections.abc import Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge


class Replicas(Protocol):
    """All replicas of one service; see `leadsman_gateway.hop.client.HopClient`."""

    @property
    def name(self) -> str:
        """`filter` or `scorer`."""
        ...

    @property
    def policies(self) -> Mapping[str, str]:
        """Address of each ready replica to the fingerprint of its policy."""
        ...


class PolicyAgreement:
    """Compares the policies of all ready replicas. They differ for a moment at every change, and no longer."""

    def __init__(self, *services: Replicas, registry: CollectorRegistry) -> None:
        self._services = services
        Gauge(
            "leadsman_gateway_policies",
            "Different policies that the ready filters and scorers work by; 1 except while a change is under way.",
            registry=registry,
        ).set_function(lambda: float(len(self._different())))

    def describe(self) -> tuple[bool, str]:
        """(Not more than one policy, words for people); for /readyz?verbose."""
        different = self._different()
        if not different:
            return True, "no replica is ready"
        if len(different) == 1:
            return True, f"every replica works by {different.pop()}"
        said = [
            f"{service.name} {address} by {policy}"
            for service in self._services
            for address, policy in service.policies.items()
        ]
        return False, f"replicas work by different policies: {', '.join(said)}"

    def _different(self) -> set[str]:
        return {policy for service in self._services for policy in service.policies.values()}
