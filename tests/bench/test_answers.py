"""Reading answers and knowing the right ones."""

from leadsman.domain.report import Sequence
from leadsman_bench import answers, fleet
from leadsman_bench.answers import Answer
from leadsman_bench.node_objects import node_name
from leadsman_bench.payloads import Body


def test_a_tenth_of_the_nodes_is_rejected_for_four_reasons() -> None:
    """One reason alone would flatter whoever packs reasons."""
    expected = answers.expected_filter(Body(500))
    assert len(expected.passing) == 450
    assert len(set(expected.rejected.values())) == 4
    assert node_name(3) in expected.rejected


def test_a_pod_without_storage_may_go_anywhere() -> None:
    """The fast path rejects nobody."""
    assert answers.expected_filter(Body(500, storage=False)).rejected == {}


def test_both_maps_of_rejected_nodes_and_both_forms_of_nodes_are_read() -> None:
    """Servers may differ in form, not in meaning."""
    full = {"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "FailedNodes": {"b": "no"}, "NodeNames": None}
    names = {"NodeNames": ["a"], "FailedAndUnresolvableNodes": {"b": "no"}, "Error": ""}
    assert answers.read_filter(full) == answers.read_filter(names) == Answer(["a"], {"b": "no"}, "")


def test_reports_say_what_the_right_answer_rests_on() -> None:
    """A node is rejected exactly if its report has an UNHEALTHY state of the pod's driver."""
    for number in range(60):
        report = fleet.report(number, Sequence(1, 1))
        bad = [one for one in report.storages if one.state.value == "UNHEALTHY"]
        assert bool(bad) == (node_name(number) in fleet.rejections(60))
        assert all(one.key.driver == fleet.DRIVER for one in bad)
