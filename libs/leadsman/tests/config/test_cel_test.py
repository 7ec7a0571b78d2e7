"""CEL expressions over a node: what loads, what it gives, and what cannot be decided."""

import pytest

from leadsman.config.cel_test import MAX_LENGTH, CelError, CelTest, Use
from leadsman.domain.node_facts import REGION, ZONE, FactValue, NodeFacts, StorageFacts
from leadsman.domain.policy import UndecidedError
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State

NFS = StorageKey("nfs.csi.k8s.io", "10.0.0.5")
EBS = StorageKey("ebs.csi.aws.com")
NODE = NodeFacts(
    "node-1",
    labels={"node-type": "gpu"},
    facts={"cpu.idle": 0.5, "cpu.count": 8.0, "gpu.count": 2.0, "gpu.model": "NVIDIA H100"},
    storages={
        NFS: StorageFacts(State.HEALTHY, latency_s=0.004, used=0.25, inodes_used=0.75),
        EBS: StorageFacts(State.UNHEALTHY, attach_limit=25, attached=24),
    },
)
ON_NFS = "['nfs.csi.k8s.io/10.0.0.5']"
ON_EBS = "['ebs.csi.aws.com']"


def with_fact(name: str, value: FactValue) -> NodeFacts:
    return NODE._replace(facts={**NODE.facts, name: value})


def value_of(text: str, use: Use = "require", node: NodeFacts = NODE) -> float:
    return CelTest(text, use).evaluate(node)


def why_undecided(text: str, use: Use = "require", node: NodeFacts = NODE) -> str:
    with pytest.raises(UndecidedError) as caught:
        value_of(text, use, node)
    return str(caught.value)


def why_refused(text: str, use: Use = "require") -> tuple[str, ...]:
    with pytest.raises(CelError) as caught:
        CelTest(text, use)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node.cpu.idle >= 0.5", 1),
        ("node.cpu.idle > 0.5", 0),
        ("node.cpu.count == 8 && node.gpu.count >= 1", 1),
        ("node.gpu.model.contains('H100')", 1),
        ("node.labels['node-type'] == 'gpu'", 1),
        ("'node-type' in node.labels", 1),
        ("has(node.labels.tier)", 0),
        ("node.name.startsWith('node-')", 1),
        ("'gpu.count' in node.facts", 1),
        ("'gpu.driverMajor' in node.facts", 0),
        ("!('gpu.driverMajor' in node.facts) || node.gpu.driverMajor >= 550", 1),
        ("node.facts['cpu.idle'] > 0.4", 1),
        (f"node.storage.latencySeconds{ON_NFS} < 0.01", 1),
        (f"node.storage.used{ON_NFS} < node.storage.inodesUsed{ON_NFS}", 1),
        (f"node.storage.state{ON_EBS} == 'UNHEALTHY'", 1),
        (f"node.storage.attachLimit{ON_EBS} == 25 && node.storage.attachFree{ON_EBS} == 1", 1),
        ("'ebs.csi.aws.com' in node.storage.used", 0),
        ("node.storage.state.exists(key, key.startsWith('nfs') && node.storage.state[key] == 'HEALTHY')", 1),
    ],
)
def test_a_requirement_says_yes_or_no(text: str, expected: float) -> None:
    """Facts by name, labels and storages as maps, with the types of the table of facts."""
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node.cpu.idle", 0.5),
        ("node.cpu.idle * 4.0", 1),
        ("node.cpu.idle - 2.0", 0),
        ("node.gpu.count", 1),
        ("true", 1),
    ],
)
def test_a_preference_is_cut_to_0_to_1(text: str, expected: float) -> None:
    """So that a rule weighs what its weight says, and no more."""
    assert value_of(text, "prefer") == expected


def test_attach_slots_never_fall_below_none() -> None:
    """More may be attached than the driver allows, when its limit has shrunk."""
    node = NODE._replace(storages={EBS: StorageFacts(State.HEALTHY, attach_limit=5, attached=7)})
    assert value_of(f"node.storage.attachFree{ON_EBS} == 0", node=node) == 1


