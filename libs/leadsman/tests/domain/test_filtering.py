"""Storage and rules in one answer: one reason per node, in either form, and what is only watched beside it."""

import pytest

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.fact_index import FactIndex
from leadsman.domain.filtering import filter_answer, generation
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.policy import Mode, OnError, Rule, SchedulingPolicy
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageStatus
from leadsman.domain.requirements import Needs, Question
from leadsman.domain.rule_index import RuleIndex
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import FilterAnswer, Rejection
from leadsman.testing.reports import status, storage_key
from leadsman.testing.rules import FactAbove, LabelIs, facts_report

NFS: Needs = (storage_key("nfs"),)
BROKEN = Rejection(Reason.MOUNT_HUNG, "nfs")
NOT_OBSERVED = Rejection(Reason.NOT_OBSERVED, "nfs")
UNKNOWN_REJECTED = StoragePolicy(DriverPolicy(unknown=Treatment.REJECT))

GPU = LabelIs("node-type", "gpu")
IDLE = FactAbove("cpu.idle", 0.5)


def not_met(rule: str, *, resolvable: bool = False) -> Rejection:
    return Rejection(Reason.RULE_NOT_MET, rule, resolvable)


def undecided(rule: str) -> Rejection:
    return Rejection(Reason.RULE_UNDECIDED, rule)


class Cluster:
    """A policy, and nodes that report to all that keep it."""

    def __init__(self, *rules: Rule, storage: StoragePolicy | None = None, mode: Mode = Mode.ENFORCE) -> None:
        self.policy = SchedulingPolicy(mode, storage or StoragePolicy(), rules=rules)
        changes = ChangeCounter(1000)
        self.health = HealthIndex(self.policy.storage, changes)
        self.facts = FactIndex(self.policy.storage)
        self.rules = RuleIndex(self.policy.requiring, self.facts, changes)

    def say(
        self, node: str, *storages: StorageStatus, gpu: bool = False, idle: float | None = 0.9, health: bool = True
    ) -> None:
        """Take in a report; without `health` only what rules may know of it."""
        labels = {"node-type": "gpu"} if gpu else {}
        one = facts_report(node, labels=labels, facts={} if idle is None else {"cpu.idle": idle}, storages=storages)
        if health:
            self.health.apply(one, 0, 0)
        self.facts.apply(one, 0, 0)

    def ask(self, needs: Needs, *rules: int) -> FilterAnswer:
        return filter_answer(self.health, self.rules, Question(needs, rules), self.policy)

    def generation(self, needs: Needs, *rules: int) -> int:
        return generation(self.health, self.rules, Question(needs, rules))


def test_only_the_rules_that_touch_the_pod_count() -> None:
    """A pod that no rule selects and that needs no storage gets every node."""
    cluster = Cluster(Rule("gpu", require=GPU), Rule("idle", require=IDLE))
    cluster.say("n1", gpu=True, idle=0.1)
    cluster.say("n2")
    assert cluster.ask(()) == FilterAnswer({})
    assert cluster.ask((), 0) == FilterAnswer({"n2": not_met("gpu")})
    assert cluster.ask((), 1) == FilterAnswer({"n1": not_met("idle")})
    assert cluster.ask((), 0, 1).rejected == {"n1": not_met("idle"), "n2": not_met("gpu")}


def test_storage_comes_before_rules_and_what_eviction_cannot_help_before_what_it_can() -> None:
    """Then the order of the document decides; what is only preferred has no number here."""
    cluster = Cluster(
        Rule("helpful", require=IDLE, resolvable=True),
        Rule("liked", prefer=IDLE),
        Rule("first", require=GPU),
        Rule("second", require=LabelIs("node-type", "gpu")),
    )
    bad = status("nfs", State.UNHEALTHY)
    cluster.say("all-bad", bad, idle=0.1)
    cluster.say("no-gpu-busy", idle=0.1)
    cluster.say("busy", gpu=True, idle=0.1)
    cluster.say("good", gpu=True)
    assert cluster.ask(NFS, 0, 1, 2).rejected == {
        "all-bad": BROKEN,
        "no-gpu-busy": not_met("first"),
        "busy": not_met("helpful", resolvable=True),
    }
    assert cluster.ask((), 1, 2).rejected == {"all-bad": not_met("first"), "no-gpu-busy": not_met("first")}


def test_a_rule_that_rejects_what_it_cannot_decide_names_who_passes() -> None:
    """So a node that has never reported is kept off, by the first such rule in order of precedence."""
    cluster = Cluster(
        Rule("helpful", require=IDLE, on_error=OnError.REJECT, resolvable=True),
        Rule("strict", require=IDLE, on_error=OnError.REJECT),
        Rule("lenient", require=GPU),
    )
    cluster.say("good", gpu=True)
    cluster.say("dumb", gpu=True, idle=None)
    cluster.say("no-gpu")
    answer = cluster.ask((), 0, 1, 2)
    assert answer == FilterAnswer(
        {"dumb": undecided("strict"), "no-gpu": not_met("lenient")}, frozenset({"good"}), undecided("strict")
    )
    assert answer.verdict("never-heard-of") == undecided("strict")
    assert cluster.ask((), 2).otherwise is None


