"""Trying a policy on reports at hand: the answers are those of the services, node by node and in whole."""

from leadsman.domain.node_facts import REGION, ZONE
from leadsman.domain.pod_selectors import PodSelector
from leadsman.domain.policy import Component, Mode, OnError, Rule, SchedulingPolicy
from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport
from leadsman.domain.requirements import Near, Profile, Requirement
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import Rejection
from leadsman.domain.what_if import Heard, Part, WhatIf
from leadsman.testing.reports import report, status, storage_key, volume
from leadsman.testing.rules import FactAbove, LabelIs, facts_report

ANY = Profile()
NEED = Requirement("nfs.example", "s1", "data")
GPU = Rule("gpu-nodes", require=LabelIs("node-type", "gpu"))


def _heard(*reports: NodeReport) -> list[Heard]:
    return [(one, 0.0) for one in reports]


def test_each_node_gets_its_verdict_and_its_score_with_all_parts() -> None:
    """A healthy node passes with its components, an unhealthy one is rejected and capped at 0."""
    good = facts_report("good", facts={"cpu.idle": 0.26}, storages=[status("nfs.example/s1", State.HEALTHY)])
    bad = facts_report("bad", storages=[status("nfs.example/s1", State.UNHEALTHY)])
    what_if = WhatIf(_heard(good, bad), SchedulingPolicy(weights={Component.CPU: 1.0}))

    outcomes = what_if.outcomes(ANY, [NEED])

    assert list(outcomes) == ["bad", "good"]
    assert outcomes["bad"].rejection == Rejection(Reason.MOUNT_HUNG, "nfs.example")
    assert (outcomes["bad"].score, outcomes["bad"].cap, outcomes["bad"].parts) == (0, 0, (Part("cpu", 1.0, None),))
    assert outcomes["good"].rejection is None
    assert (outcomes["good"].score, outcomes["good"].cap, outcomes["good"].parts) == (5, 10, (Part("cpu", 1.0, 0.5),))


def test_answers_are_those_that_cross_the_hop() -> None:
    """The whole answers name the same nodes as the outcomes."""
    what_if = WhatIf(_heard(facts_report("a"), facts_report("b", labels={"node-type": "gpu"})), _policy(GPU))

    verdicts, scores = what_if.answer(ANY)

    assert verdicts.rejected == {"a": Rejection(Reason.RULE_NOT_MET, "gpu-nodes")}
    assert list(scores.nodes) == what_if.nodes == ["a", "b"]


def test_only_rules_that_select_the_pod_touch_it() -> None:
    """Rules of another namespace say nothing, and are not among those named."""
    elsewhere = Rule("theirs", PodSelector(namespaces=frozenset({"theirs"})), require=LabelIs("x", "y"))
    what_if = WhatIf(_heard(facts_report("a")), _policy(elsewhere))

    assert what_if.touching(ANY) == ()
    assert what_if.outcomes(ANY)["a"].rejection is None
    assert what_if.touching(Profile("theirs")) == ("theirs",)
    assert what_if.outcomes(Profile("theirs"))["a"].rejection == Rejection(Reason.RULE_NOT_MET, "theirs")


def test_what_is_not_enforced_is_told_apart() -> None:
    """A rule with enforce false shows as shadow; one reason per node, so an enforced one hides it."""
    watched = Rule("watched", require=LabelIs("x", "y"), enforce=False)
    what_if = WhatIf(_heard(facts_report("a"), facts_report("b", labels={"node-type": "gpu"})), _policy(GPU, watched))

    outcomes = what_if.outcomes(ANY)

    assert (outcomes["a"].rejection, outcomes["a"].shadow) == (Rejection(Reason.RULE_NOT_MET, "gpu-nodes"), None)
    assert (outcomes["b"].rejection, outcomes["b"].shadow) == (None, Rejection(Reason.RULE_NOT_MET, "watched"))


def test_in_shadow_mode_nothing_is_rejected() -> None:
    """What the policy would reject, and what its rules that are not enforced say, both show as shadow."""
    watched = Rule("watched", require=LabelIs("x", "y"), enforce=False)
    policy = SchedulingPolicy(mode=Mode.SHADOW, rules=(GPU, watched))
    what_if = WhatIf(_heard(facts_report("a"), facts_report("b", labels={"node-type": "gpu"})), policy)

    outcomes = what_if.outcomes(ANY)

    assert [one.rejection for one in outcomes.values()] == [None, None]
    assert [one.shadow and one.shadow.subject for one in outcomes.values()] == ["gpu-nodes", "watched"]


def test_age_counts_as_it_does_in_the_services() -> None:
    """Silent nodes are stale; a bad state holds for a while."""
    storage = StoragePolicy(DriverPolicy(stale=Treatment.REJECT, stale_after_s=30, hold_unhealthy_s=300))
    reports = [
        (report("fresh", status("nfs.example/s1", State.HEALTHY)), 29.0),
        (report("silent", status("nfs.example/s1", State.HEALTHY)), 31.0),
        (report("held", status("nfs.example/s1", State.UNHEALTHY)), 31.0),
        (report("over", status("nfs.example/s1", State.UNHEALTHY)), 331.0),
    ]
    outcomes = WhatIf(reports, SchedulingPolicy(storage=storage)).outcomes(ANY, [NEED])

    reasons = {node: one.rejection and one.rejection.reason for node, one in outcomes.items()}
    assert reasons == {
        "fresh": None,
        "silent": Reason.STALE,
        "held": Reason.MOUNT_HUNG,
        "over": Reason.STALE,
    }


