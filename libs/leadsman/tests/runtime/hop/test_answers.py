"""Encoded answers are made once per change, keep their generation while the content is the same, and stay bounded."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.rejections import storage_answer
from leadsman.domain.requirements import Needs
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.runtime.hop.answers import AnswerCache
from leadsman.testing.reports import report, status, storage_key

NFS = (storage_key("nfs"),)
SMB = (storage_key("smb"),)


class Renderer:
    """Renders the rejected nodes as text and counts how often it had to."""

    def __init__(self, index: HealthIndex) -> None:
        self.calls = 0
        self._index = index

    def __call__(self, needs: Needs) -> bytes:
        self.calls += 1
        return repr(sorted(storage_answer(self._index, needs).rejected.items())).encode()


def new_index() -> tuple[HealthIndex, ChangeCounter]:
    changes = ChangeCounter()
    return HealthIndex(StoragePolicy(), changes), changes


def say(index: HealthIndex, storage: str, state: State) -> None:
    index.apply(report("n1", status(storage, state)), 0, 0)


def test_an_answer_is_made_once_as_long_as_nothing_it_depends_on_changes() -> None:
    """Neither repeated requests nor changes of other storages cost anything."""
    index, changes = new_index()
    renderer = Renderer(index)
    say(index, "nfs", State.UNHEALTHY)
    cache = AnswerCache(changes, renderer, index.generation)
    first = cache.get(NFS)
    index.apply(report("n2", status("smb", State.UNHEALTHY)), 0, 0)

    assert cache.get(NFS).generation == first.generation
    assert cache.get(NFS).payload is first.payload
    assert renderer.calls == 1


def test_a_change_of_state_without_a_change_of_verdict_keeps_the_generation() -> None:
    """A gateway that holds the answer is told that it is unchanged."""
    index, changes = new_index()
    say(index, "nfs", State.HEALTHY)
    cache = AnswerCache(changes, Renderer(index), index.generation)
    first = cache.get(NFS)
    say(index, "nfs", State.DEGRADED)
    assert cache.get(NFS).generation == first.generation

    say(index, "nfs", State.UNHEALTHY)
    assert cache.get(NFS).generation > first.generation
    assert b"n1" in cache.get(NFS).payload


def test_the_least_recently_used_answer_goes_first() -> None:
    """Number and size are limited; what is asked for again comes back right."""
    index, changes = new_index()
    renderer = Renderer(index)
    say(index, "nfs", State.UNHEALTHY)
    cache = AnswerCache(changes, renderer, index.generation, max_answers=2)
    for needs in (NFS, SMB, NFS, (storage_key("x"),), NFS):
        cache.get(needs)
    assert renderer.calls == 3
    assert len(cache) == 2
    cache.get(SMB)
    assert renderer.calls == 4

    small = AnswerCache(changes, lambda _: b"x" * 60, index.generation, max_bytes=100)
    for needs in (NFS, SMB, NFS):
        assert small.get(needs).payload == b"x" * 60
        assert (len(small), small.size_bytes) == (1, 60)


def test_what_is_made_by_other_rules_is_not_taken_for_the_answer_of_before() -> None:
    """After `clear` even the same content has a generation that no gateway can hold."""
    index, changes = new_index()
    say(index, "nfs", State.UNHEALTHY)
    cache = AnswerCache(changes, Renderer(index), index.generation)
    before = cache.get(NFS)
    cache.clear()
    assert (len(cache), cache.size_bytes) == (0, 0)
    assert cache.get(NFS).generation > before.generation
    assert cache.get(NFS).payload == before.payload


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["n1", "n2"]),
        st.dictionaries(st.sampled_from(["nfs", "nfs/a", "smb"]), st.sampled_from(list(State))),
        st.sampled_from([NFS, SMB, (storage_key("nfs/a"), storage_key("smb"))]),
    ),
    max_size=20,
)


@given(steps=STEPS)
def test_a_cached_answer_is_the_answer_and_its_generation_stands_for_it(
    steps: list[tuple[str, dict[str, State], Needs]],
) -> None:
    """After any history, also with evictions, content equals a fresh rendering and no generation means two things."""
    index, changes = new_index()
    render = Renderer(index)
    cache = AnswerCache(changes, render, index.generation, max_answers=2)
    meaning: dict[tuple[Needs, int], bytes] = {}
    for node, states, needs in steps:
        index.apply(report(node, *[status(text, state) for text, state in states.items()]), 0, 0)
        answer = cache.get(needs)
        assert answer.payload == render(needs)
        assert meaning.setdefault((needs, answer.generation), answer.payload) == answer.payload
