"""The filter's side of the cluster and the policy: which nodes each rule and each storage keeps pods off."""

from collections.abc import Iterator

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.filtering import filter_answer, generation
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.pod_selectors import SelectorSet
from leadsman.domain.policy import SchedulingPolicy, selectors_of
from leadsman.domain.rejections import volume_rejections
from leadsman.domain.requirements import Question
from leadsman.domain.rule_index import RuleIndex
from leadsman.runtime.hop.answers import Volumes
from leadsman.v1.filter_pb2 import FilterResponse
from leadsman.wire.hop import encode_filter_answer, pack_rejections


class FilterView:
    """Kept in step with the cluster; see `leadsman.runtime.hop.view.View`."""

    def __init__(self, index: HealthIndex, facts: FactIndex, changes: ChangeCounter, policy: SchedulingPolicy) -> None:
        self.policy = policy
        self.rules = RuleIndex(policy.requiring, facts, changes)
        self._index = index
        self._selectors = selectors_of(policy.requiring)

    @property
    def selectors(self) -> SelectorSet:
        """Of the rules that require."""
        return self._selectors

    def fill(self) -> Iterator[object]:
        """Evaluate every rule on every node."""
        return self.rules.fill()

    def simplified(self, question: Question) -> Question:
        """All of it matters."""
        return question

    def render(self, question: Question) -> bytes:
        """The encoded verdicts, without those about single volumes."""
        return encode_filter_answer(filter_answer(self._index, self.rules, question, self.policy)).SerializeToString()

    def generation(self, question: Question) -> int:
        """When the verdicts may have changed last."""
        return generation(self._index, self.rules, question)

    def close(self) -> None:
        """Follow the cluster no more."""
        self.rules.close()


def render_volumes(index: HealthIndex, volumes: Volumes) -> bytes:
    """The encoded addition to the answer for pods that need `volumes`."""
    rejected = volume_rejections(index, volumes)
    return FilterResponse(volumes=pack_rejections(rejected)).SerializeToString() if rejected else b""
