"""What an expression reads: rules are evaluated again only when that changes, so nothing may be missing in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.config.cel_test import CelTest
from leadsman.config.cel_variables import ENVIRONMENT, VARIABLES, NodeActivation
from leadsman.domain.fact_table import FACTS
from leadsman.domain.node_facts import NodeFacts

SPACES = st.sampled_from(["", " ", "\t", "\n", "  \n ", " // comment, node.memory\n"])


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("true", set()),
        ("node.name == 'a'", {"name"}),
        ("node.cpu.idle > 0.1", {"cpu.idle"}),
        ("node.`cpu`.idle > 0.1", {"cpu.idle"}),
        (".node.cpu.idle > 0.1", {"cpu.idle"}),
        ("(node).cpu.idle > 0.1", {"cpu.idle"}),
        ("((node.cpu).idle) > 0.1", {"cpu.idle"}),
        ("node // here\n . cpu\n\t.idle > 0.1", {"cpu.idle"}),
        ("dyn(node.load.`1m`) > 0.1", {"load.1m"}),
        ("true || node.cpu.idle > 0.1", {"cpu.idle"}),
        ("node.cpu.count > 1 ? node.gpu.count > 1 : node.cpu.idle > 0.1", {"cpu.count", "gpu.count", "cpu.idle"}),
        ("[1].exists(i, [i].all(j, node.cpu.count > j))", {"cpu.count"}),
        ("{'a': node.cpu.idle}['a'] > 0.1", {"cpu.idle"}),
        ("node.labels.a == 'b' && has(node.labels.c) && 'd' in node.labels", {"labels"}),
        ("node.zone == node.region", {"labels"}),
        ("'cpu.idle' in node.facts", {"facts"}),
        ("node.facts.exists(key, key == node.name)", {"facts", "name"}),
        ("node.storage.used['nfs'] > 0.1 || node.storage.state['nfs'] == 'HEALTHY'", {"storage"}),
        ("[1].all(node, node == 1)", set()),
    ],
)
def test_reads_are_all_that_the_expression_depends_on(text: str, reads: set[str]) -> None:
    """However it is written; taken from the compiled expression, where names are resolved."""
    assert CelTest(text, "require").reads == reads


def test_a_name_in_a_text_may_count_as_read() -> None:
    """It costs an evaluation that changes nothing."""
    assert CelTest("node.labels.a == 'node.cpu.idle'", "require").reads == {"labels", "cpu.idle"}


@given(
    name=st.sampled_from(sorted(FACTS)),
    gaps=st.lists(SPACES, min_size=8, max_size=8),
    quoted=st.booleans(),
    shape=st.sampled_from(
        ["type({}) == int", "(({})) == {}", "dyn({}) != 1", "[{}].size() == 1", "[1].all(x, dyn({}) == x)"]
    ),
)
def test_no_way_of_writing_a_fact_hides_it(name: str, gaps: list[str], *, quoted: bool, shape: str) -> None:
    """Spaces, comments and quotes between the parts of its name, brackets and macros around it."""
    parts = [f"`{part}`" if quoted or part[0].isdigit() else part for part in name.split(".")]
    written = "node" + "".join(f"{gap}.{other}{part}" for gap, other, part in zip(gaps, gaps[3:], parts, strict=False))
    assert CelTest(shape.replace("{}", written), "require").reads == {name}


@pytest.mark.parametrize("name", VARIABLES)
def test_what_is_not_read_does_not_matter(name: str) -> None:
    """Every variable alone: no other one is given to the expression, and it works all the same."""
    written = "node." + ".".join(f"`{part}`" if part[0].isdigit() else part for part in name.split(".")[1:])
    test = CelTest(f"type({written}) != int || true", "require")
    assert test.reads == {VARIABLES[name].reads}
    assert test.evaluate(NodeFacts("node-1")) == 1


class Counting(NodeActivation):
    """Counts how often values of a node are put together."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def of(self, node: NodeFacts) -> object:
        """Each new activation is another object."""
        before, values = self._last, super().of(node)
        if self._last is not before:
            self.made.append(node.node)
        return values


def test_the_tests_of_a_policy_put_together_what_they_read_of_a_node_once() -> None:
    """A node's rules run one after the other."""
    values = Counting()
    tests = [CelTest(text, "require", values) for text in ("node.cpu.idle > 0.1", "node.name == 'a'", "true")]
    for name in ("a", "b"):
        node = NodeFacts(name, facts={"cpu.idle": 0.5})
        assert [test.evaluate(node) for test in tests] == [1, name == "a", 1]
    assert values.made == ["a", "b"]


def test_a_test_that_comes_later_adds_what_it_reads() -> None:
    """Even between two looks at the same node."""
    values, node = NodeActivation(), NodeFacts("a", facts={"cpu.idle": 0.5})
    assert CelTest("node.name == 'a'", "require", values).evaluate(node) == 1
    assert CelTest("node.cpu.idle > 0.1", "require", values).evaluate(node) == 1


def test_the_language_has_no_extensions() -> None:
    """What is not in the specification may change with the library."""
    for text in (
        "'a'.charAt(0) == 'a'",
        "math.least(1, 2) == 1",
        "optional.of(1).hasValue()",
        "cel.bind(x, 1, x == 1)",
    ):
        with pytest.raises(RuntimeError, match="undeclared reference"):
            ENVIRONMENT.compile(text)
