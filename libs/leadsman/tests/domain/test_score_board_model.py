"""Whatever happens in whatever order, the kept tables equal tables that are made from scratch."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.node_facts import REGION, ZONE, FactValue
from leadsman.domain.policy import DEFAULT_WEIGHTS, Component, OnError, Rule, SchedulingPolicy
from leadsman.domain.report import NodeReport, StorageStatus
from leadsman.domain.requirements import Near, Question
from leadsman.domain.score_board import ScoreBoard
from leadsman.domain.states import State
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import ScoreAnswer
from leadsman.testing.reports import status, storage_key
from leadsman.testing.rules import FactAbove, LabelIs, StorageHealthy, facts_report

STORAGE = StoragePolicy(
    DriverPolicy(stale_after_s=3, hold_unhealthy_s=9),
    {"smb": DriverPolicy(Treatment.REJECT, Treatment.REJECT, stale_after_s=5, hold_unhealthy_s=2)},
    bus_frozen_max_age_s=6,
    breaker=BreakerPolicy(0.5, 2),
)
OTHER_STORAGE = StoragePolicy(DriverPolicy(Treatment.PENALIZE, stale_after_s=2, hold_unhealthy_s=3))
RULES = (
    Rule("idle", prefer=FactAbove("cpu.idle", 0.5), on_error=OnError.REJECT),
    Rule("zone", prefer=LabelIs(ZONE, "a"), weight=2),
    Rule("healthy", prefer=StorageHealthy(), enforce=False),
)
POLICY = SchedulingPolicy(storage=STORAGE, rules=RULES, weights={**DEFAULT_WEIGHTS, Component.GPU: 1.0})
NODES = ["n1", "n2", "n3", "n4"]
REPORTERS = st.tuples(st.sampled_from(NODES), st.sampled_from(["", "", "", "nfs"]))
STATUSES = st.builds(
    lambda one, latency, used: one._replace(latency_s=latency, used=used),
    st.builds(status, st.sampled_from(["nfs", "nfs/a", "smb", "smb/b"]), st.sampled_from(list(State))),
    st.sampled_from([None, 0.001, 0.05, 0.5]),
    st.sampled_from([None, 0.5, 0.8]),
)
LABELS = st.sampled_from([{}, {ZONE: "a", REGION: "eu"}, {ZONE: "a", REGION: "us"}, {ZONE: "b", REGION: "eu"}])
FACTS: st.SearchStrategy[dict[str, FactValue]] = st.dictionaries(
    st.sampled_from(["cpu.idle", "memory.availableShare", "gpu.responding"]), st.sampled_from([0.0, 0.2, 1.0])
)
QUESTIONS = [
    Question(()),
    Question((), (0, 2), Near(("a",))),
    Question((storage_key("nfs/a"),), (1,)),
    Question((storage_key("nfs/b"), storage_key("smb")), (0, 1, 2), Near(("b",), ("us",))),
]


class BoardAgainstScratch(RuleBasedStateMachine):
    """Whatever happens in whatever order, the kept tables equal tables that are made from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = ChangeCounter()
        self.health = HealthIndex(STORAGE, self.changes)
        self.facts = FactIndex(STORAGE)
        self.policy = POLICY
        self.board = ScoreBoard(POLICY, self.health, self.facts, self.changes)
        self.reports: dict[str, NodeReport] = {}
        self.ages: dict[str, float] = {}
        self.now = 0
        self.frozen_for: int | None = None
        self.answers: dict[tuple[Question, int], ScoreAnswer] = {}
        self.latest: dict[Question, int] = {}

    @rule(
        reporter=REPORTERS, labels=LABELS, facts=FACTS, storages=st.lists(STATUSES, max_size=3), age=st.integers(0, 12)
    )
    def report(
        self,
        reporter: tuple[str, str],
        labels: dict[str, str],
        facts: dict[str, FactValue],
        storages: list[StorageStatus],
        age: int,
    ) -> None:
        node, scope = reporter
        self.take(facts_report(node, labels=labels, facts=facts, storages=storages, scope=scope), age)

    @rule(reporter=REPORTERS, age=st.integers(0, 12))
    def same_report_again(self, reporter: tuple[str, str], age: int) -> None:
        before = self.reports.get(facts_report(reporter[0], scope=reporter[1]).reporter)
        if before is not None:
            self.take(before, age)

    def take(self, report: NodeReport, age: int) -> None:
        self.reports[report.reporter] = report
        self.ages[report.reporter] = age
        self.health.apply(report, age, self.now)
        self.facts.apply(report, age, self.now)

    @rule(reporter=REPORTERS)
    def forget(self, reporter: tuple[str, str]) -> None:
        name = facts_report(reporter[0], scope=reporter[1]).reporter
        self.reports.pop(name, None)
        self.ages.pop(name, None)
        self.health.forget(name)
        self.facts.forget(name)

    @rule(seconds=st.integers(1, 12))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        if self.frozen_for is None:
            self.ages = {reporter: age + seconds for reporter, age in self.ages.items()}
        else:
            self.frozen_for += seconds
        self.tick()

    @rule()
    def bus_is_lost_or_back(self) -> None:
        self.frozen_for = 0 if self.frozen_for is None else None
        self.tick()

    def tick(self) -> None:
        self.health.tick(self.now, self.ages.get, self.frozen_for)
        self.facts.tick(self.now, self.ages.get, self.frozen_for)

    @rule(number=st.integers(0, len(QUESTIONS) - 1))
    def a_pod_asks(self, number: int) -> None:
        """Before the next commit: what is asked for then must not be the last word."""
        self.look(QUESTIONS[number])

    @rule(storage=st.sampled_from([STORAGE, OTHER_STORAGE]))
    def another_policy(self, storage: StoragePolicy) -> None:
        self.policy = SchedulingPolicy(storage=storage, rules=RULES, weights=POLICY.weights)
        coming = self.filled()
        self.health.adopt(storage, self.now, self.ages.get)
        self.facts.adopt(storage, self.now, self.ages.get)
        self.board.close()
        self.board = coming
        self.changes.next()

    def filled(self) -> ScoreBoard:
        board = ScoreBoard(self.policy, self.health, self.facts, self.changes)
        list(board.fill())
        return board

    def look(self, question: Question) -> ScoreAnswer:
        """One generation stands for one content, and generations never go back."""
        generation, answer = self.board.generation(question), self.board.answer(question)
        assert self.latest.get(question, 0) <= generation <= self.changes.value
        assert self.answers.setdefault((question, generation), answer) == answer
        self.latest[question] = generation
        return answer

    @invariant()
    def equals_scratch(self) -> None:
        self.board.commit()
        scratch = self.filled()
        for question in QUESTIONS:
            assert scratch.answer(question) == self.look(question)
        scratch.close()


class BoardWithRareCommits(BoardAgainstScratch):
    """The same with commits that come now and then."""

    @invariant()
    def equals_scratch(self) -> None:
        """Only when it has committed."""

    @rule()
    def commit(self) -> None:
        super().equals_scratch()


TestBoardAgainstScratch = BoardAgainstScratch.TestCase
TestBoardAgainstScratch.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestBoardWithRareCommits = BoardWithRareCommits.TestCase
TestBoardWithRareCommits.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
