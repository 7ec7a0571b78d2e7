"""The score board answers with what is in force: states at once, facts and rules once a second."""

import pytest

from leadsman.domain.policy import Component, Mode, OnError, Rule, SchedulingPolicy
from leadsman.domain.requirements import Near, Question
from leadsman.domain.states import State
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import UNKNOWN_VALUE
from leadsman.testing.cluster import PLAIN, Cluster, placed, storage
from leadsman.testing.reports import storage_key
from leadsman.testing.rules import FactAbove, LabelIs, facts_report

NO_WEIGHTS = dict.fromkeys(Component, 0.0)
NFS_A = storage_key("nfs/a")
GOOD = {"cpu.idle": 0.9, "memory.availableShare": 0.8, "pressure.io.someAvg10": 0.0}
POOR = {"cpu.idle": 0.02, "memory.availableShare": 0.03, "pressure.io.someAvg10": 0.6}


def only(component: Component) -> SchedulingPolicy:
    return SchedulingPolicy(weights={**NO_WEIGHTS, component: 1.0})


def test_a_node_that_is_well_scores_ten_and_a_poor_one_less() -> None:
    """And one of which nothing is known comes between."""
    cluster = Cluster()
    cluster.take(facts_report("good", facts=GOOD), facts_report("mute"), facts_report("poor", facts=POOR))

    assert cluster.committed() == {"good": 10, "mute": 4, "poor": 0}
    assert cluster.board.answer(PLAIN).default == 4


def test_states_count_at_once_and_facts_from_the_next_commit_on() -> None:
    """A broken storage must not wait for a second; load may."""
    cluster, question = Cluster(), Question((NFS_A,))
    cluster.take(facts_report("n1", facts=GOOD, storages=[storage(latency_s=0.001, used=0.1)]))
    assert cluster.committed(question) == {"n1": 10}

    cluster.take(facts_report("n1", facts=POOR, storages=[storage(latency_s=0.001, used=0.1)]))
    assert cluster.scores(question) == {"n1": 10}
    assert cluster.committed(question) == {"n1": 5}

    cluster.take(facts_report("n1", facts=POOR, storages=[storage(state=State.DEGRADED, latency_s=0.001, used=0.1)]))
    assert cluster.scores(question) == {"n1": 3}


def test_a_new_node_counts_with_its_states_before_its_facts_do() -> None:
    """Until then it has no components."""
    cluster, question = Cluster(), Question((NFS_A,))
    cluster.take(facts_report("n1", facts=GOOD, storages=[storage(state=State.UNHEALTHY)]))

    assert cluster.scores(question) == {"n1": 0}
    assert cluster.columns(question)["cpu"] == [UNKNOWN_VALUE]
    cluster.health.forget("n1")
    assert cluster.scores(question) == {}


def test_a_node_that_is_forgotten_leaves_the_answer() -> None:
    """With the next commit; then it is like any unknown one."""
    cluster = Cluster()
    cluster.take(facts_report("n1", facts=GOOD), facts_report("n2", facts=GOOD))
    cluster.committed()
    cluster.forget("n1")

    assert cluster.committed() == {"n2": 10}


def test_columns_are_the_components_that_mean_something_for_the_pod() -> None:
    """Latency and capacity for pods with storage, nearness for pods that are near to something, no weight of 0."""
    cluster = Cluster()
    of_node = ["ioPressure", "cpu", "memory"]

    assert list(cluster.columns()) == of_node
    assert list(cluster.columns(Question((NFS_A,)))) == ["storageLatency", "ioPressure", "capacity", "cpu", "memory"]
    assert list(cluster.columns(Question((), near=Near(("a",))))) == [*of_node, "nearness"]
    assert [column.weight for column in cluster.board.answer(Question((NFS_A,))).columns] == [3, 2, 1, 1, 1]


def test_the_breakdown_has_hundredths_and_255_for_what_is_not_known() -> None:
    """By position, in the order of the nodes."""
    cluster = Cluster()
    cluster.take(
        facts_report("n1", facts={"cpu.idle": 0.26}, storages=[storage(latency_s=10**-1.5, used=0.84)]),
        facts_report("n2"),
    )
    cluster.board.commit()
    question = Question((NFS_A,))

    assert cluster.board.answer(question).nodes == ("n1", "n2")
    assert cluster.board.answer(question).caps == bytes([10, 5])
    assert cluster.columns(question) == {
        "storageLatency": [50, UNKNOWN_VALUE],
        "ioPressure": [UNKNOWN_VALUE, UNKNOWN_VALUE],
        "capacity": [50, UNKNOWN_VALUE],
        "cpu": [50, UNKNOWN_VALUE],
        "memory": [UNKNOWN_VALUE, UNKNOWN_VALUE],
    }


