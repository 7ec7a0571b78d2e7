"""The facts of all nodes, with what they are worth by their age. Pure: time and ages are arguments."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from leadsman.domain.ageing import Ageing
from leadsman.domain.node_facts import Freshness, NodeFacts, node_facts
from leadsman.domain.report import NodeReport, node_of
from leadsman.domain.storage_policy import StoragePolicy


class FactListener(Protocol):
    """Whoever works something out of a node's facts, when they change and not when it is asked."""

    def refresh(self, node: str) -> None:
        """The facts of `node`, or what they are worth, have changed; it may also be gone."""
        ...


class FactIndex:
    """Latest facts of every node. Listeners hear of a node in the turn in which it changes.

    Facts are put together when somebody listens or asks: without rules nobody does.

    A node's freshness is that of its agent; one without an agent is EXPIRED as far as facts go. `blind` (the bus has
    been out of reach for too long) makes every node EXPIRED.
    """

    def __init__(self, policy: StoragePolicy) -> None:
        self._limits = policy.default.limits
        self._frozen_max_s = policy.bus_frozen_max_age_s
        self._ageing = Ageing(self._limits)
        self._reports: dict[str, dict[str, NodeReport]] = {}
        self._facts: dict[str, NodeFacts] = {}
        self._freshness: dict[str, Freshness] = {}
        self._listeners: list[FactListener] = []
        self.blind = False

    def __len__(self) -> int:
        return len(self._reports)

    def __iter__(self) -> Iterator[str]:
        return iter(self._reports)

    def listen(self, listener: FactListener) -> None:
        """Tell `listener` of every change from now on; those who listen are told in the order in which they began."""
        self._listeners.append(listener)

    def unlisten(self, listener: FactListener) -> None:
        """Tell `listener` nothing more."""
        self._listeners.remove(listener)

    def get(self, node: str) -> NodeFacts | None:
        """The last facts of `node`, whatever they are worth; None for an unknown node."""
        facts = self._facts.get(node)
        if facts is None and node in self._reports:
            facts = self._facts[node] = node_facts(node, self._reports[node].values())
        return facts

    def freshness(self, node: str) -> Freshness:
        """What the facts of `node` are worth; EXPIRED for an unknown node."""
        return Freshness.EXPIRED if self.blind else self._freshness.get(node, Freshness.EXPIRED)

    def adopt(self, policy: StoragePolicy, now_s: float, age_of: Callable[[str], float | None]) -> None:
        """Age by the limits of another policy from now on."""
        self._frozen_max_s = policy.bus_frozen_max_age_s
        if policy.default.limits == self._limits:
            return
        self._limits = policy.default.limits
        self._ageing = Ageing(self._limits)
        for node in list(self._reports):
            age_s = age_of(node)
            if age_s is not None:
                self._ageing.schedule(node, age_s, now_s)
                self._set_freshness(node, age_s)

    def apply(self, report: NodeReport, age_s: float, now_s: float) -> None:
        """Take in a reporter's newest report, `age_s` seconds old."""
        node = report.node
        reports = self._reports.setdefault(node, {})
        reports[report.reporter] = report
        changed = self._note_facts(node, reports)
        if not report.scope:
            self._ageing.schedule(node, age_s, now_s)
            changed |= self._note_freshness(node, age_s)
        if changed:
            self._tell(node)

    def tick(self, now_s: float, age_of: Callable[[str], float | None], frozen_for_s: float | None = None) -> None:
        """Let time pass, as `HealthIndex.tick` does."""
        self._set_blind(frozen_for_s is not None and frozen_for_s >= self._frozen_max_s)
        for node in self._ageing.pop_due(now_s):
            age_s = age_of(node)  # an agent goes by its node's name
            if age_s is not None and node in self._reports:
                self._ageing.schedule(node, age_s, now_s)
                self._set_freshness(node, age_s)

    def forget(self, reporter: str) -> None:
        """Drop everything that `reporter` said."""
        node = node_of(reporter)
        reports = self._reports.get(node)
        if reports is None or reports.pop(reporter, None) is None:
            return
        if reporter == node:
            self._ageing.forget(node)
            self._freshness.pop(node, None)
        self._facts.pop(node, None)
        if not reports:
            del self._reports[node]
        self._tell(node)

    def _note_facts(self, node: str, reports: Mapping[str, NodeReport]) -> bool:
        """Whether what `reports` say together differs from before, as far as anybody wants to know."""
        before = self._facts.pop(node, None)
        if not self._listeners:
            return False
        now = self._facts[node] = node_facts(node, reports.values())
        return now != before

    def _set_freshness(self, node: str, age_s: float) -> None:
        if self._note_freshness(node, age_s):
            self._tell(node)

    def _note_freshness(self, node: str, age_s: float) -> bool:
        stale_at, hold_until = self._limits
        now = Freshness.CURRENT if age_s < stale_at else Freshness.HELD if age_s < hold_until else Freshness.EXPIRED
        before = self._freshness.get(node)
        self._freshness[node] = now
        return now is not before

    def _set_blind(self, blind: bool) -> None:  # noqa: FBT001 - one caller, one meaning
        if blind != self.blind:
            self.blind = blind
            for node in list(self._reports):
                self._tell(node)

    def _tell(self, node: str) -> None:
        for listener in self._listeners:
            listener.refresh(node)