def test_zone_and_region_are_the_labels() -> None:
    """Short for the two long keys."""
    node = NODE._replace(labels={ZONE: "eu-west-1a", REGION: "eu-west-1"})
    assert value_of("node.zone == 'eu-west-1a' && node.region == 'eu-west-1'", node=node) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node.cpu.mhz > 1.0", "node.cpu.mhz is not known"),
        ("node.zone == 'a'", "node.zone is not known"),
        ("node.region == 'a'", "node.region is not known"),
        ("node.labels.tier == 'x'", "the expression looks up the key 'tier' in a map that does not have it"),
        (f"node.storage.attachFree{ON_NFS} > 0", "the expression looks up the key 'nfs.csi.k8s.io/10.0.0.5' in a map"),
        ("1 / (node.cpu.count - 8) > 0", "the expression fails: divide by zero"),
        ("node.cpu.count * 9223372036854775807 > 0", "the expression fails: integer overflow"),
        ("node.facts[node.name] == 1.0", "the expression looks up the key in a map that does not have it"),
    ],
)
def test_what_is_not_known_or_fails_is_undecided(text: str, words: str) -> None:
    """Neither a yes nor a no, and the words hold nothing that changes from report to report."""
    assert why_undecided(text).startswith(words)


@pytest.mark.parametrize("text", ["node.cpu.idle / 0.0", "0.0 / 0.0", "double('nan')"])
def test_a_preference_that_is_no_finite_number_is_undecided(text: str) -> None:
    """Infinity would be a full score for a division by zero."""
    assert why_undecided(text, "prefer") == "the expression gives no finite number"


@pytest.mark.parametrize("value", [8.5, float("nan"), float("inf"), 1e300, "8"])
def test_a_count_that_is_none_is_not_known(value: FactValue) -> None:
    """A broken report must not be rounded into a verdict."""
    assert why_undecided("node.cpu.count > 0", node=with_fact("cpu.count", value)) == "node.cpu.count is not known"
    assert value_of("'cpu.count' in node.facts", node=with_fact("cpu.count", value)) == 0


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), "0.5"])
def test_a_number_that_is_none_is_not_known(value: FactValue) -> None:
    """Comparing with NaN would be a silent no."""
    assert why_undecided("node.cpu.idle < 0.9", node=with_fact("cpu.idle", value)) == "node.cpu.idle is not known"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node.cpu.mhz > 1.0 || node.cpu.idle > 0.1", 1),
        ("node.cpu.idle > 0.1 || node.cpu.mhz > 1.0", 1),
        ("node.cpu.mhz > 1.0 && node.cpu.idle > 0.9", 0),
    ],
)
def test_what_is_not_known_does_not_matter_where_the_other_side_decides(text: str, expected: float) -> None:
    """As CEL defines || and &&, on either side."""
    assert value_of(text) == expected


def test_nothing_is_known_of_labels_and_facts_before_the_agent_reports() -> None:
    """Storages may be: a sidecar tells of them."""
    node = NODE._replace(labels={}, facts={}, reported=False)
    assert why_undecided("'tier' in node.labels", node=node) == "node.labels is not known"
    assert why_undecided("'gpu.count' in node.facts", node=node) == "node.facts is not known"
    assert value_of(f"node.storage.state{ON_NFS} == 'HEALTHY'", node=node) == 1


def test_text_that_cel_cannot_hold_is_undecided() -> None:
    """Half of a surrogate pair, if one came through."""
    assert why_undecided("node.gpu.model == 'x'", node=with_fact("gpu.model", "\ud800"))