def test_nodes_that_nobody_has_heard_of_are_judged_as_well() -> None:
    """Whether they pass is the policy's decision, and their score is the default one."""
    rule = Rule("gpu-nodes", require=LabelIs("node-type", "gpu"), on_error=OnError.REJECT)
    what_if = WhatIf(_heard(facts_report("a", labels={"node-type": "gpu"})), _policy(rule))

    outcome = what_if.outcomes(ANY, unheard=["a", "never"])["never"]

    assert outcome.rejection == Rejection(Reason.RULE_UNDECIDED, "gpu-nodes")
    assert (outcome.score, outcome.cap, outcome.parts) == (4, 4, ())


def test_bad_volumes_reject_the_pods_that_need_them() -> None:
    """Another volume of the same storage is not touched."""
    reports = _heard(report("a", status("nfs.example/s1", State.HEALTHY), volumes=[volume("nfs.example/data")]))
    what_if = WhatIf(reports, SchedulingPolicy())

    assert what_if.outcomes(ANY, [NEED])["a"].rejection == Rejection(Reason.STALE_FILE_HANDLE, "nfs.example")
    assert what_if.outcomes(ANY, [Requirement("nfs.example", "s1", "other")])["a"].rejection is None


def test_breakers_judge_all_nodes_together() -> None:
    """With every driver plugin gone nobody is rejected, and the driver is named; one of many is rejected."""
    gone = [status("nfs.example", State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED)]
    well = [status("nfs.example", State.HEALTHY)]
    need = [Requirement("nfs.example")]

    mass = WhatIf(_heard(*[report(f"n{number}", *gone) for number in range(5)]), SchedulingPolicy())
    few = WhatIf(_heard(*[report(f"n{number}", *(gone if number == 0 else well)) for number in range(5)]), _policy())

    assert mass.open_breakers == {storage_key("nfs.example")}
    assert [one.rejection for one in mass.outcomes(ANY, need).values()] == [None] * 5
    assert few.open_breakers == frozenset()
    assert [node for node, one in few.outcomes(ANY, need).items() if one.rejection] == ["n0"]


def test_breakers_do_not_depend_on_the_order_of_reports() -> None:
    """An open breaker closes only in time, and here none passes: a share of the first nodes must not open it."""
    gone = [status("nfs.example", State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED)]
    well = [status("nfs.example", State.HEALTHY)]
    reports = [report(f"n{number:02}", *(gone if number < 5 else well)) for number in range(25)]

    assert WhatIf(_heard(*reports), SchedulingPolicy()).open_breakers == frozenset()


def test_nearness_is_asked_of_the_scorer_alone() -> None:
    """The same zone scores more than elsewhere."""
    here = facts_report("here", labels={ZONE: "z1", REGION: "r1"})
    there = facts_report("there", labels={ZONE: "z2", REGION: "r2"})
    what_if = WhatIf(_heard(here, there), SchedulingPolicy(weights={Component.NEARNESS: 1.0}))

    scores = {node: one.score for node, one in what_if.outcomes(ANY, near=Near(("z1",))).items()}

    assert scores == {"here": 10, "there": 0}


def test_an_undecided_rule_says_why() -> None:
    """The words name what is missing; a rule that is decided, and one that does not exist, have none."""
    rule = Rule("idle", require=FactAbove("cpu.idle", 0.5))
    reports = [
        (facts_report("knows", facts={"cpu.idle": 0.9}), 0.0),
        (facts_report("lacks"), 0.0),
        (facts_report("silent", facts={"cpu.idle": 0.9}), 60.0),
        (facts_report("sidecar", scope="nfs.example", storages=[status("nfs.example", State.HEALTHY)]), 0.0),
    ]
    what_if = WhatIf(reports, _policy(rule))

    words = {node: what_if.why_undecided("idle", node) for node in what_if.nodes}

    assert words == {
        "knows": "",
        "lacks": "no fact cpu.idle",
        "silent": "the node's facts are too old",
        "sidecar": "the node's agent has not reported",
    }
    assert what_if.why_undecided("other", "lacks") == what_if.why_undecided("idle", "never") == ""


def test_scores_are_asked_for_only_where_they_can_matter() -> None:
    """A pod without storage is scored if it is near something or a rule that prefers touches it."""
    likes = Rule("likes", PodSelector(namespaces=frozenset({"ours"})), prefer=LabelIs("x", "y"))
    what_if = WhatIf([], _policy(GPU, likes))

    assert not what_if.scored(ANY, [])
    assert what_if.scored(Profile("ours"), [])
    assert what_if.scored(ANY, near=Near(("z1",)))
    assert what_if.scored(ANY, [NEED])


def _policy(*rules: Rule) -> SchedulingPolicy:
    return SchedulingPolicy(rules=rules)
