"""Rules that need no document: node tests that note where they ran, and reports with the labels and facts they read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leadsman.domain.node_facts import FactValue, NodeFacts
from leadsman.domain.policy import UndecidedError
from leadsman.domain.report import NodeReport, Sequence, StorageStatus
from leadsman.domain.states import State


def ran() -> list[str]:
    """A place where a test notes the nodes on which it runs."""
    return []


@dataclass(frozen=True)
class LabelIs:
    """Whether the node's label `key` is `value`; undecided while the agent has not spoken."""

    key: str
    value: str
    ran_on: list[str] = field(default_factory=ran, compare=False)
    reads: frozenset[str] = field(default=frozenset({"labels"}), compare=False)

    def evaluate(self, node: NodeFacts) -> float:
        """See `NodeTest.evaluate`."""
        self.ran_on.append(node.node)
        if not node.reported:
            raise UndecidedError("no labels")
        return float(node.labels.get(self.key) == self.value)


@dataclass(frozen=True)
class FactAbove:
    """Whether the fact `name` is above `limit`; undecided where it is absent. `watches` stands in for `reads`."""

    name: str
    limit: float
    watches: str = ""
    ran_on: list[str] = field(default_factory=ran, compare=False)

    @property
    def reads(self) -> frozenset[str]:
        """See `NodeTest.reads`."""
        return frozenset({self.watches or self.name})

    def evaluate(self, node: NodeFacts) -> float:
        """See `NodeTest.evaluate`."""
        self.ran_on.append(node.node)
        value = node.number(self.name)
        if value is None:
            raise UndecidedError(f"no fact {self.name}")
        return float(value > self.limit)


@dataclass(frozen=True)
class StorageHealthy:
    """The share of the node's storages that are healthy; undecided where there is none."""

    ran_on: list[str] = field(default_factory=ran, compare=False)
    reads: frozenset[str] = field(default=frozenset({"storage"}), compare=False)

    def evaluate(self, node: NodeFacts) -> float:
        """See `NodeTest.evaluate`."""
        self.ran_on.append(node.node)
        if not node.storages:
            raise UndecidedError("no storage")
        return sum(one.state is State.HEALTHY for one in node.storages.values()) / len(node.storages)


def facts_report(
    node: str,
    *,
    labels: Mapping[str, str] | None = None,
    facts: Mapping[str, FactValue] | None = None,
    storages: Iterable[StorageStatus] = (),
    scope: str = "",
) -> NodeReport:
    """A report of `node` by its agent, or by the sidecar of the driver `scope`."""
    return NodeReport(
        node, Sequence(1, 1), 10.0, tuple(storages), labels=dict(labels or {}), facts=dict(facts or {}), scope=scope
    )
