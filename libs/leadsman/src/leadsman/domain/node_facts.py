"""What rules and scores may know of a node, put together from all its reporters."""

from collections.abc import Collection, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from leadsman.domain.report import NodeReport, StorageKey
from leadsman.domain.states import State

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

FactValue = float | str
_new = tuple.__new__


class Freshness(IntEnum):
    """How much a node's last facts are worth by their age (`DriverPolicy` of the policy's default).

    CURRENT until `staleAfter`, then HELD for `holdUnhealthy`: bad news still counts and good news does not, because
    silence is no recovery. EXPIRED after that: nothing counts.
    """

    CURRENT = 0
    HELD = 1
    EXPIRED = 2


class StorageFacts(NamedTuple):
    """Numbers about one storage on one node; None where not known. See `StorageStatus` for units."""

    state: State
    latency_s: float | None = None
    used: float | None = None
    inodes_used: float | None = None
    attach_limit: int | None = None
    attached: int | None = None


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_STORAGES: Mapping[StorageKey, StorageFacts] = MappingProxyType({})


class NodeFacts(NamedTuple):
    """One node as rules and scores see it. Facts go by their names in `docs/facts.md`; absent means not known.

    Labels and node facts come from the node's agent alone; storages from all its reporters, the agent first.
    """

    # A named tuple, because every report makes one, and a frozen dataclass takes four times as long.

    node: str
    labels: Mapping[str, str] = _NOTHING
    facts: Mapping[str, FactValue] = _NOTHING
    storages: Mapping[StorageKey, StorageFacts] = _NO_STORAGES
    reported: bool = True
    """Whether the agent has reported at all: labels of a node that is known by a sidecar alone are not known."""

    @property
    def zone(self) -> str:
        """The node's zone, empty if it has no such label."""
        return self.labels.get(ZONE, "")

    @property
    def region(self) -> str:
        """The node's region, empty if it has no such label."""
        return self.labels.get(REGION, "")

    def number(self, name: str) -> float | None:
        """The fact `name` if it is known and a number."""
        value = self.facts.get(name)
        return value if isinstance(value, int | float) else None


def node_facts(node: str, reports: Collection[NodeReport]) -> NodeFacts:
    """What `reports`, the last ones of every reporter of `node`, say together."""
    if len(reports) == 1:  # nearly always
        (only,) = reports
        storages = _storages(only)
        return NodeFacts(node, storages=storages, reported=False) if only.scope else _of_agent(only, storages)
    agent: NodeReport | None = None
    storages = {}
    for report in sorted(reports, key=lambda each: each.scope):
        if not report.scope:
            agent = report
        for key, one in _storages(report).items():
            known = storages.get(key)
            storages[key] = one if known is None else _fuller(known, one)
    return NodeFacts(node, storages=storages, reported=False) if agent is None else _of_agent(agent, storages)


def _of_agent(agent: NodeReport, storages: Mapping[StorageKey, StorageFacts]) -> NodeFacts:
    return NodeFacts(agent.node, agent.labels, agent.facts, storages)


def _storages(report: NodeReport) -> dict[StorageKey, StorageFacts]:
    return {
        one.key: _new(
            StorageFacts, (one.state, one.latency_s, one.used, one.inodes_used, one.attach_limit, one.attached)
        )
        for one in report.storages
    }


def _fuller(one: StorageFacts, other: StorageFacts) -> StorageFacts:
    """`one`, with what it does not know taken from `other`."""
    return StorageFacts._make([theirs if mine is None else mine for mine, theirs in zip(one, other, strict=True)])
