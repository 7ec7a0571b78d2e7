"""Tables of scores are kept, caught up and dropped without anyone noticing but by the time it takes."""

import pytest

from leadsman.domain import score_board
from leadsman.domain.policy import Component, Rule, SchedulingPolicy
from leadsman.domain.requirements import Question
from leadsman.domain.score_board import ScoreBoard
from leadsman.domain.states import State
from leadsman.testing.cluster import Cluster, storage
from leadsman.testing.reports import storage_key
from leadsman.testing.rules import FactAbove, facts_report

NO_WEIGHTS = dict.fromkeys(Component, 0.0)
NFS_A = storage_key("nfs/a")
GOOD = {"cpu.idle": 0.9, "memory.availableShare": 0.8, "pressure.io.someAvg10": 0.0}
POOR = {"cpu.idle": 0.02, "memory.availableShare": 0.03, "pressure.io.someAvg10": 0.6}


def test_noise_where_all_is_well_changes_nothing() -> None:
    """Not a byte and not the generation: healthy nodes stay equal, and nothing crosses the hop."""
    cluster, question = Cluster(), Question((NFS_A,))
    idle = {"cpu.idle": 0.5, "memory.availableShare": 0.3, "pressure.io.someAvg10": 0.05}
    busier = {"cpu.idle": 0.97, "memory.availableShare": 0.61, "pressure.io.someAvg10": 0.01}
    cluster.take(facts_report("n1", facts=idle, storages=[storage(latency_s=0.005, used=0.7)]))
    cluster.board.commit()
    before = cluster.board.generation(question), cluster.board.answer(question), cluster.changes.value
    cluster.take(facts_report("n1", facts=busier, storages=[storage(latency_s=0.0003, used=0.2)]))
    cluster.board.commit()

    assert before == (cluster.board.generation(question), cluster.board.answer(question), cluster.changes.value)


def test_a_generation_grows_with_the_answer_and_only_with_it() -> None:
    """What the pod does not depend on leaves its answer alone."""
    cluster, question = Cluster(), Question((NFS_A,))
    cluster.take(facts_report("n1", facts=GOOD, storages=[storage(), storage("smb")]))
    cluster.board.commit()
    first = cluster.board.generation(question)
    cluster.take(facts_report("n1", facts=GOOD, storages=[storage(), storage("smb", State.UNHEALTHY)]))
    assert cluster.board.generation(question) == first
    cluster.take(facts_report("n1", facts=GOOD, storages=[storage(state=State.DEGRADED), storage("smb")]))
    second = cluster.board.generation(question)
    assert first < second <= cluster.changes.value
    cluster.take(facts_report("n1", facts=POOR, storages=[storage(state=State.DEGRADED), storage("smb")]))
    assert cluster.board.generation(question) == second
    cluster.board.commit()
    assert second < cluster.board.generation(question) <= cluster.changes.value


def test_a_board_for_nodes_that_are_known_already_is_filled_first() -> None:
    """As for a new policy; the changes that come in between are taken in."""
    cluster = Cluster()
    cluster.take(facts_report("n1", facts=GOOD), facts_report("n2", facts=GOOD))
    rule = Rule("idle", prefer=FactAbove("cpu.idle", 0.5))
    board = ScoreBoard(
        SchedulingPolicy(rules=(rule,), weights=NO_WEIGHTS), cluster.health, cluster.facts, cluster.changes
    )
    steps = board.fill()
    next(steps)
    cluster.take(facts_report("n2", facts=POOR), facts_report("n3", facts=GOOD))
    list(steps)

    assert dict(zip(*board.answer(Question((), (0,)))[:2], strict=True)) == {"n1": 10, "n2": 0, "n3": 10}


def test_a_closed_board_hears_nothing_more() -> None:
    """The policy before this one must not cost anything."""
    cluster = Cluster()
    cluster.board.close()
    cluster.take(facts_report("n1", facts=GOOD, storages=[storage()]))

    assert cluster.committed() == {}


def test_the_tables_used_least_recently_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers stay right, and generations never go back."""
    monkeypatch.setattr(score_board, "MAX_TABLES", 2)
    cluster = Cluster()
    cluster.take(facts_report("n1", facts=GOOD))
    cluster.board.commit()
    questions = [Question((storage_key(f"nfs/{number}"),)) for number in range(4)]
    before = [(cluster.board.answer(question), cluster.board.generation(question)) for question in questions]
    after = [(cluster.board.answer(question), cluster.board.generation(question)) for question in questions]

    assert [answer for answer, _ in after] == [answer for answer, _ in before]
    assert all(new >= old for (_, new), (_, old) in zip(after, before, strict=True))
    cluster.board.answer(questions[2])
    cluster.board.answer(questions[0])
    assert list(cluster.board._tables) == [questions[2], questions[0]]


def test_nodes_that_come_and_go_for_ever_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of nodes that are gone are dropped, and answers stay right."""
    monkeypatch.setattr(score_board, "_MAX_GONE", 3)
    cluster = Cluster(SchedulingPolicy(rules=(Rule("idle", prefer=FactAbove("cpu.idle", 0.5)),)))
    for number in range(20):
        cluster.take(facts_report(f"n{number}", facts=GOOD))
        assert cluster.committed() == {f"n{number}": 10}
        cluster.forget(f"n{number}")
        assert cluster.committed() == {}

    assert len(cluster.board._changed) <= 5
    assert not cluster.board._values._outcomes