@pytest.mark.parametrize(
    ("text", "use", "words"),
    [
        ("  ", "require", "is empty; write an expression such as 'node.gpu.count >= 1'"),
        ("node.cpu.idle", "require", "gives double, but require.cel must give true or false"),
        ("'fast'", "prefer", "gives string, but prefer.cel must give true or false, or a number from 0 to 1"),
        ("node.facts['cpu.idle']", "prefer", "gives dyn, but prefer.cel must give true or false, or a number from 0"),
        ("node.gpu.drvMajor > 1", "require", "column 9: unknown name 'node.gpu.drvMajor'; did you mean 'node.gpu.driv"),
        ("gpu.count > 1", "require", "column 4: unknown name 'gpu.count'; did you mean 'node.gpu.count'?"),
        ("zzz == 1", "require", "column 1: unknown name 'zzz'; all names begin with node. ('leadsman policy facts'"),
        ("node.cpu == 1", "require", "column 5: unknown name 'node.cpu'; did you mean 'node.cpu.mhz'?"),
        (
            "node.name.startWith('a')",
            "require",
            "column 20: unknown function 'startWith'; did you mean 'startsWith'?",
        ),
        (
            "node.cpu.idle > 0",
            "require",
            (
                "column 15: '>' cannot take (double, int); int and double do not mix: write 0.5 or 1.0 beside a "
                "number, 1 beside a whole number, or double(...)"
            ),
        ),
        ("node.gpu.count > 0.5", "require", "column 16: '>' cannot take (int, double); int and double do not mix"),
        ("node.cpu.idle == null", "require", "column 15: '==' cannot take (double, null_type)"),
        ("node.cpu.idle >", "require", "column 16: Syntax error: mismatched input the end of the expression"),
        ("true &&\n  node.gpu.x == 1", "require", "line 2, column 11: unknown name 'node.gpu.x'"),
        ("node.load.1m > 0.5", "require", "column 10: Syntax error: mismatched input '.1'; write node.load.`1m`"),
        (
            "has(node.cpu.idle)",
            "require",
            "column 1: has() cannot tell whether node.cpu.idle is known; write 'cpu.idle'",
        ),
        ("has(node.labels)", "require", "column 1: has() cannot tell whether node.labels is known; has() takes a key"),
        ("'cpu.idel' in node.facts", "require", "column 1: no fact is called 'cpu.idel'; did you mean 'cpu.idle'?"),
        ("node.facts['cpu.idel'] > 1", "require", "column 1: no fact is called 'cpu.idel'; did you mean 'cpu.idle'?"),
        ("node.name.matches('(')", "require", "the pattern of matches() is not one of RE2: missing )"),
        (" + ".join(["1"] * 40) + " > 1", "require", "is nested, or chained as in a + b + c, more than 32 times over"),
        ("(" * 2000, "require", "is nested, or chained as in a + b + c, more than 32 times over"),
        ("true" + " " * MAX_LENGTH, "require", f"{MAX_LENGTH + 4} characters, over the limit of {MAX_LENGTH}"),
    ],
)
def test_a_mistake_is_found_at_load_with_its_place_and_a_way_out(text: str, use: Use, words: str) -> None:
    """Types are checked, so no node is needed to find it."""
    (problem,) = why_refused(text, use)
    assert problem.startswith(words)


def test_all_mistakes_of_an_expression_are_told_at_once() -> None:
    """In the order in which they stand there."""
    first, second = why_refused("node.gpu.cuont > 1 && node.cpu.idel > 0.5")
    assert "'node.gpu.count'" in first
    assert "'node.cpu.idle'" in second


def test_the_longest_expression_that_is_taken() -> None:
    """The limit itself is within."""
    assert value_of("true".ljust(MAX_LENGTH)) == 1


def test_an_endless_comprehension_is_refused_where_every_node_shows_it() -> None:
    """Four nested loops over ten numbers are 10,000 steps and more."""
    ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    text = f"{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, a + b + c + d >= 0))))"
    assert why_refused(text)[0].startswith("takes more than 10,000 steps of all()")


def test_an_endless_comprehension_on_one_node_is_undecided() -> None:
    """Its labels are many; the evaluation ends there, and the process goes on."""
    node = NODE._replace(labels={f"key-{number}": "x" for number in range(40)})
    text = "node.labels.all(a, node.labels.all(b, node.labels.all(c, a + b + c != '')))"
    assert value_of(text) == 1
    assert "budget" in why_undecided(text, node=node)


def test_tests_of_the_same_text_are_equal() -> None:
    """Rules that ask the same share an evaluation."""
    one, same, other = CelTest("true", "require"), CelTest("true", "prefer"), CelTest("false", "require")
    assert one == same
    assert len({one, same, other}) == 2
    assert one != "true"
    assert repr(one) == "CelTest('true')"


@pytest.mark.parametrize("text", ["{node.cpu.idle: 1}", "{null: 1}", "type({1.0: 1})"])
def test_a_type_that_the_library_has_no_name_for_is_a_mistake_like_any_other(text: str) -> None:
    """It compiles, and asking for its type raises: that must not end a service."""
    with pytest.raises(CelError, match="gives something else, but require"):
        CelTest(text, "require")


def test_what_takes_long_on_one_node_is_refused() -> None:
    """Its steps are few, but each is a pattern that takes half a millisecond: on 5,000 nodes all else would stop."""
    loop = "[" + ",".join("0" for _ in range(25)) + "]"
    pattern = "(a|a?)*b{900}$"
    with pytest.raises(CelError, match="takes too long"):
        CelTest(f"{loop}.all(a, {loop}.all(b, !(node.name + 'b').matches('{pattern}')))", "require")