def test_unlisted_storage_gives_its_reason_whatever_rules_say() -> None:
    """Its form of the answer stands; rules take away from the nodes that it lets pass."""
    cluster = Cluster(
        Rule("gpu", require=GPU),
        Rule("strict", require=IDLE, on_error=OnError.REJECT),
        storage=UNKNOWN_REJECTED,
    )
    well = status("nfs", State.HEALTHY)
    cluster.say("good", well, gpu=True)
    cluster.say("no-gpu", well)
    cluster.say("broken", status("nfs", State.UNHEALTHY), gpu=True)
    cluster.say("no-nfs-no-gpu")
    answer = cluster.ask(NFS, 0)
    assert answer == FilterAnswer({"broken": BROKEN, "no-gpu": not_met("gpu")}, frozenset({"good"}), NOT_OBSERVED)
    assert answer.verdict("no-nfs-no-gpu") == NOT_OBSERVED

    cluster.health.apply(facts_report("sidecar-only", scope="nfs", storages=[well]), 0, 0)
    assert cluster.ask(NFS, 0).verdict("sidecar-only") is None
    assert cluster.ask(NFS, 0, 1).verdict("sidecar-only") == undecided("strict")
    assert cluster.ask((), 0, 1).verdict("sidecar-only") == undecided("strict")


def test_what_is_not_enforced_is_told_beside_the_answer() -> None:
    """Only of nodes that nothing enforced rejects, so that a record shows what enforcing it would add."""
    cluster = Cluster(Rule("watched", require=IDLE, enforce=False), Rule("gpu", require=GPU))
    cluster.say("good", gpu=True)
    cluster.say("busy", gpu=True, idle=0.1)
    cluster.say("busy-no-gpu", idle=0.1)
    cluster.say("broken", status("nfs", State.UNHEALTHY), gpu=True, idle=0.1)
    answer = cluster.ask(NFS, 0, 1)
    assert answer.rejected == {"busy-no-gpu": not_met("gpu"), "broken": BROKEN}
    assert answer.shadow == FilterAnswer({"busy": not_met("watched")})
    assert cluster.ask(NFS, 1).shadow is None
    assert cluster.ask((), 0) == FilterAnswer(
        {}, shadow=FilterAnswer(dict.fromkeys(("busy", "busy-no-gpu", "broken"), not_met("watched")))
    )


NODES = ("good", "dumb", "broken", "sidecar-only", "sidecar-broken")


@pytest.mark.parametrize("storage", [StoragePolicy(), UNKNOWN_REJECTED])
def test_a_watched_rule_may_have_a_form_of_its_own(storage: StoragePolicy) -> None:
    """It says who would pass if the answer does not say so already, and never anything about a rejected node."""
    cluster = Cluster(Rule("watched", require=IDLE, enforce=False, on_error=OnError.REJECT), storage=storage)
    well = status("nfs", State.HEALTHY)
    cluster.say("good", well)
    cluster.say("dumb", well, idle=None)
    cluster.say("broken", status("nfs", State.UNHEALTHY), idle=0.1)
    for node, state in (("sidecar-only", State.HEALTHY), ("sidecar-broken", State.UNHEALTHY)):
        cluster.health.apply(facts_report(node, scope="nfs", storages=[status("nfs", state)]), 0, 0)
    answer = cluster.ask(NFS, 0)
    assert answer.rejected == {"broken": BROKEN, "sidecar-broken": BROKEN}
    assert answer.shadow is not None
    said = {node: answer.shadow.verdict(node) for node in (*NODES, "new")}
    expected: dict[str, Rejection | None] = dict.fromkeys(NODES)
    expected |= dict.fromkeys(("dumb", "sidecar-only"), undecided("watched"))
    assert said == {**expected, "new": None if answer.otherwise else undecided("watched")}


def test_in_shadow_mode_the_answer_is_the_same_and_says_so() -> None:
    """All is computed as ever; whoever gets the answer only records it."""
    rules = (Rule("gpu", require=GPU), Rule("watched", require=IDLE, enforce=False))
    answers = []
    for mode in Mode:
        cluster = Cluster(*rules, mode=mode)
        cluster.say("busy", gpu=True, idle=0.1)
        cluster.say("no-gpu")
        answers.append(cluster.ask((), 0, 1))
    assert answers[0]._replace(dry_run=True) == answers[1] != answers[0]


def test_the_generation_is_that_of_what_the_question_rests_on() -> None:
    """Needs and matched rules, and nothing else."""
    cluster = Cluster(
        Rule("gpu", require=GPU),
        Rule("idle", require=IDLE),
        Rule("watched", require=LabelIs("node-type", "gpu"), enforce=False),
    )
    cluster.say("n1", status("nfs", State.HEALTHY))
    questions = {"nothing": ((),), "nfs": (NFS,), "gpu": ((), 0), "idle": ((), 1), "watched": ((), 2), "both": (NFS, 1)}

    def moved(*storages: StorageStatus, gpu: bool = False, idle: float = 0.9) -> set[str]:
        before = {name: cluster.generation(*asked) for name, asked in questions.items()}  # type: ignore[arg-type]
        cluster.say("n1", *storages, gpu=gpu, idle=idle)
        return {name for name, asked in questions.items() if cluster.generation(*asked) > before[name]}  # type: ignore[arg-type]

    assert moved(status("nfs", State.HEALTHY), gpu=True) == {"gpu", "watched"}
    assert moved(status("nfs", State.HEALTHY), gpu=True, idle=0.8) == set()
    assert moved(status("nfs", State.HEALTHY), gpu=True, idle=0.1) == {"idle", "both"}
    assert moved(status("nfs", State.UNHEALTHY), gpu=True, idle=0.1) == {"nfs", "both"}
