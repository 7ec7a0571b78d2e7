"""The operator's policy: how states become verdicts, rules of their own, and the weights of scores. Pure.

Made by `leadsman.config.policy_document` from the YAML document; everything here is checked already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from leadsman.domain.errors import LeadsmanError
from leadsman.domain.node_facts import NodeFacts
from leadsman.domain.pod_selectors import PodSelector, SelectorSet
from leadsman.domain.storage_policy import StoragePolicy


class Mode(StrEnum):
    """Whether verdicts and scores count (`enforce`), or are only computed and recorded (`shadow`)."""

    ENFORCE = "enforce"
    SHADOW = "shadow"


class OnError(StrEnum):
    """What a rule does on a node about which it cannot be decided: facts are missing, or its expression fails there."""

    ALLOW = "allow"
    REJECT = "reject"


class UndecidedError(LeadsmanError):
    """A rule cannot be decided on a node; the message says why, without numbers that change."""


class NodeTest(Protocol):
    """What a rule asks about a node. Two tests that are equal ask the same."""

    @property
    def reads(self) -> frozenset[str]:
        """All that its answer depends on.

        Names of facts (`cpu.idle`), `labels` (every label; `name` and such are fixed), and `storage`.
        """
        ...

    def evaluate(self, node: NodeFacts) -> float:
        """0 to 1; a plain yes or no is 1 or 0.

        Raises:
            UndecidedError: it cannot be told.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, for the pods that `pods` selects.

    Exactly one of `require` and `prefer` is set. A node where `require` is not met is rejected; `resolvable` says that
    evicting pods from it could help. `prefer` is a component of the score with `weight`. With `enforce` false the rule
    is computed and recorded only. `on_error` decides where the test cannot: for `prefer`, `allow` counts as
    neutral-low and `reject` as 0.
    """

    name: str
    pods: PodSelector = field(default_factory=PodSelector)
    require: NodeTest | None = None
    prefer: NodeTest | None = None
    weight: float = 1.0
    on_error: OnError = OnError.ALLOW
    enforce: bool = True
    resolvable: bool = False

    @property
    def test(self) -> NodeTest:
        """Whichever of the two it has."""
        test = self.require or self.prefer
        if test is None:
            raise TypeError(f"rule {self.name} asks nothing")
        return test


class Component(StrEnum):
    """What a score is made of, beside the rules that prefer; `docs/scoring.md` has the curves."""

    STORAGE_LATENCY = "storageLatency"
    IO_PRESSURE = "ioPressure"
    CAPACITY = "capacity"
    CPU = "cpu"
    MEMORY = "memory"
    GPU = "gpu"
    NEARNESS = "nearness"


DEFAULT_WEIGHTS: Mapping[Component, float] = {
    Component.STORAGE_LATENCY: 3.0,
    Component.IO_PRESSURE: 2.0,
    Component.CAPACITY: 1.0,
    Component.CPU: 1.0,
    Component.MEMORY: 1.0,
    Component.GPU: 0.0,
    Component.NEARNESS: 2.0,
}


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """The whole policy. `fingerprint` tells its versions apart and is the same on every replica that read the same."""

    mode: Mode = Mode.ENFORCE
    storage: StoragePolicy = field(default_factory=StoragePolicy)
    backend_attributes: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    weights: Mapping[Component, float] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    fingerprint: str = "built-in"

    @property
    def requiring(self) -> tuple[Rule, ...]:
        """The rules that the filter keeps, in document order."""
        return tuple(rule for rule in self.rules if rule.require is not None)

    @property
    def preferring(self) -> tuple[Rule, ...]:
        """The rules that the scorer keeps, in document order."""
        return tuple(rule for rule in self.rules if rule.prefer is not None)


def selectors_of(rules: tuple[Rule, ...]) -> SelectorSet:
    """The selectors of `rules`, in their order."""
    return SelectorSet([rule.pods for rule in rules])
