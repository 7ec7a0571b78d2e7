"""Rules on nodes: run again only where they may say something else, and worth as much as the facts behind them."""

import itertools
from collections.abc import Callable

import pytest

from leadsman.domain.fact_index import FactIndex
from leadsman.domain.policy import NodeTest, Rule
from leadsman.domain.rule_outcomes import Example, RuleOutcomes
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy
from leadsman.testing.reports import status
from leadsman.testing.rules import FactAbove, LabelIs, StorageHealthy, facts_report

POLICY = StoragePolicy(DriverPolicy(stale_after_s=30, hold_unhealthy_s=300), bus_frozen_max_age_s=900)

Move = tuple[int, str, float | None, float | None]


class Moves:
    """All that the listener was told."""

    def __init__(self) -> None:
        self.heard: list[Move] = []

    def moved(self, number: int, node: str, old: float | None, new: float | None) -> None:
        self.heard.append((number, node, old, new))

    def take(self) -> list[Move]:
        taken, self.heard = self.heard, []
        return taken


@pytest.fixture
def facts() -> FactIndex:
    return FactIndex(POLICY)


@pytest.fixture
def moves() -> Moves:
    return Moves()


@pytest.fixture
def outcomes_of(facts: FactIndex, moves: Moves) -> Callable[..., RuleOutcomes]:
    """Outcomes of rules that require these tests, in their order."""

    def make(*tests: NodeTest) -> RuleOutcomes:
        return RuleOutcomes(tuple(Rule(f"r{n}", require=test) for n, test in enumerate(tests)), facts, moves)

    return make


Make = Callable[..., RuleOutcomes]


def test_heartbeats_with_the_same_labels_run_no_label_rule(facts: FactIndex, outcomes_of: Make) -> None:
    """Facts change with every heartbeat and labels hardly ever: equal labels are no change."""
    gpu = LabelIs("node-type", "gpu")
    outcomes = outcomes_of(gpu)
    for beat in range(5):
        facts.apply(facts_report("n1", labels={"node-type": "gpu"}, facts={"cpu.idle": beat / 10}), 0, beat)
    assert gpu.ran_on == ["n1"]
    assert outcomes.evaluations == 1

    facts.apply(facts_report("n1", labels={"node-type": "cpu"}, facts={"cpu.idle": 0.9}), 0, 6)
    assert (gpu.ran_on, outcomes.outcome(0, "n1")) == (["n1", "n1"], 0)


def test_a_rule_runs_when_what_it_reads_has_changed_and_else_not(facts: FactIndex, outcomes_of: Make) -> None:
    """One fact, all facts, storages, labels; zone and region are labels, and the name of a node is what it is."""
    names = ("cpu.idle", "gpu.count", "facts", "storage", "labels", "zone", "region", "name")
    tests = {name: FactAbove("cpu.idle", 0.5, watches=name) for name in names}
    outcomes_of(*tests.values())

    def runs(**said: object) -> set[str]:
        for test in tests.values():
            test.ran_on.clear()
        facts.apply(facts_report("n1", **said), 0, 0)  # type: ignore[arg-type]
        return {name for name, test in tests.items() if test.ran_on}

    healthy, slow = [status("nfs", State.HEALTHY)], [status("nfs", State.DEGRADED)]
    assert runs(storages=healthy, facts={"cpu.idle": 0.1}) == set(names)
    assert runs(storages=healthy, facts={"cpu.idle": 0.2}) == {"cpu.idle", "facts"}
    assert runs(storages=healthy, facts={"cpu.idle": 0.2, "gpu.count": 1}) == {"gpu.count", "facts"}
    assert runs(storages=healthy, facts={"gpu.count": 1}) == {"cpu.idle", "facts"}
    assert runs(storages=slow, facts={"gpu.count": 1}) == {"storage"}
    assert runs(storages=slow, facts={"gpu.count": 1}, labels={"a": "b"}) == {"labels", "zone", "region"}
    assert runs(storages=slow, facts={"gpu.count": 1}, labels={"a": "b"}) == set()