def test_a_storage_counts_by_its_backend_or_else_by_its_driver() -> None:
    """Numbers of the driver are about its plugin and about mounts whose backend is not known."""
    cluster = Cluster(only(Component.STORAGE_LATENCY))
    cluster.take(
        facts_report("both", storages=[storage("nfs/a", latency_s=0.001), storage("nfs", latency_s=0.5)]),
        facts_report("driver", storages=[storage("nfs/a"), storage("nfs", latency_s=0.5)]),
        facts_report("other", storages=[storage("nfs/b", latency_s=0.001), storage("nfs")]),
    )

    assert cluster.committed(Question((NFS_A,))) == {"both": 10, "driver": 0, "other": 4}


def test_the_slowest_of_the_storages_that_a_pod_needs_counts() -> None:
    """A pod waits for all of them."""
    cluster = Cluster(only(Component.STORAGE_LATENCY))
    cluster.take(facts_report("n1", storages=[storage("nfs/a", latency_s=0.001), storage("smb", latency_s=10**-1.5)]))

    assert cluster.committed(Question((NFS_A, storage_key("smb")))) == {"n1": 5}


def test_a_label_rule_without_other_weights_gives_ten_or_nothing() -> None:
    """The plain case: label key and value, 100 or 0 in kube-scheduler's points."""
    policy = SchedulingPolicy(rules=(Rule("ssd", prefer=LabelIs("disk", "ssd")),), weights=NO_WEIGHTS)
    cluster = Cluster(policy)
    cluster.take(facts_report("n1", labels={"disk": "ssd"}), facts_report("n2", labels={"disk": "hdd"}))

    assert cluster.committed(Question((), (0,))) == {"n1": 10, "n2": 0}
    assert cluster.columns(Question((), (0,))) == {"rule:ssd": [100, 0]}
    assert cluster.scores(Question(())) == {"n1": 10, "n2": 10}


@pytest.mark.parametrize(("on_error", "expected"), [(OnError.ALLOW, 4), (OnError.REJECT, 0)])
def test_a_rule_that_cannot_be_decided_is_neutral_or_nothing_as_it_says(on_error: OnError, expected: int) -> None:
    """On nodes without the fact, and on nodes that never reported."""
    rule = Rule("idle", prefer=FactAbove("cpu.idle", 0.5), on_error=on_error)
    cluster = Cluster(SchedulingPolicy(rules=(rule,), weights=NO_WEIGHTS))
    cluster.take(facts_report("n1"), facts_report("n2", facts=GOOD))

    assert cluster.committed(Question((), (0,))) == {"n1": expected, "n2": 10}
    assert cluster.board.answer(Question((), (0,))).default == expected


def test_what_a_rule_says_counts_from_the_next_commit_on() -> None:
    """As everything that rests on facts."""
    rule = Rule("idle", prefer=FactAbove("cpu.idle", 0.5))
    cluster, question = Cluster(SchedulingPolicy(rules=(rule,), weights=NO_WEIGHTS)), Question((), (0,))
    cluster.take(facts_report("n1", facts=GOOD))
    cluster.committed(question)
    cluster.take(facts_report("n1", facts=POOR))

    assert cluster.scores(question) == {"n1": 10}
    assert cluster.committed(question) == {"n1": 0}


def test_a_rule_that_is_not_enforced_is_shown_and_does_not_count() -> None:
    """Its column says what its weight would be."""
    rules = (Rule("ssd", prefer=LabelIs("disk", "ssd"), weight=7, enforce=False),)
    cluster = Cluster(SchedulingPolicy(rules=rules, weights={**NO_WEIGHTS, Component.CPU: 1.0}))
    cluster.take(facts_report("n1", facts=GOOD))
    cluster.board.commit()
    answer = cluster.board.answer(Question((), (0,)))

    assert list(answer.scores) == [10]
    assert [tuple(column) for column in answer.columns] == [
        ("cpu", 1.0, bytes([100])),
        ("rule:ssd (shadow)", 7, bytes([0])),
    ]


def test_a_policy_in_shadow_mode_answers_to_be_recorded_only() -> None:
    """The scores are the same."""
    assert Cluster(SchedulingPolicy(mode=Mode.SHADOW)).board.answer(PLAIN).dry_run
    assert not Cluster().board.answer(PLAIN).dry_run


