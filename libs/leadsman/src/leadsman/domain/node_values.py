"""What each component of a score is worth on each node, in hundredths, and when changes of it come in force. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from leadsman.domain import curves
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.node_facts import Freshness, NodeFacts, StorageFacts
from leadsman.domain.policy import Component, OnError, Rule
from leadsman.domain.report import StorageKey
from leadsman.domain.requirements import Near
from leadsman.domain.rule_outcomes import RuleOutcomes
from leadsman.domain.scores import NEUTRAL, hundredths
from leadsman.domain.verdicts import UNKNOWN_VALUE

Values = Mapping[StorageKey, int]
"""Hundredths by storage; only what is known."""

_NONE: Values = {}


class NodeValues(NamedTuple):
    """What a node's facts are worth, in hundredths, `UNKNOWN_VALUE` where that is not known.

    `latency` and `capacity` are those of its storages, `zone` and `region` its labels, and `rules` go by position among
    the rules that prefer. With `held` the facts are so old that only bad news counts: `node_values` has seen to that
    for all but the labels, which mean nothing before a pod asks.
    """

    io_pressure: int = UNKNOWN_VALUE
    cpu: int = UNKNOWN_VALUE
    memory: int = UNKNOWN_VALUE
    gpu: int = UNKNOWN_VALUE
    latency: Values = _NONE
    capacity: Values = _NONE
    zone: str = ""
    region: str = ""
    held: bool = False
    rules: bytes = b""


OF_NODE: Mapping[Component, Callable[[NodeValues], int]] = {
    Component.IO_PRESSURE: attrgetter("io_pressure"),
    Component.CPU: attrgetter("cpu"),
    Component.MEMORY: attrgetter("memory"),
    Component.GPU: attrgetter("gpu"),
}
"""The components that are the same for every pod."""


def node_values(facts: NodeFacts, freshness: Freshness, rules: bytes = b"") -> NodeValues:
    """What `facts` are worth, beside what `rules` say.

    Facts count until `staleAfter`. Then, for `holdUnhealthy`, what is worth more than NEUTRAL is unknown and the rest
    holds, because silence is no recovery; after that nothing is known.
    """
    if freshness is Freshness.EXPIRED:
        return NodeValues(rules=rules)
    limit = NEUTRAL if freshness is Freshness.HELD else 100
    return NodeValues(
        _up_to(limit, curves.io_pressure(facts)),
        _up_to(limit, curves.cpu(facts)),
        _up_to(limit, curves.memory(facts)),
        _up_to(limit, curves.gpu(facts)),
        _of_storages(curves.storage_latency, limit, facts.storages),
        _of_storages(curves.capacity, limit, facts.storages),
        facts.zone,
        facts.region,
        freshness is Freshness.HELD,
        rules,
    )


def _up_to(limit: int, value: float | None) -> int:
    if value is None:
        return UNKNOWN_VALUE
    known = hundredths(value)
    return known if known <= limit else UNKNOWN_VALUE


def _of_storages(
    curve: Callable[[StorageFacts], float | None], limit: int, storages: Mapping[StorageKey, StorageFacts]
) -> Values:
    return {
        key: known
        for key, storage in storages.items()
        if (value := curve(storage)) is not None and (known := hundredths(value)) <= limit
    }


class ValuesInForce:
    """The values of all nodes that `facts` knows. Changes are worked out as they come, and count from `commit` on.

    Nothing is known at first: run `fill` to its end, unless `facts` is empty still. `close` ends it.
    """

    def __init__(self, rules: tuple[Rule, ...], facts: FactIndex) -> None:
        self.unknown = NodeValues(rules=bytes([_if_undecided(rule) for rule in rules]))
        """The values of a node of which nothing is known."""
        self._facts = facts
        self._nodes: dict[str, NodeValues] = {}
        self._coming: dict[str, NodeValues | None] = {}
        self._outcomes: dict[str, bytearray] = {}
        self._regions: dict[str, Counter[str]] = {}
        self._moved_zones: set[str] = set()
        self._zones_with: Counter[str] = Counter()
        self._regions_with: Counter[str] = Counter()
        self.outcomes = RuleOutcomes(rules, facts, self)
        """What the rules say now."""
        facts.listen(self)  # after the rules, so that `refresh` finds what they say already

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def get(self, node: str) -> NodeValues | None:
        """The values of `node` in force; None for an unknown node."""
        return self._nodes.get(node)

    def regions_of(self, zones: Iterable[str]) -> set[str]:
        """The regions in which `zones` lie, by the labels of the nodes there."""
        return {region for zone in zones for region in +self._regions.get(zone, Counter())}

    def inhabited(self, near: Near) -> Near:
        """`near` without zones and regions that no node is in: names that pods may make up."""
        return Near(
            tuple([zone for zone in near.zones if self._zones_with[zone]]),
            tuple([region for region in near.regions if self._regions_with[region]]),
        )

    def take_moved_zones(self) -> set[str]:
        """Zones that were found to lie in other regions than at the last call."""
        moved, self._moved_zones = self._moved_zones, set()
        return moved

    def fill(self) -> Iterator[object]:
        """Work out all nodes, one at each step; `commit` brings them in force."""
        yield from self.outcomes.fill()
        for node in list(self._facts):
            self.refresh(node)
            yield node

    def refresh(self, node: str) -> None:
        """See `FactListener.refresh`."""
        facts = self._facts.get(node)
        if facts is None:
            self._coming[node] = None
        else:
            rules = bytes(self._outcomes.get(node, self.unknown.rules))
            self._coming[node] = node_values(facts, self._facts.freshness(node), rules)

    def moved(self, number: int, node: str, old: float | None, new: float | None) -> None:  # noqa: ARG002
        """See `OutcomeListener.moved`."""
        if node not in self.outcomes:
            self._outcomes.pop(node, None)
            return
        outcomes = self._outcomes.setdefault(node, bytearray(self.unknown.rules))
        outcomes[number] = self.unknown.rules[number] if new is None else hundredths(min(1.0, max(0.0, new)))

    def commit(self) -> list[str]:
        """Let what has changed come in force; returns the nodes whose values differ, or which are new or gone."""
        changed = [node for node, now in self._coming.items() if self._commit(node, now)]
        self._coming.clear()
        return changed

    def close(self) -> None:
        """Hear of no more changes."""
        self._facts.unlisten(self)
        self.outcomes.close()

    def _commit(self, node: str, now: NodeValues | None) -> bool:
        before = self._nodes.get(node)
        if now == before:
            return False
        self._note_zone(before or self.unknown, now or self.unknown)
        if now is None:
            del self._nodes[node]
        else:
            self._nodes[node] = now
        return True

    def _note_zone(self, before: NodeValues, now: NodeValues) -> None:
        """Learn from a node's labels in which region its zone lies."""
        old, new = (before.zone, before.region), (now.zone, now.region)
        if old == new:
            return
        for (zone, region), step in ((old, -1), (new, 1)):
            self._zones_with[zone] += step
            self._regions_with[region] += step
            if zone and region:
                regions = self._regions.setdefault(zone, Counter())
                known = set(+regions)
                regions[region] += step
                if known != set(+regions):
                    self._moved_zones.add(zone)


def _if_undecided(rule: Rule) -> int:
    return UNKNOWN_VALUE if rule.on_error is OnError.ALLOW else 0
