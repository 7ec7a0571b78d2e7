"""Whom a rule rejects: what `onError` makes of the undecided, when that changes, and when waiting pods may hope."""

from collections.abc import Callable

import pytest

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.policy import OnError, Rule
from leadsman.domain.reasons import Reason
from leadsman.domain.rule_index import RuleIndex
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy
from leadsman.domain.verdicts import Rejection
from leadsman.testing.reports import status
from leadsman.testing.rules import FactAbove, LabelIs, StorageHealthy, facts_report

POLICY = StoragePolicy(DriverPolicy(stale_after_s=30, hold_unhealthy_s=300), bus_frozen_max_age_s=900)
IDLE = FactAbove("cpu.idle", 0.5)
LENIENT = Rule("lenient", require=IDLE)
STRICT = Rule("strict", require=IDLE, on_error=OnError.REJECT, resolvable=True)

NOT_MET = Rejection(Reason.RULE_NOT_MET, "lenient")
STRICT_NOT_MET = Rejection(Reason.RULE_NOT_MET, "strict", resolvable=True)
STRICT_UNDECIDED = Rejection(Reason.RULE_UNDECIDED, "strict", resolvable=True)

Say = Callable[[str, float | None], None]


@pytest.fixture
def facts() -> FactIndex:
    return FactIndex(POLICY)


@pytest.fixture
def say(facts: FactIndex) -> Say:
    """Let a node report how idle it is, or that it does not know."""

    def apply(node: str, idle: float | None) -> None:
        facts.apply(facts_report(node, facts={} if idle is None else {"cpu.idle": idle}), 0, 0)

    return apply


@pytest.fixture
def rules(facts: FactIndex) -> RuleIndex:
    """An index of the lenient rule (0) and the strict one (1)."""
    return RuleIndex((LENIENT, STRICT), facts, ChangeCounter(100))


def test_on_error_decides_what_is_not_known(rules: RuleIndex, say: Say) -> None:
    """A node that does not meet the rule is rejected either way; an undecided one has a reason of its own."""
    say("idle", 0.9)
    say("busy", 0.1)
    say("dumb", None)
    assert rules.failing(0) == {"busy": NOT_MET}
    assert rules.failing(1) == {"busy": STRICT_NOT_MET, "dumb": STRICT_UNDECIDED}
    assert rules.together((0,)) == ({"busy": NOT_MET}, None)
    assert rules.together((0, 1)) == ({"busy": NOT_MET, "dumb": STRICT_UNDECIDED}, STRICT_UNDECIDED)
    assert (rules.rejects_unlisted(0), rules.rejects_unlisted(1)) == (False, True)
    assert (rules.counts(0), rules.counts(1)) == ((1, 1, 1), (1, 1, 1))


def test_nodes_with_one_reason_share_one_rejection(rules: RuleIndex, say: Say) -> None:
    """Answers with thousands of nodes are packed by identity."""
    for number in range(3):
        say(f"n{number}", 0.1)
        say(f"m{number}", None)
    assert len({id(one) for one in rules.failing(1).values()}) == 2


@pytest.mark.parametrize(
    ("before", "after", "lenient", "strict"),
    [
        (0.9, 0.8, False, False),
        (0.9, 0.1, True, True),
        (0.1, 0.9, True, True),
        (0.1, None, True, True),
        (0.9, None, False, True),
        (None, 0.9, False, True),
    ],
)
def test_a_change_counts_if_it_changes_who_is_rejected(
    rules: RuleIndex, say: Say, before: float | None, after: float | None, *, lenient: bool, strict: bool
) -> None:
    """Answers of rules that look the same as before need not be made again."""
    say("n1", before)
    was = rules.changed(0), rules.changed(1)
    say("n1", after)
    assert (rules.changed(0) > was[0], rules.changed(1) > was[1]) == (lenient, strict)


def test_a_new_node_matters_to_rules_that_reject_unknown_ones(rules: RuleIndex, say: Say, facts: FactIndex) -> None:
    """Their answers name the nodes that pass."""
    first = rules.changed(0)
    assert first == rules.changed(1) == 101
    say("n1", 0.9)
    assert (rules.changed(0), rules.changed(1)) == (first, 102)
    facts.forget("n1")
    assert (rules.changed(0), rules.changed(1)) == (first, 103)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0.1, 0.9, {"rule lenient", "rule strict"}),
        (0.1, None, {"rule lenient"}),
        (None, 0.9, {"rule strict"}),
        (0.9, 0.1, set()),
        (0.9, None, set()),
        (None, 0.1, set()),
    ],
)
def test_a_node_that_is_let_in_is_told_once(
    rules: RuleIndex, say: Say, before: float | None, after: float | None, expected: set[str]
) -> None:
    """So that pods which wait for such a node are tried again."""
    say("n1", before)
    rules.take_recovered()
    say("n1", after)
    assert (rules.recovering, rules.take_recovered()) == (bool(expected), expected)
    assert (rules.recovering, rules.take_recovered()) == (False, set())


