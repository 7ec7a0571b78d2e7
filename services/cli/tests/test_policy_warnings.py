"""What a policy may say and probably does not mean."""

import pytest

from leadsman.domain.label_test import LabelTest
from leadsman.domain.pod_selectors import Operator, PodSelector, Term
from leadsman.domain.policy import Component, OnError, Rule, SchedulingPolicy
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.rules import FactAbove, LabelIs
from leadsman_cli.policy_warnings import warnings_about

DB = PodSelector(labels=(Term("app", Operator.IN, ("db",)),))
PROD_DB = PodSelector(labels=DB.labels, namespaces=frozenset({"prod"}))
SSD = LabelIs("disk", "ssd")
IDLE = FactAbove("cpu.idle", 0.5)

TEXT = """kind: SchedulingPolicy
storage:
  default:
    unknown: reject
rules:
  - name: first
  - name: second
score:
  weights: {cpu: 0}
"""


def _words(*rules: Rule, policy: SchedulingPolicy | None = None) -> list[tuple[int, str]]:
    found = warnings_about(policy or SchedulingPolicy(rules=rules), TEXT)
    return [(one.line, one.words) for one in found]


def test_a_usual_policy_is_not_warned_about() -> None:
    """Rules with selectors, each asking something of its own."""
    assert _words(Rule("first", DB, require=SSD), Rule("second", DB, prefer=SSD), Rule("third", DB, require=IDLE)) == []
    assert _words(policy=SchedulingPolicy()) == []


def test_rejecting_unknown_storage_of_every_driver_is_warned_about() -> None:
    """It makes a monitoring fault an outage; for a single driver it is the operator's own decision."""
    [(line, words)] = _words(policy=_storage(DriverPolicy(unknown=Treatment.REJECT)))
    assert (line, words.startswith("unknown: reject for every driver keeps pods off")) == (4, True)
    [(_, words)] = _words(policy=_storage(DriverPolicy(stale=Treatment.REJECT)))
    assert words.startswith("stale: reject for every driver")
    one = StoragePolicy(drivers={"ebs.example": DriverPolicy(unknown=Treatment.REJECT)})
    assert _words(policy=SchedulingPolicy(storage=one)) == []


def test_scores_without_any_weight_are_warned_about() -> None:
    """Unless a rule prefers something."""
    weights = dict.fromkeys(Component, 0.0)
    [(line, words)] = _words(policy=SchedulingPolicy(weights=weights))
    assert (line, words.startswith("all weights are 0")) == (9, True)
    assert _words(policy=SchedulingPolicy(weights=weights, rules=(Rule("first", DB, prefer=SSD),))) == []
    watched = Rule("first", DB, prefer=SSD, enforce=False)
    assert len(_words(policy=SchedulingPolicy(weights=weights, rules=(watched,)))) == 1


def test_a_rule_for_every_pod_is_warned_about() -> None:
    """It ends the fast path of pods without storage."""
    [(line, words)] = _words(Rule("first", DB, require=IDLE), Rule("second", require=SSD))
    assert (line, words.startswith("rule second has no pods selector")) == (7, True)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ((Term("a", Operator.IN, ("x",)), Term("a", Operator.IN, ("y",))), "a In (x) and a In (y)"),
        ((Term("a", Operator.IN, ("x",)), Term("a", Operator.NOT_IN, ("x", "y"))), "a In (x) and a NotIn (x, y)"),
        ((Term("a", Operator.DOES_NOT_EXIST), Term("a", Operator.IN, ("x",))), "a DoesNotExist and a In (x)"),
        ((Term("a", Operator.EXISTS), Term("a", Operator.DOES_NOT_EXIST)), "a Exists and a DoesNotExist"),
    ],
)
def test_a_selector_that_no_pod_meets_is_warned_about(terms: tuple[Term, ...], words: str) -> None:
    """The two terms that contradict each other are named, for labels and annotations."""
    for pods in (PodSelector(labels=terms), PodSelector(annotations=terms)):
        assert _words(Rule("first", pods, require=SSD)) == [(6, f"rule first can never touch a pod: {words}")]


