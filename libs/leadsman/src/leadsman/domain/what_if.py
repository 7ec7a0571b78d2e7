"""What would become of a pod: filter and scorer put together over reports at hand, for tools that try a policy. Pure.

The same code answers here as in the services, so what a tool shows is what they would do with the same reports.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.filtering import filter_answer
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.node_facts import Freshness
from leadsman.domain.policy import SchedulingPolicy, UndecidedError, selectors_of
from leadsman.domain.rejections import volume_rejections
from leadsman.domain.report import NodeReport, StorageKey
from leadsman.domain.requirements import NOWHERE, Near, Profile, Question, Requirement
from leadsman.domain.rule_index import RuleIndex
from leadsman.domain.score_board import ScoreBoard
from leadsman.domain.verdicts import UNKNOWN_VALUE, FilterAnswer, Rejection, ScoreAnswer

Heard = tuple[NodeReport, float]
"""A report, and how old it is in seconds."""


class Part(NamedTuple):
    """One component of a node's score: its name, its weight, and its value 0-1 (None: not known)."""

    name: str
    weight: float
    value: float | None


class NodeOutcome(NamedTuple):
    """What a pod would find at one node.

    `rejection` is what kube-scheduler is told. `shadow` is what it would be told if the policy's mode, or the rule,
    were enforced. `score` (0-10) is worked out for rejected nodes too; it is at most `cap`.
    """

    node: str
    rejection: Rejection | None
    shadow: Rejection | None
    score: int
    cap: int
    parts: tuple[Part, ...] = ()


class WhatIf:
    """All nodes as `reports` describe them, under `policy`; each reporter's newest report once.

    Nothing changes afterwards: make another one for another policy or another moment.
    """

    def __init__(self, reports: Iterable[Heard], policy: SchedulingPolicy) -> None:
        self.policy = policy
        changes = ChangeCounter()
        self.health = HealthIndex(policy.storage, changes)
        self.facts = FactIndex(policy.storage)
        self._fill(list(reports))
        self._rules = RuleIndex(policy.requiring, self.facts, changes)
        self._board = ScoreBoard(policy, self.health, self.facts, changes)
        for _ in (*self._rules.fill(), *self._board.fill()):
            pass
        self._requiring = selectors_of(policy.requiring)
        self._preferring = selectors_of(policy.preferring)

    @property
    def nodes(self) -> Sequence[str]:
        """The names of all nodes that have reported, sorted."""
        return sorted(self.facts)

    @property
    def open_breakers(self) -> frozenset[StorageKey]:
        """Storages that so many nodes have lost by weak evidence that it rejects nobody; see `domain.breaker`."""
        return self.health.open_breakers

    def answer(
        self, profile: Profile, requirements: Iterable[Requirement] = (), near: Near = NOWHERE
    ) -> tuple[FilterAnswer, ScoreAnswer]:
        """What filter and scorer would say of every node for a pod with `profile` that needs `requirements`."""
        wanted = list(requirements)
        needs = tuple(sorted({need.key for need in wanted}))
        question = Question(needs, self._requiring.matching(profile))
        verdicts = filter_answer(self.health, self._rules, question, self.policy)
        verdicts = verdicts._replace(volumes=volume_rejections(self.health, wanted))
        return verdicts, self._board.answer(Question(needs, self._preferring.matching(profile), near))

    def outcomes(
        self,
        profile: Profile,
        requirements: Iterable[Requirement] = (),
        near: Near = NOWHERE,
        *,
        unheard: Iterable[str] = (),
    ) -> dict[str, NodeOutcome]:
        """`answer` node by node, sorted by name; `unheard` are further nodes, for which nobody has reported."""
        verdicts, scores = self.answer(profile, requirements, near)
        positions = {node: position for position, node in enumerate(scores.nodes)}
        names = sorted({*self.facts, *unheard})
        return {node: _outcome(node, verdicts, scores, positions.get(node)) for node in names}

    def touching(self, profile: Profile) -> tuple[str, ...]:
        """Names of the rules that touch a pod with `profile`, in the order of the document."""
        return tuple(rule.name for rule in self.policy.rules if rule.pods.matches(profile))

    def scored(self, profile: Profile, requirements: Collection[Requirement] = (), near: Near = NOWHERE) -> bool:
        """Whether scores are asked for at all: the pod needs storage, is near something, or a rule prefers."""
        return bool(requirements) or near != NOWHERE or bool(self._preferring.matching(profile))

    def why_undecided(self, rule: str, node: str) -> str:
        """Why `rule` cannot be decided on `node`; empty if it can be, or if either is not known."""
        facts = self.facts.get(node)
        test = next((one.test for one in self.policy.rules if one.name == rule), None)
        if facts is None or test is None:
            return ""
        if not facts.reported:
            return "the node's agent has not reported"
        try:
            test.evaluate(facts)
        except UndecidedError as error:
            return str(error)
        return "" if self.facts.freshness(node) is Freshness.CURRENT else "the node's facts are too old"

    def _fill(self, reports: Sequence[Heard]) -> None:
        ages = {report.reporter: age_s for report, age_s in reports}
        self.health.complete = False
        for report, age_s in reports:
            self.health.apply(report, age_s, 0)
            self.facts.apply(report, age_s, 0)
        # Breakers judge shares of all nodes, so not before all have been heard.
        self.health.complete = True
        self.health.tick(0, ages.get)
        self.facts.tick(0, ages.get)


def _outcome(node: str, verdicts: FilterAnswer, scores: ScoreAnswer, position: int | None) -> NodeOutcome:
    rejection = verdicts.verdict(node)
    shadow = verdicts.shadow.verdict(node) if verdicts.shadow and rejection is None else None
    if verdicts.dry_run and rejection is not None:
        rejection, shadow = None, rejection
    if position is None:
        return NodeOutcome(node, rejection, shadow, scores.default, scores.default)
    return NodeOutcome(
        node, rejection, shadow, scores.scores[position], scores.caps[position], tuple(_parts(scores, position))
    )


def _parts(scores: ScoreAnswer, position: int) -> Iterator[Part]:
    for column in scores.columns:
        value = column.values[position]
        yield Part(column.name, column.weight, None if value == UNKNOWN_VALUE else value / 100)