def test_a_rule_that_reads_something_unheard_of_runs_at_every_change(facts: FactIndex, outcomes_of: Make) -> None:
    """A test that knows more than this module must not go stale by it."""
    odd = FactAbove("cpu.idle", 0.5, watches="phase.ofTheMoon")
    outcomes_of(odd)
    for beat in range(3):
        facts.apply(facts_report("n1", facts={"load.1m": beat}), 0, 0)
    assert odd.ran_on == ["n1"] * 3
    facts.tick(30, lambda _: 30.0)
    assert odd.ran_on == ["n1"] * 3


def test_rules_with_equal_tests_run_once_for_all(facts: FactIndex, outcomes_of: Make, moves: Moves) -> None:
    """Ten teams that ask the same pay once, and each hears of it."""
    first, second = LabelIs("a", "b"), LabelIs("a", "b")
    outcomes = outcomes_of(first, FactAbove("cpu.idle", 0.5), second)
    facts.apply(facts_report("n1", labels={"a": "b"}, facts={"cpu.idle": 0.1}), 0, 0)
    assert (len(first.ran_on) + len(second.ran_on), outcomes.evaluations) == (1, 2)
    assert moves.take() == [(0, "n1", None, 1), (1, "n1", None, 0), (2, "n1", None, 1)]
    facts.apply(facts_report("n1", facts={"cpu.idle": 0.1}), 0, 1)
    assert moves.take() == [(0, "n1", 1, 0), (2, "n1", 1, 0)]


@pytest.mark.parametrize(
    ("kind", "result", "current", "held"),
    [("require", 1, 1, None), ("require", 0, 0, 0), ("prefer", 1, 1, None), ("prefer", 0, 0, None)],
)
def test_an_outcome_is_worth_what_its_facts_are(
    facts: FactIndex, moves: Moves, kind: str, result: float, current: float, held: float | None
) -> None:
    """While facts are held only a `require` that fails counts, later nothing does; ageing itself runs no rule."""
    test = FactAbove("cpu.idle", 0.5)
    outcomes = RuleOutcomes((Rule("r", **{kind: test}),), facts, moves)  # type: ignore[arg-type]
    facts.apply(facts_report("n1", facts={"cpu.idle": result}), 0, 0)
    seen = []
    for now in (29, 30, 330):
        facts.tick(now, lambda _, now=now: now)  # type: ignore[misc]
        seen.append(outcomes.outcome(0, "n1"))
    assert seen == [current, held, None]

    facts.apply(facts_report("n1", facts={"cpu.idle": result}), 0, 340)
    assert outcomes.outcome(0, "n1") == current
    facts.tick(1240, lambda _: 1.0, frozen_for_s=900)
    assert outcomes.outcome(0, "n1") is None
    facts.tick(1241, lambda _: 1.0)
    assert outcomes.outcome(0, "n1") == current
    assert test.ran_on == ["n1"]
    told = [None, current, *([] if held == current else [held]), None, current, None, current]
    assert moves.take() == [(0, "n1", old, new) for old, new in itertools.pairwise(told) if old != new]


def test_what_a_sidecar_changes_while_the_agent_is_silent_counts_only_if_it_is_bad(
    facts: FactIndex, outcomes_of: Make
) -> None:
    """The freshness of a node is its agent's; a rule about storage runs all the same."""
    outcomes = outcomes_of(StorageHealthy())
    facts.apply(facts_report("n1"), 0, 0)
    facts.tick(30, lambda _: 30.0)
    seen = []
    for state in (State.HEALTHY, State.UNHEALTHY, State.HEALTHY):
        facts.apply(facts_report("n1", scope="nfs", storages=[status("nfs", state)]), 0, 31)
        seen.append(outcomes.outcome(0, "n1"))
    assert seen == [None, 0, None]


def test_labels_count_from_the_agents_first_word_even_if_there_are_none(facts: FactIndex, outcomes_of: Make) -> None:
    """No labels, because only a sidecar has spoken, are not the same as no labels."""
    outcomes = outcomes_of(LabelIs("a", "b"))
    facts.apply(facts_report("n1", scope="nfs"), 0, 0)
    assert outcomes.outcome(0, "n1") is None
    facts.apply(facts_report("n1"), 0, 0)
    assert outcomes.outcome(0, "n1") == 0
    facts.forget("n1")
    assert outcomes.outcome(0, "n1") is None


