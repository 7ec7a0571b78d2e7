"""Whatever happens in whatever order, rules and answers equal what reports and ages say from scratch."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.filtering import filter_answer, generation
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.node_facts import FactValue, node_facts
from leadsman.domain.policy import OnError, Rule, SchedulingPolicy, UndecidedError
from leadsman.domain.reasons import Reason
from leadsman.domain.rejections import storage_answer
from leadsman.domain.report import NodeReport, StorageStatus, node_of
from leadsman.domain.requirements import Question
from leadsman.domain.rule_index import RuleIndex
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import FilterAnswer, Rejection
from leadsman.testing.reports import status, storage_key
from leadsman.testing.rules import FactAbove, LabelIs, StorageHealthy, facts_report

STORAGE = StoragePolicy(
    DriverPolicy(stale_after_s=3, hold_unhealthy_s=9),
    {"smb": DriverPolicy(Treatment.REJECT, Treatment.REJECT, stale_after_s=5, hold_unhealthy_s=2)},
    bus_frozen_max_age_s=6,
)
NODES = ["n1", "n2", "n3", "never"]
REPORTERS = st.tuples(st.sampled_from(NODES[:3]), st.sampled_from(["", "", "", "nfs"]))
STATUSES = st.builds(status, st.sampled_from(["nfs", "smb"]), st.sampled_from(list(State)))
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
FACTS: st.SearchStrategy[dict[str, FactValue]] = st.dictionaries(
    st.sampled_from(["cpu.idle", "load.1m"]), st.sampled_from([0.0, 1.0, 2.0]), max_size=2
)
TESTS = st.one_of(
    st.builds(LabelIs, st.sampled_from("ab"), st.just("x")),
    st.builds(FactAbove, st.sampled_from(["cpu.idle", "load.1m"]), st.sampled_from([0.5, 1.5])),
    st.builds(FactAbove, st.just("cpu.idle"), st.just(0.5), watches=st.sampled_from(["facts", "unheard.of"])),
    st.builds(StorageHealthy),
)
RULES = st.lists(
    st.builds(
        Rule,
        st.just(""),
        require=TESTS,
        on_error=st.sampled_from(OnError),
        enforce=st.sampled_from([True, True, False]),
        resolvable=st.booleans(),
    ),
    min_size=1,
    max_size=4,
).map(lambda rules: tuple(replace(one, name=f"r{number}") for number, one in enumerate(rules)))

Verdicts = dict[str, Rejection | None]


class Policy:
    """One policy's index, and what its answers rested on when it was looked at last."""

    def __init__(self, rules: tuple[Rule, ...], facts: FactIndex, changes: ChangeCounter) -> None:
        self.rules = rules
        self.index = RuleIndex(rules, facts, changes)
        self.filling = self.index.fill()
        self.scheduling = SchedulingPolicy(storage=STORAGE, rules=rules)
        everything = tuple(range(len(rules)))
        self.questions = [
            Question(needs, asked)
            for needs in ((), (storage_key("nfs"),), (storage_key("smb"),))
            for asked in ((), (0,), everything)
        ]
        self.seen: dict[Question, tuple[int, object, FilterAnswer]] = {}
        self.rejected: dict[int, set[str]] = {}