def test_a_node_that_comes_may_be_what_pods_wait_for(rules: RuleIndex, say: Say, facts: FactIndex) -> None:
    """Where unknown nodes are rejected a new one that passes is good news, and elsewhere one that is forgotten."""
    say("idle", 0.9)
    assert rules.take_recovered() == {"rule strict"}
    say("busy", 0.1)
    assert rules.take_recovered() == set()
    facts.forget("busy")
    assert rules.take_recovered() == {"rule lenient"}
    assert (rules.failing(0), rules.failing(1), rules.counts(0)) == ({}, {}, (1, 0, 0))


def test_a_rule_that_is_not_enforced_wakes_nobody(facts: FactIndex, say: Say) -> None:
    """It keeps its books, but no pod has waited for it."""
    rules = RuleIndex((Rule("watched", require=IDLE, enforce=False),), facts, ChangeCounter())
    say("n1", 0.1)
    assert rules.counts(0) == (0, 1, 0)
    say("n1", 0.9)
    assert (rules.counts(0), rules.recovering) == ((1, 0, 0), False)


def test_only_a_plain_no_is_a_failure(facts: FactIndex) -> None:
    """A test that gives a share meets the rule unless the share is nothing."""
    rules = RuleIndex((Rule("r", require=StorageHealthy()),), facts, ChangeCounter())
    bad, well = status("smb", State.UNHEALTHY), status("nfs", State.HEALTHY)
    facts.apply(facts_report("some", storages=[bad, well]), 0, 0)
    facts.apply(facts_report("none", storages=[bad]), 0, 0)
    assert (list(rules.failing(0)), rules.counts(0)) == (["none"], (1, 1, 0))


def test_a_failure_outlives_silence_for_a_while(rules: RuleIndex, say: Say, facts: FactIndex) -> None:
    """Held facts reject whom they rejected; once they have expired `onError` decides."""
    say("busy", 0.1)
    say("idle", 0.9)
    rules.take_recovered()
    facts.tick(30, lambda _: 30.0)
    assert (rules.failing(0), rules.counts(0), rules.recovering) == ({"busy": NOT_MET}, (0, 1, 1), False)
    assert rules.failing(1) == {"busy": STRICT_NOT_MET, "idle": STRICT_UNDECIDED}
    facts.tick(330, lambda _: 330.0)
    assert (rules.failing(0), rules.counts(0), rules.take_recovered()) == ({}, (0, 0, 2), {"rule lenient"})
    assert rules.failing(1) == {"busy": STRICT_UNDECIDED, "idle": STRICT_UNDECIDED}


@pytest.mark.parametrize("kept", [1, 8])
def test_rules_together_are_in_step_node_by_node(facts: FactIndex, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """What several rules say is kept; only nodes that have changed are looked at, whoever else asked in between."""
    monkeypatch.setattr("leadsman.domain.rule_index.MAX_COMBINATIONS", kept)
    gpu = Rule("gpu", require=LabelIs("gpu", "yes"), resolvable=True)
    rules = RuleIndex((gpu, LENIENT), facts, ChangeCounter())
    no_gpu = Rejection(Reason.RULE_NOT_MET, "gpu", resolvable=True)

    def say(node: str, gpu: str, idle: float) -> None:
        facts.apply(facts_report(node, labels={"gpu": gpu}, facts={"cpu.idle": idle}), 0, 0)

    for number in range(20):
        say(f"n{number}", "no", 0.9)
    expected = {f"n{number}": no_gpu for number in range(20)}
    assert rules.together((0, 1)).failing == expected

    say("n3", "yes", 0.9)
    say("n4", "no", 0.1)
    say("n5", "yes", 0.1)
    facts.forget("n6")
    del expected["n3"], expected["n6"]
    expected |= {"n4": NOT_MET, "n5": NOT_MET}
    assert rules.together((1,)).failing == {"n4": NOT_MET, "n5": NOT_MET}
    say("n4", "yes", 0.9)
    del expected["n4"]
    assert rules.together((1,)).failing == {"n5": NOT_MET}
    assert rules.together((0, 1)) == (expected, None)
    assert rules.together(()) == ({}, None)


def test_an_index_of_a_new_policy_fills_beside_the_old_one(rules: RuleIndex, say: Say, facts: FactIndex) -> None:
    """Node by node; the closed one stands still."""
    say("n1", 0.1)
    say("n2", 0.1)
    new = RuleIndex((LENIENT,), facts, ChangeCounter())
    assert [dict(new.failing(0)) for _ in new.fill()] == [{"n1": NOT_MET}, {"n1": NOT_MET, "n2": NOT_MET}]
    rules.close()
    say("n1", 0.9)
    assert (len(rules.failing(0)), len(new.failing(0))) == (2, 1)
