"""Who reports for which node: what each reporter said last, what counts of it at its age, and what all say together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from leadsman.domain.ageing import Ageing
from leadsman.domain.health import STALE, Health, effective, prevailing, treatment
from leadsman.domain.listing import bad_volumes, listed_states
from leadsman.domain.report import NodeReport, StorageKey, VolumeKey, VolumeStatus
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment

K = TypeVar("K")

AgeOf = Callable[[str], float | None]
"""The authority on ages by a reporter's name, in seconds; None for one that is to be forgotten."""

_NO_VOLUMES: dict[VolumeKey, Health] = {}


@dataclass(slots=True, eq=False)
class Node:
    """What is in force on a node: the union over its reporters. `refused` are the volumes whose pods it turns away."""

    name: str
    reporters: "list[Reporter]" = field(default_factory=list)
    in_force: dict[StorageKey, Health] = field(default_factory=dict)
    refused: dict[VolumeKey, Health] = field(default_factory=dict)

    def unite(self) -> None:
        """Bring in force what the reporters say together."""
        if len(self.reporters) == 1:  # nearly always
            (only,) = self.reporters
            self.in_force, self.refused = only.in_force, only.refused
        else:
            self.in_force = _united([one.in_force for one in self.reporters])
            self.refused = _united([one.refused for one in self.reporters])


@dataclass(slots=True, eq=False)
class Reporter:
    """The agent or a sidecar of a node: what it said last, and what counts of that at its own age."""

    name: str
    node: Node
    in_force: dict[StorageKey, Health] = field(default_factory=dict)
    refused: dict[VolumeKey, Health] = field(default_factory=dict)
    age_s: float = 0.0
    """Its age when it was weighed last."""
    _listed: dict[StorageKey, Health] = field(default_factory=dict)
    _volumes: tuple[VolumeStatus, ...] = ()
    _bad: dict[VolumeKey, Health] = field(default_factory=dict)

    def hear(self, report: NodeReport) -> bool:
        """Keep what `report` lists; whether that is news."""
        listed = listed_states(report.storages)
        if listed == self._listed and report.bad_volumes == self._volumes:
            return False
        self._listed, self._volumes = listed, report.bad_volumes
        self._bad = bad_volumes(report.bad_volumes)
        return True

    def weigh(self, policy: StoragePolicy, age_s: float) -> None:
        """See what counts of its word at this age."""
        policy_of = policy.of
        self.age_s = age_s
        self.in_force = {key: effective(last, policy_of(key.driver), age_s) for key, last in self._listed.items()}
        self.refused = _NO_VOLUMES
        if self._bad:
            now = {key: effective(last, policy_of(key.driver), age_s) for key, last in self._bad.items()}
            self.refused = {key: each for key, each in now.items() if _refuses(each, policy_of(key.driver))}


class Reporters:
    """All reporters of all nodes. What is returned are nodes of which something may have changed: unite them."""

    def __init__(self, policy: StoragePolicy) -> None:
        self._nodes: dict[str, Node] = {}
        self._reporters: dict[str, Reporter] = {}
        self._set_policy(policy)

    def __len__(self) -> int:
        """How many nodes have a reporter."""
        return len(self._nodes)

    @property
    def silent(self) -> int:
        """How many nodes have a reporter so old in age that some driver's states on them are stale."""
        return len({self._reporters[name].node.name for name in self._ageing.late})

    def node(self, name: str) -> Node | None:
        """The node called `name`, None if nobody reports for it."""
        return self._nodes.get(name)

    def hear(self, report: NodeReport, age_s: float, now_s: float) -> Node | None:
        """Take in a reporter's newest report, `age_s` seconds old; None if it changes nothing."""
        one = self._reporters.get(report.reporter) or self._introduce(report)
        changed = one.hear(report) or max(one.age_s, age_s) >= self._stale_from_s
        if changed:
            one.weigh(self._policy, age_s)
        self._ageing.schedule(one.name, age_s, now_s)
        return one.node if changed else None

    def look(self, now_s: float, age_of: AgeOf) -> list[Node]:
        """Weigh anew those whose age may have reached a limit."""
        due = [self._reporters[name] for name in self._ageing.pop_due(now_s)]
        return [self._look_at(one, now_s, age_of) for one in due]

    def forget(self, reporter: str) -> Node | None:
        """Drop everything that `reporter` said."""
        one = self._reporters.get(reporter)
        return None if one is None else self._drop(one)

    def adopt(self, policy: StoragePolicy, now_s: float, age_of: AgeOf) -> list[Node]:
        """Weigh all by another policy from now on."""
        self._set_policy(policy)
        return [self._look_at(one, now_s, age_of) for one in list(self._reporters.values())]

    def _set_policy(self, policy: StoragePolicy) -> None:
        limits = policy.age_limits()
        self._policy = policy
        self._ageing = Ageing(limits)
        self._stale_from_s = limits[0]

    def _introduce(self, report: NodeReport) -> Reporter:
        node = self._nodes.get(report.node)
        if node is None:
            node = self._nodes[report.node] = Node(report.node)
        one = self._reporters[report.reporter] = Reporter(report.reporter, node)
        node.reporters.append(one)
        return one

    def _look_at(self, one: Reporter, now_s: float, age_of: AgeOf) -> Node:
        age_s = age_of(one.name)
        if age_s is None:
            return self._drop(one)
        one.weigh(self._policy, age_s)
        self._ageing.schedule(one.name, age_s, now_s)
        return one.node

    def _drop(self, one: Reporter) -> Node:
        del self._reporters[one.name]
        self._ageing.forget(one.name)
        one.node.reporters.remove(one)
        if not one.node.reporters:
            del self._nodes[one.node.name]
        return one.node


def differences(
    before: Mapping[K, Health], now: Mapping[K, Health]
) -> Iterator[tuple[K, Health | None, Health | None]]:
    """Each key with what it was and what it is, where these differ."""
    for key, old in before.items():
        if key not in now:
            yield key, old, None
    for key, new in now.items():
        before_it = before.get(key)
        if before_it is not new:
            yield key, before_it, new


def _refuses(now: Health, policy: DriverPolicy) -> bool:
    return now is not STALE and treatment(now, policy) is Treatment.REJECT


def _united(words: list[dict[K, Health]]) -> dict[K, Health]:
    """What several reporters of a node say together."""
    found: dict[K, Health] = {}
    for word in words:
        for key, one in word.items():
            other = found.get(key)
            found[key] = one if other is None else prevailing(one, other)
    return found