@pytest.mark.parametrize(
    "terms",
    [
        (Term("a", Operator.IN, ("x", "y")), Term("a", Operator.NOT_IN, ("x",))),
        (Term("a", Operator.IN, ("x", "y")), Term("a", Operator.IN, ("y", "z"))),
        (Term("a", Operator.EXISTS), Term("b", Operator.DOES_NOT_EXIST)),
        (Term("a", Operator.NOT_IN, ("x",)), Term("a", Operator.DOES_NOT_EXIST)),
    ],
)
def test_a_selector_that_some_pod_meets_is_not(terms: tuple[Term, ...]) -> None:
    """Terms may overlap."""
    assert _words(Rule("first", PodSelector(labels=terms), require=SSD)) == []


def test_a_rule_that_an_earlier_one_decides_is_warned_about() -> None:
    """The same question about the same pods, or about fewer of them."""
    wide, narrow = Rule("first", DB, require=SSD), Rule("second", PROD_DB, require=SSD)
    [(line, words)] = _words(wide, narrow)
    assert (line, words) == (7, "rule second never decides: rule first requires the same of the same pods")
    assert _words(narrow, wide) == []


@pytest.mark.parametrize(
    "second",
    [
        Rule("second", DB, require=LabelIs("disk", "hdd")),
        Rule("second", PodSelector(namespaces=frozenset({"x"})), require=SSD),
        Rule("second", DB, require=SSD, on_error=OnError.REJECT),
        Rule("second", DB, require=SSD, enforce=False),
        Rule("second", DB, prefer=SSD),
    ],
)
def test_a_rule_that_says_something_of_its_own_is_not(second: Rule) -> None:
    """Another question, other pods, another treatment of what is not known, or another kind of rule."""
    assert _words(Rule("first", DB, require=SSD), second) == []


def test_a_stronger_rejection_after_a_weaker_one_decides() -> None:
    """A rejection that evicting pods cannot resolve goes before one that it can."""
    assert _words(Rule("first", DB, require=SSD, resolvable=True), Rule("second", DB, require=SSD)) == []
    assert len(_words(Rule("first", DB, require=SSD), Rule("second", DB, require=SSD, resolvable=True))) == 1


def test_a_preference_that_counts_twice_or_not_at_all_is_warned_about() -> None:
    """Twice the same is twice the weight; weight 0 is nothing."""
    twice = _words(Rule("first", DB, prefer=SSD), Rule("second", DB, prefer=SSD))
    assert twice == [(7, "rule second asks the same as rule first about the same pods: it counts twice")]
    assert _words(Rule("first", DB, prefer=SSD, weight=0)) == [(6, "rule first has weight 0: it changes no score")]


def test_a_bare_fact_that_is_no_share_is_warned_about() -> None:
    """A preference is 0 to 1, and thousands of MHz are all 1."""
    text = TEXT.replace("  - name: first\n", "  - name: first\n    prefer:\n      cel: node.cpu.mhz\n")
    [only] = warnings_about(SchedulingPolicy(), text)
    assert (only.line, only.words.startswith("rule first takes MHz as 0 to 1")) == (8, True)
    assert warnings_about(SchedulingPolicy(), text.replace("cpu.mhz", "cpu.idle")) == []
    assert warnings_about(SchedulingPolicy(), text.replace("cpu.mhz", "cpu.mhz / 5000.0")) == []


def test_labels_that_no_node_can_have_are_warned_about() -> None:
    """The rule would reject every node."""
    test = LabelTest((Term("disk", Operator.IN, ("ssd",)), Term("disk", Operator.DOES_NOT_EXIST)))
    [(_, words)] = _words(Rule("first", DB, require=test))
    assert words == "rule first is met by no node: disk In (ssd) and disk DoesNotExist"


def test_a_test_that_reads_nothing_is_warned_about() -> None:
    """It says the same of every node."""
    constant = LabelIs("a", "b", reads=frozenset())
    assert _words(Rule("first", DB, require=constant)) == [
        (6, "rule first reads nothing about nodes: it says the same of every node")
    ]


def _storage(default: DriverPolicy) -> SchedulingPolicy:
    return SchedulingPolicy(storage=StoragePolicy(default))
