"""What filters and scorers would say about a pod now, and what another policy would change about it."""

from collections.abc import Sequence

import msgspec

from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.requirements import NOWHERE, Near, Profile, Requirement
from leadsman.domain.what_if import Heard, NodeOutcome, WhatIf
from leadsman_cli.outcome_words import rejection_words, undecided_words

ALLOWED = "allowed"
REJECTED = "rejected"


class NeedView(msgspec.Struct, frozen=True):
    """One volume's need, as the gateway works it out."""

    driver: str
    backend: str
    volume: str


class PolicyView(msgspec.Struct, frozen=True):
    """A policy. `source` is the replica that named it, the file, or `built-in`; `rules` are those that touch the pod.

    `scored` is whether scores are asked for about such a pod under it.
    """

    fingerprint: str
    source: str
    mode: str
    rules: list[str]
    open_breakers: list[str]
    scored: bool


class ComponentView(msgspec.Struct, frozen=True):
    """A component of a score: `value` is 0-1, None where it is not known."""

    name: str
    weight: float
    value: float | None


class OutcomeView(msgspec.Struct, frozen=True):
    """What becomes of the pod at a node under one policy.

    `reason` (a code), `subject` (driver or rule) and `text` (for kube-scheduler) are empty where it may go. `shadow`
    says in words what is not enforced, `why` why a rule could not be decided.
    """

    verdict: str
    reason: str
    subject: str
    text: str
    why: str
    shadow: str
    score: int
    cap: int
    components: list[ComponentView]


class NodeView(msgspec.Struct, frozen=True):
    """One node: `now` under the policy in force, and `then` under the other one, if there is one."""

    node: str
    report_age_s: float | None
    now: OutcomeView
    then: OutcomeView | None = None

    @property
    def last(self) -> OutcomeView:
        """The outcome under the policy that the question is about."""
        return self.then or self.now

    @property
    def changes(self) -> bool:
        """Whether the other policy would do something else here: verdict, reason, shadow or score."""
        if self.then is None:
            return False
        before, after = self.now, self.then
        return (before.reason, before.subject, before.shadow, before.score) != (
            after.reason,
            after.subject,
            after.shadow,
            after.score,
        )


class Simulation(msgspec.Struct, frozen=True):
    """The whole answer; `nodes` begin with the best for the pod. `near` are the zones and regions of its data."""

    pod: str
    nats: str
    needs: list[NeedView]
    unresolved: list[str]
    near: list[str]
    policy: PolicyView
    proposed: PolicyView | None
    nodes: list[NodeView]

    @property
    def fits(self) -> bool:
        """Whether some node may take the pod."""
        return any(node.last.verdict == ALLOWED for node in self.nodes)

    @property
    def last(self) -> PolicyView:
        """The policy that the question is about."""
        return self.proposed or self.policy


class Question(msgspec.Struct, frozen=True):
    """What is asked: a pod as far as policy and storage are concerned."""

    pod: str
    profile: Profile
    near: Near = NOWHERE
    unresolved: tuple[str, ...] = ()


class Candidate(msgspec.Struct, frozen=True):
    """A policy to ask, where it comes from, and what the pod needs by the names that it gives to backends."""

    policy: SchedulingPolicy
    source: str
    needs: tuple[Requirement, ...] = ()


def simulate(
    question: Question, nats: str, reports: Sequence[Heard], in_force: Candidate, proposed: Candidate | None = None
) -> Simulation:
    """Ask every node that has reported."""
    now = _asked(question, reports, in_force)
    then = _asked(question, reports, proposed) if proposed else None
    ages = {report.node: round(age_s, 1) for report, age_s in reports if not report.scope}
    nodes = [NodeView(node, ages.get(node), one, then[1][node] if then else None) for node, one in now[1].items()]
    nodes.sort(key=lambda one: (one.last.verdict != ALLOWED, -one.last.score, one.node))
    return Simulation(
        question.pod,
        nats,
        [NeedView(need.driver, need.backend, need.volume) for need in (proposed or in_force).needs],
        list(question.unresolved),
        [*question.near.zones, *question.near.regions],
        now[0],
        then[0] if then else None,
        nodes,
    )


def _asked(
    question: Question, reports: Sequence[Heard], candidate: Candidate
) -> tuple[PolicyView, dict[str, OutcomeView]]:
    what_if = WhatIf(reports, candidate.policy)
    policy = PolicyView(
        candidate.policy.fingerprint,
        candidate.source,
        candidate.policy.mode.value,
        list(what_if.touching(question.profile)),
        [str(key) for key in sorted(what_if.open_breakers)],
        what_if.scored(question.profile, candidate.needs, question.near),
    )
    outcomes = what_if.outcomes(question.profile, candidate.needs, question.near)
    return policy, {node: _view(what_if, outcome) for node, outcome in outcomes.items()}


def _view(what_if: WhatIf, outcome: NodeOutcome) -> OutcomeView:
    rejection, shadow = outcome.rejection, outcome.shadow
    either = rejection or shadow
    return OutcomeView(
        REJECTED if rejection else ALLOWED,
        rejection.reason.value if rejection else "",
        rejection.subject if rejection else "",
        rejection.text if rejection else "",
        undecided_words(what_if, outcome.node, either) if either else "",
        rejection_words(shadow) if shadow else "",
        outcome.score,
        outcome.cap,
        [ComponentView(*part) for part in outcome.parts],
    )
