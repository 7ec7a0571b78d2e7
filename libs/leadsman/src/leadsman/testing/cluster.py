"""Health, facts and scores of a small cluster, fed side by side as a scorer's cache feeds them."""

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.node_facts import REGION, ZONE
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.report import NodeReport, StorageStatus
from leadsman.domain.requirements import Question
from leadsman.domain.score_board import ScoreBoard
from leadsman.domain.states import State
from leadsman.testing.reports import status

PLAIN = Question(())
"""What a pod asks that needs no storage, is near to nothing and touched by no rule."""

BUILT_IN = SchedulingPolicy()
"""The policy without a document."""


class Cluster:
    """A cluster and the score board of one policy. Time stands still but for `pass_time`."""

    def __init__(self, policy: SchedulingPolicy = BUILT_IN) -> None:
        self.changes = ChangeCounter()
        self.health = HealthIndex(policy.storage, self.changes)
        self.facts = FactIndex(policy.storage)
        self.board = ScoreBoard(policy, self.health, self.facts, self.changes)
        self.ages: dict[str, float] = {}
        self.now = 0.0

    def take(self, *reports: NodeReport) -> None:
        """Take in reports that are as new as can be."""
        for report in reports:
            self.ages[report.reporter] = 0
            self.health.apply(report, 0, self.now)
            self.facts.apply(report, 0, self.now)

    def forget(self, node: str) -> None:
        """Drop what the agent of `node` said."""
        del self.ages[node]
        self.health.forget(node)
        self.facts.forget(node)

    def pass_time(self, seconds: float, frozen_for: float | None = None) -> None:
        """Let `seconds` pass; `frozen_for` is how long the bus has been out of reach, None while it works."""
        self.now += seconds
        if frozen_for is None:
            self.ages = {reporter: age + seconds for reporter, age in self.ages.items()}
        self.health.tick(self.now, self.ages.get, frozen_for)
        self.facts.tick(self.now, self.ages.get, frozen_for)

    def scores(self, question: Question = PLAIN) -> dict[str, int]:
        """The scores in force by node."""
        answer = self.board.answer(question)
        return dict(zip(answer.nodes, answer.scores, strict=True))

    def committed(self, question: Question = PLAIN) -> dict[str, int]:
        """The scores by node once all facts are in force."""
        self.board.commit()
        return self.scores(question)

    def columns(self, question: Question = PLAIN) -> dict[str, list[int]]:
        """Hundredths by component, in the order of the nodes."""
        return {column.name: list(column.values) for column in self.board.answer(question).columns}


def storage(
    text: str = "nfs/a", state: State = State.HEALTHY, latency_s: float | None = None, used: float | None = None
) -> StorageStatus:
    """`text` (`driver` or `driver/backend`) in `state`, with the numbers that scores look at."""
    return status(text, state)._replace(latency_s=latency_s, used=used)


def placed(zone: str = "", region: str = "") -> dict[str, str]:
    """The labels of a node in `zone` and `region`."""
    return {key: value for key, value in ((ZONE, zone), (REGION, region)) if value}