class RulesAgainstRecomputation(RuleBasedStateMachine):
    """Whatever happens in whatever order, rules and answers equal what reports and ages say from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = ChangeCounter()
        self.health = HealthIndex(STORAGE, self.changes)
        self.facts = FactIndex(STORAGE)
        self.reports: dict[str, NodeReport] = {}
        self.ages: dict[str, float] = {}
        self.now = 0
        self.frozen_for: int | None = None
        self.coming: Policy | None = None

    @initialize(rules=RULES)
    def first_policy(self, rules: tuple[Rule, ...]) -> None:
        self.policy = Policy(rules, self.facts, self.changes)
        list(self.policy.filling)

    @rule(
        reporter=REPORTERS, labels=LABELS, facts=FACTS, storages=st.lists(STATUSES, max_size=2), age=st.integers(0, 12)
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

    @rule(reporter=REPORTERS, facts=FACTS, age=st.integers(0, 12))
    def facts_alone_change(self, reporter: tuple[str, str], facts: dict[str, FactValue], age: int) -> None:
        before = self.reports.get(facts_report(reporter[0], scope=reporter[1]).reporter)
        if before is not None:
            self.take(replace(before, labels=dict(before.labels), facts=facts), age)

    def take(self, report: NodeReport, age: int) -> None:
        self.reports[report.reporter] = report
        self.ages[report.reporter] = age
        self.health.apply(report, age, self.now)
        self.facts.apply(report, age, self.now)

    @rule(seconds=st.integers(1, 4))
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

    @rule(reporter=REPORTERS)
    def forget(self, reporter: tuple[str, str]) -> None:
        name = facts_report(reporter[0], scope=reporter[1]).reporter
        self.reports.pop(name, None)
        self.ages.pop(name, None)
        self.health.forget(name)
        self.facts.forget(name)

    @rule(rules=RULES)
    def a_new_policy_begins_to_fill(self, rules: tuple[Rule, ...]) -> None:
        if self.coming is not None:
            self.coming.index.close()
        self.coming = Policy(rules, self.facts, self.changes)

    @rule(steps=st.integers(1, 3))
    def it_fills(self, steps: int) -> None:
        for _ in range(steps):
            if self.coming is not None and next(self.coming.filling, None) is None:
                self.policy.index.close()
                self.policy, self.coming = self.coming, None

    def outcome(self, one: Rule, node: str) -> float | None:
        """By the rules word for word."""
        age = self.ages.get(node, float("inf"))
        blind = self.frozen_for is not None and self.frozen_for >= STORAGE.bus_frozen_max_age_s
        if blind or age >= 3 + 9:
            return None
        try:
            value = one.test.evaluate(node_facts(node, [r for r in self.reports.values() if r.node == node]))
        except UndecidedError:
            return None
        return value if age < 3 or value == 0 else None

    def rejection(self, one: Rule, node: str) -> Rejection | None:
        outcome = self.outcome(one, node)
        if outcome == 0:
            return Rejection(Reason.RULE_NOT_MET, one.name, one.resolvable)
        if outcome is None and one.on_error is OnError.REJECT:
            return Rejection(Reason.RULE_UNDECIDED, one.name, one.resolvable)
        return None

    @property
    def known(self) -> set[str]:
        return {node_of(name) for name in self.reports}

    @invariant()
    def outcomes_equal_recomputation(self) -> None:
        assert set(self.policy.index.outcomes) == self.known
        for policy in (self.policy, *([self.coming] if self.coming else [])):
            outcomes = policy.index.outcomes
            assert set(outcomes) <= self.known
            for number, one in enumerate(policy.rules):
                expected = {node: self.outcome(one, node) for node in outcomes}
                assert expected == {node: outcomes.outcome(number, node) for node in outcomes}
                undecided = [node for node, value in expected.items() if value is None]
                example = outcomes.example(number)
                assert (outcomes.undecided(number), example.node if example else None) == (
                    len(undecided),
                    undecided[0] if undecided else None,
                )
                failing = list(expected.values()).count(0)
                assert policy.index.counts(number) == (
                    len(expected) - failing - len(undecided),
                    failing,
                    len(undecided),
                )
                rejected = {node: self.rejection(one, node) for node in outcomes}
                assert policy.index.failing(number) == {node: why for node, why in rejected.items() if why}

    def verdicts(self, question: Question) -> tuple[Verdicts, Verdicts]:
        """For every node what is enforced and what is only watched."""
        storage = storage_answer(self.health, question.needs)
        rules = [self.policy.rules[number] for number in question.rules]
        ordered = [one for one in rules if not one.resolvable] + [one for one in rules if one.resolvable]
        enforced: Verdicts = {}
        watched: Verdicts = {}
        for node in NODES:
            words = [(one.enforce, self.rejection(one, node)) for one in ordered]
            enforced[node] = storage.verdict(node) or next((why for counts, why in words if counts and why), None)
            shadow = next((why for counts, why in words if not counts and why), None)
            watched[node] = None if enforced[node] else shadow
        return enforced, watched

    @invariant()
    def answers_equal_recomputation(self) -> None:
        for question in self.policy.questions:
            answer = filter_answer(self.health, self.policy.index, question, self.policy.scheduling)
            enforced, watched = self.verdicts(question)
            assert enforced == {node: answer.verdict(node) for node in NODES}
            assert (answer.shadow is None) == all(self.policy.rules[number].enforce for number in question.rules)
            assert watched == {node: answer.shadow.verdict(node) if answer.shadow else None for node in NODES}
            assert answer.allowed.isdisjoint(answer.rejected)

    def rests_on(self, question: Question) -> Iterator[object]:
        """All that the answer depends on: it may be made anew if any of this changes, and else must not be."""
        yield self.health.generation(question.needs)
        for number in question.rules:
            one = self.policy.rules[number]
            verdicts: Mapping[str, Rejection | None] = {node: self.rejection(one, node) for node in self.known}
            names_passing = one.on_error is OnError.REJECT
            yield {node: why for node, why in verdicts.items() if why or names_passing}

    @invariant()
    def a_generation_stands_for_one_answer(self) -> None:
        for question in self.policy.questions:
            answer = filter_answer(self.health, self.policy.index, question, self.policy.scheduling)
            now = generation(self.health, self.policy.index, question)
            rests_on = list(self.rests_on(question))
            before, rested_on, said = self.policy.seen.get(question, (0, None, None))
            assert now >= before
            if now == before:
                assert answer == said
            elif before:
                assert rests_on != rested_on
            self.policy.seen[question] = (now, rests_on, answer)

    @invariant()
    def a_rule_that_lets_a_node_in_is_told(self) -> None:
        recovered = self.policy.index.take_recovered()
        for number, one in enumerate(self.policy.rules):
            now = {node for node in NODES if self.rejection(one, node)}
            before = self.policy.rejected.get(number)
            if before is not None:
                assert (f"rule {one.name}" in recovered) == bool(one.enforce and before - now)
            self.policy.rejected[number] = now


TestRulesAgainstRecomputation = RulesAgainstRecomputation.TestCase
TestRulesAgainstRecomputation.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
