"""Scores are whole numbers from 0 to 10, monotone, and the same in whatever order things come."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.domain.node_facts import ZONE
from leadsman.domain.policy import DEFAULT_WEIGHTS, Component, Rule, SchedulingPolicy
from leadsman.domain.report import NodeReport, Sequence
from leadsman.domain.requirements import Near, Question
from leadsman.domain.states import State
from leadsman.domain.verdicts import ScoreAnswer
from leadsman.testing.cluster import Cluster, placed, storage
from leadsman.testing.reports import storage_key
from leadsman.testing.rules import FactAbove, LabelIs, facts_report

FACTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu.idle": st.floats(0, 1),
        "memory.availableShare": st.floats(0, 1),
        "pressure.io.someAvg10": st.floats(0, 1),
        "disk.utilizationMax": st.floats(0, 1),
    },
)
NUMBERS = st.fixed_dictionaries({}, optional={"latency_s": st.floats(0, 1), "used": st.floats(0, 1)})
STATES = st.sampled_from([State.HEALTHY, State.UNKNOWN, State.DEGRADED, State.UNHEALTHY])
STORAGES = st.dictionaries(st.sampled_from(["nfs", "nfs/a", "smb"]), st.tuples(STATES, NUMBERS), max_size=3)
PLACES = st.sampled_from([placed(), placed("a", "eu"), placed("b", "eu"), placed("c", "us")])
RULES = (
    Rule("idle", prefer=FactAbove("cpu.idle", 0.5), weight=2),
    Rule("near", prefer=LabelIs(ZONE, "a"), weight=0.3),
    Rule("shown", prefer=LabelIs(ZONE, "b"), enforce=False),
)
NEEDS = st.sets(st.sampled_from([storage_key(text) for text in ("nfs/a", "nfs/b", "smb")])).map(sorted).map(tuple)
ASKED = st.sets(st.integers(0, len(RULES) - 1)).map(sorted).map(tuple)
NEARS = st.sampled_from([Near(), Near(("a",)), Near(("a", "c")), Near((), ("us",))])
QUESTIONS = st.builds(Question, NEEDS, ASKED, NEARS)


@st.composite
def worlds(draw: st.DrawFn) -> list[NodeReport]:
    return [
        facts_report(
            f"n{number}",
            labels=draw(PLACES),
            facts=draw(FACTS),
            storages=[storage(text, state, **numbers) for text, (state, numbers) in draw(STORAGES).items()],
        )
        for number in range(draw(st.integers(1, 4)))
    ]


def answer_to(world: list[NodeReport], question: Question, rules: tuple[Rule, ...] = RULES) -> ScoreAnswer:
    cluster = Cluster(SchedulingPolicy(rules=rules, weights={**DEFAULT_WEIGHTS, Component.GPU: 1.0}))
    cluster.take(*world)
    cluster.board.commit()
    return cluster.board.answer(question)


def content(answer: ScoreAnswer) -> Mapping[str, object]:
    """What an answer says of each node and of all others, in whatever order it names them."""
    columns = [list(column.values) for column in answer.columns]
    rows = zip(answer.nodes, answer.scores, answer.caps, *columns, strict=True)
    return {node: values for node, *values in rows} | {"": [answer.default, *[c[:2] for c in answer.columns]]}


@settings(max_examples=30)
@given(world=worlds(), question=QUESTIONS, data=st.data())
def test_the_same_reports_in_another_order_give_the_same_bytes(
    world: list[NodeReport], question: Question, data: st.DataObject
) -> None:
    """So do the same needs in another order; and no score is above its cap or outside 0 to 10."""
    before = answer_to(world, question)
    again = question._replace(needs=tuple(data.draw(st.permutations(question.needs))))

    assert answer_to(data.draw(st.permutations(world)), again) == before
    assert all(0 <= value <= cap <= 10 for value, cap in zip(before.scores, before.caps, strict=True))
    assert 0 <= before.default <= 10


@settings(max_examples=30)
@given(world=worlds(), question=QUESTIONS)
def test_the_order_of_rules_changes_no_score(world: list[NodeReport], question: Question) -> None:
    """It is the order of the columns, and no more."""
    turned = question._replace(rules=tuple(sorted(2 - number for number in question.rules)))
    one, other = answer_to(world, question), answer_to(world, turned, RULES[::-1])

    assert (one.nodes, one.scores, one.caps, one.default) == (other.nodes, other.scores, other.caps, other.default)
    assert sorted(one.columns) == sorted(other.columns)


@settings(max_examples=30)
@given(world=worlds(), question=QUESTIONS)
def test_equal_nodes_have_equal_scores(world: list[NodeReport], question: Question) -> None:
    """Whatever they are called."""
    twins = [
        NodeReport(f"{one.node}-twin", Sequence(1, 1), 10.0, one.storages, labels=one.labels, facts=one.facts)
        for one in world
    ]
    found = content(answer_to([*world, *twins], question))

    assert all(found[one.node] == found[f"{one.node}-twin"] for one in world)


@settings(max_examples=30)
@given(world=worlds(), question=QUESTIONS, data=st.data())
def test_better_facts_and_states_never_lower_a_score(
    world: list[NodeReport], question: Question, data: st.DataObject
) -> None:
    """Of the node that gets better; the others keep theirs."""
    place = data.draw(st.integers(0, len(world) - 1))
    before = answer_to(world, question)
    after = answer_to([*world[:place], better(world[place], data), *world[place + 1 :]], question)
    pairs = list(zip(before.scores, after.scores, strict=True))

    assert pairs[place][1] >= pairs[place][0]
    assert [old for number, (old, _) in enumerate(pairs) if number != place] == [
        new for number, (_, new) in enumerate(pairs) if number != place
    ]


def better(one: NodeReport, data: st.DataObject) -> NodeReport:
    """The same node with numbers and states that are as good or better; what is not known stays so."""

    def up(value: float) -> float:
        return data.draw(st.floats(value, 1))

    def down(value: float) -> float:
        return data.draw(st.floats(0, value))

    more_is_better = {"cpu.idle", "memory.availableShare"}
    best_first = [State.HEALTHY, State.UNKNOWN, State.DEGRADED, State.UNHEALTHY]
    return facts_report(
        one.node,
        labels=one.labels,
        facts={name: (up if name in more_is_better else down)(float(value)) for name, value in one.facts.items()},
        storages=[
            storage(
                str(each.key),
                data.draw(st.sampled_from(best_first[: best_first.index(each.state) + 1])),
                None if each.latency_s is None else down(each.latency_s),
                None if each.used is None else down(each.used),
            )
            for each in one.storages
        ],
    )