def test_places_that_no_node_is_in_make_no_question_of_their_own() -> None:
    """Pods may name any number of them; a place counts as soon as a node is there."""
    cluster = Cluster(only(Component.NEARNESS))
    cluster.take(facts_report("n1", labels=placed("a", "east")))
    cluster.board.commit()
    named = Question((), near=Near(("a", "made-up"), ("east", "nowhere")))
    assert cluster.board.simplified(named) == Question((), near=Near(("a",), ("east",)))
    assert cluster.board.simplified(Question((), near=Near(("made-up",)))) == Question(())
    cluster.take(facts_report("n2", labels=placed("made-up")))
    cluster.board.commit()
    assert cluster.board.simplified(named).near.zones == ("a", "made-up")
    cluster.forget("n2")
    cluster.board.commit()
    assert cluster.board.simplified(named).near.zones == ("a",)


def test_nearness_learns_from_labels_in_which_region_a_zone_lies() -> None:
    """A pod's volume names its zone; nodes of the same region are second best."""
    cluster, question = Cluster(only(Component.NEARNESS)), Question((), near=Near(("a",)))
    cluster.take(
        facts_report("b1", labels=placed("b", "eu")),
        facts_report("c1", labels=placed("c", "us")),
        facts_report("d1", labels=placed()),
    )
    assert cluster.committed(question) == {"b1": 0, "c1": 0, "d1": 4}
    cluster.take(facts_report("a1", labels=placed("a", "eu")))
    assert cluster.committed(question) == {"a1": 10, "b1": 5, "c1": 0, "d1": 4}
    cluster.take(facts_report("a1", labels=placed("a", "us")))
    assert cluster.committed(question) == {"a1": 10, "b1": 0, "c1": 5, "d1": 4}
    cluster.forget("a1")
    assert cluster.committed(question) == {"b1": 0, "c1": 0, "d1": 4}


def test_of_a_silent_node_only_bad_news_counts_and_then_none() -> None:
    """Silence is no recovery: it takes away what was good before it forgets what was bad."""
    cluster = Cluster(SchedulingPolicy(weights={Component.CPU: 1.0, Component.MEMORY: 1.0, Component.NEARNESS: 1.0}))
    question = Question((), near=Near(("a",)))
    cluster.take(facts_report("n1", facts={**GOOD, "memory.availableShare": 0.03}, labels=placed("a")))
    seen = []
    for seconds in (0, 30, 300):
        cluster.pass_time(seconds)
        cluster.board.commit()
        seen.append([values[0] for values in cluster.columns(question).values()])

    assert seen == [[100, 0, 100], [UNKNOWN_VALUE, 0, UNKNOWN_VALUE], [UNKNOWN_VALUE] * 3]


def test_a_silent_node_caps_as_stale() -> None:
    """And rises again with its next report."""
    cluster, question = Cluster(), Question((NFS_A,))
    report = facts_report("n1", facts=GOOD, storages=[storage(latency_s=0.001, used=0.1)])
    cluster.take(report)
    cluster.committed(question)
    cluster.pass_time(30)
    assert cluster.board.answer(question).caps == bytes([5])
    cluster.take(report)
    assert cluster.board.answer(question).caps == bytes([10])


def test_when_the_bus_has_been_lost_for_too_long_all_nodes_are_alike() -> None:
    """Nothing is known of any of them; afterwards it is as before."""
    cluster, question = Cluster(), Question((NFS_A,))
    cluster.take(
        facts_report("n1", facts=GOOD, storages=[storage(latency_s=0.001, used=0.1)]),
        facts_report("n2", facts=POOR, storages=[storage(state=State.UNHEALTHY)]),
    )
    before = cluster.committed(question)
    cluster.pass_time(1, frozen_for=900)
    assert cluster.committed(question) == {"n1": 4, "n2": 4}
    cluster.pass_time(1)
    assert cluster.committed(question) == before


def test_an_open_breaker_caps_at_one_instead_of_nothing() -> None:
    """So many plugins cannot be dead at once; but better a node that is known to work."""
    policy = SchedulingPolicy(
        storage=StoragePolicy(DriverPolicy(unknown=Treatment.REJECT), breaker=BreakerPolicy(0.5, 3)),
        weights=NO_WEIGHTS,
    )
    cluster, question = Cluster(policy), Question((storage_key("nfs"),))
    starting = [facts_report(f"n{number}", storages=[storage("nfs", State.UNKNOWN)]) for number in range(3)]
    cluster.take(*starting[:2])
    assert cluster.scores(question) == {"n0": 0, "n1": 0}
    assert cluster.board.answer(question).default == 0
    cluster.take(starting[2])
    assert cluster.scores(question) == {"n0": 1, "n1": 1, "n2": 1}
    assert cluster.board.answer(question).default == 1
