"""Scores are whole numbers from 0 to 10 and never rise when a state gets worse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.report import StorageKey
from leadsman.domain.scores import MAX_SCORE, score_answer
from leadsman.domain.states import State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import ScoreAnswer
from leadsman.testing.reports import index_of, report, status, storage_key

KEYS = [storage_key(text) for text in ("nfs", "nfs/a", "smb", "smb/a")]
NFS_A = storage_key("nfs/a")
SMB = storage_key("smb")
BEST_FIRST = [State.HEALTHY, State.UNKNOWN, State.DEGRADED, State.UNHEALTHY]


def score(answer: ScoreAnswer, node: str) -> int:
    return answer.scores.get(node, answer.default)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.HEALTHY, 10),
        (State.UNKNOWN, 5),
        (State.DEGRADED, 3),
        (State.UNHEALTHY, 0),
        (State.NOT_APPLICABLE, 0),
    ],
)
@pytest.mark.parametrize("storage", ["nfs", "nfs/a"])
def test_each_state_has_its_score(storage: str, state: State, expected: int) -> None:
    """The table of the module, whether the driver or only its backend is listed."""
    assert expected == score(score_answer(index_of(n1=[status(storage, state)]), (NFS_A,)), "n1")


@pytest.mark.parametrize(
    ("unknown", "expected"), [(Treatment.ALLOW, 5), (Treatment.PENALIZE, 1), (Treatment.REJECT, 0)]
)
def test_policy_decides_what_unknown_is_worth(unknown: Treatment, expected: int) -> None:
    """Nodes never heard of score like unknown ones."""
    answer = score_answer(index_of(StoragePolicy(DriverPolicy(unknown))), (NFS_A,))

    assert ScoreAnswer({}, expected) == answer


def test_the_worse_of_driver_and_backend_counts() -> None:
    """A healthy server behind a degraded plugin is a degraded storage."""
    index = index_of(n1=[status("nfs", State.DEGRADED), status("nfs/a", State.HEALTHY)])

    assert score(score_answer(index, (NFS_A,)), "n1") == 3


def test_the_worst_need_of_a_pod_counts() -> None:
    """A node that lists only one of two needed storages is unknown for the other."""
    index = index_of(n1=[status("nfs", State.HEALTHY)], n2=[status("smb", State.UNHEALTHY)])
    answer = score_answer(index, (NFS_A, SMB))

    assert [score(answer, node) for node in ("n1", "n2", "never heard of")] == [5, 0, 5]


def test_a_pod_without_needs_has_no_preference() -> None:
    """Every node gets the same."""
    assert ScoreAnswer({}, MAX_SCORE) == score_answer(index_of(n1=[status("nfs", State.UNHEALTHY)]), ())


World = dict[str, dict[str, State]]
WORLDS = st.dictionaries(
    st.sampled_from(["n1", "n2", "n3"]),
    st.dictionaries(st.sampled_from([str(key) for key in KEYS]), st.sampled_from(BEST_FIRST), min_size=1),
    min_size=1,
)
NEEDS = st.sets(st.sampled_from(KEYS), min_size=1).map(lambda needs: tuple(sorted(needs)))


def answer_to(world: World, needs: tuple[StorageKey, ...]) -> ScoreAnswer:
    index = HealthIndex(StoragePolicy())
    for node, states in world.items():
        index.apply(report(node, *[status(text, state) for text, state in states.items()]), 0, 0)
    return score_answer(index, needs)


@given(world=WORLDS, needs=NEEDS, data=st.data())
def test_scores_stay_in_range_and_never_rise_when_a_state_gets_worse(
    world: World, needs: tuple[StorageKey, ...], data: st.DataObject
) -> None:
    """Monotone in every storage of every node, and the other nodes keep their scores."""
    before = answer_to(world, needs)
    node = data.draw(st.sampled_from(sorted(world)))
    storage = data.draw(st.sampled_from(sorted(world[node])))
    rank = BEST_FIRST.index(world[node][storage])
    worse = data.draw(st.sampled_from(BEST_FIRST[rank:]))
    after = answer_to({**world, node: {**world[node], storage: worse}}, needs)

    assert all(0 <= value <= MAX_SCORE for value in [before.default, *before.scores.values()])
    assert score(after, node) <= score(before, node)
    assert all(score(after, other) == score(before, other) for other in world if other != node)