def test_a_node_that_comes_or_goes_is_told_for_every_rule(facts: FactIndex, outcomes_of: Make, moves: Moves) -> None:
    """Also where the outcome is undecided before and after; nothing else is told twice."""
    outcomes = outcomes_of(LabelIs("a", "b"), FactAbove("cpu.idle", 0.5))
    facts.apply(facts_report("n1"), 0, 0)
    assert ("n1" in outcomes, list(outcomes), moves.take()) == (
        True,
        ["n1"],
        [(0, "n1", None, 0), (1, "n1", None, None)],
    )
    facts.apply(facts_report("n1", facts={"load.1m": 1}), 0, 0)
    assert moves.take() == []
    facts.forget("n1")
    assert ("n1" in outcomes, len(outcomes), moves.take()) == (False, 0, [(0, "n1", 0, None), (1, "n1", None, None)])


def test_filling_and_living_do_not_get_in_each_others_way(facts: FactIndex, outcomes_of: Make, moves: Moves) -> None:
    """What changes between two steps is in force at once, runs no rule twice, and is not undone by the steps after."""
    for number in range(6):
        facts.apply(facts_report(f"n{number}", labels={"a": "b"}), 0, 0)
    test = LabelIs("a", "b")
    outcomes = outcomes_of(test)
    filling = outcomes.fill()
    assert (next(filling), list(outcomes)) == ("n0", ["n0"])

    facts.apply(facts_report("n0"), 0, 1)  # changes after its turn
    facts.apply(facts_report("n4"), 0, 1)  # changes before its turn
    facts.forget("n2")  # goes before its turn
    facts.apply(facts_report("n9", labels={"a": "b"}), 0, 1)  # was not known when filling began
    assert {node: outcomes.outcome(0, node) for node in outcomes} == {"n0": 0, "n4": 0, "n9": 1}

    list(filling)
    assert {node: outcomes.outcome(0, node) for node in outcomes} == {
        "n0": 0,
        "n1": 1,
        "n3": 1,
        "n4": 0,
        "n5": 1,
        "n9": 1,
    }
    assert sorted(test.ran_on) == ["n0", "n0", "n1", "n3", "n4", "n5", "n9"]
    assert len(moves.take()) == len(test.ran_on)


def test_undecided_nodes_are_counted_and_one_is_shown(facts: FactIndex, outcomes_of: Make) -> None:
    """How many there are now, how often it happened, and why, in words, as it is now."""
    outcomes = outcomes_of(FactAbove("cpu.idle", 0.5), LabelIs("a", "b"))
    assert outcomes.example(0) is None
    facts.apply(facts_report("n1"), 0, 0)
    facts.apply(facts_report("n2"), 0, 0)
    facts.apply(facts_report("n2"), 0, 1)
    assert (outcomes.undecided(0), outcomes.undecided_counts()) == (2, {"r0": 2, "r1": 0})
    assert outcomes.example(0) == Example("n1", "no fact cpu.idle")

    facts.apply(facts_report("n1", facts={"cpu.idle": 0.7}), 0, 1)
    assert (outcomes.undecided(0), outcomes.example(0)) == (1, Example("n2", "no fact cpu.idle"))
    facts.forget("n2")
    assert (outcomes.undecided(0), outcomes.example(0)) == (0, None)

    facts.tick(31, lambda _: 30.0)
    assert outcomes.example(0) == Example("n1", "the node's facts are too old")
    facts.apply(facts_report("n1", scope="nfs", storages=[status("nfs", State.HEALTHY)]), 0, 31)
    facts.forget("n1")
    assert outcomes.example(1) == Example("n1", "the node's agent has not reported")
    assert outcomes.undecided_counts() == {"r0": 4, "r1": 1}


def test_outcomes_that_are_closed_hear_nothing(facts: FactIndex, outcomes_of: Make, moves: Moves) -> None:
    """As those of a policy that has been replaced."""
    outcomes = outcomes_of(LabelIs("a", "b"))
    outcomes.close()
    facts.apply(facts_report("n1"), 0, 0)
    assert (len(outcomes), moves.take()) == (0, [])
