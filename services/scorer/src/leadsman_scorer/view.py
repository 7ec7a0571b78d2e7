"""The scorer's side of the cluster and the policy: how well each node suits each kind of pod."""

from collections.abc import Iterator

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.pod_selectors import SelectorSet
from leadsman.domain.policy import SchedulingPolicy, selectors_of
from leadsman.domain.requirements import Question
from leadsman.domain.rule_outcomes import RuleOutcomes
from leadsman.domain.score_board import ScoreBoard
from leadsman.wire.hop import encode_score_answer


class ScorerView:
    """Kept in step with the cluster; see `leadsman.runtime.hop.view.View`."""

    def __init__(self, index: HealthIndex, facts: FactIndex, changes: ChangeCounter, policy: SchedulingPolicy) -> None:
        self.board = ScoreBoard(policy, index, facts, changes)
        self._selectors = selectors_of(policy.preferring)

    @property
    def outcomes(self) -> RuleOutcomes:
        """Of the rules that prefer."""
        return self.board.outcomes

    @property
    def selectors(self) -> SelectorSet:
        """Of the rules that prefer."""
        return self._selectors

    def fill(self) -> Iterator[object]:
        """Evaluate every rule on every node."""
        return self.board.fill()

    def simplified(self, question: Question) -> Question:
        """See `ScoreBoard.simplified`."""
        return self.board.simplified(question)

    def render(self, question: Question) -> bytes:
        """The encoded scores."""
        return encode_score_answer(self.board.answer(question)).SerializeToString()

    def generation(self, question: Question) -> int:
        """When the scores may have changed last."""
        return self.board.generation(question)

    def close(self) -> None:
        """Follow the cluster no more."""
        self.board.close()
