"""Rules on node labels."""

import pytest

from leadsman.domain.label_test import LabelTest
from leadsman.domain.node_facts import NodeFacts
from leadsman.domain.pod_selectors import Operator, Term
from leadsman.domain.policy import UndecidedError

GPU = Term("node-type", Operator.IN, ("gpu",))
BIG = Term("cores", Operator.GT, ("8",))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"node-type": "gpu", "cores": "16"}, 1),
        ({"node-type": "gpu", "cores": "8"}, 0),
        ({"node-type": "cpu", "cores": "16"}, 0),
        ({"cores": "16"}, 0),
        ({}, 0),
    ],
)
def test_a_node_fits_when_every_term_holds(labels, expected):
    """A label that is absent decides against the node; it does not leave the rule undecided."""
    assert LabelTest((GPU, BIG)).evaluate(NodeFacts("node-1", labels)) == expected


def test_labels_that_nobody_has_reported_decide_nothing():
    """A sidecar alone knows a storage, not the labels; they must not be taken for absent ones."""
    with pytest.raises(UndecidedError, match="no agent of it has reported"):
        LabelTest((Term("spot", Operator.DOES_NOT_EXIST),)).evaluate(NodeFacts("node-1", reported=False))


def test_it_depends_on_labels_alone():
    """So news of load does not run it again."""
    assert LabelTest((GPU,)).reads == {"labels"}


def test_tests_of_the_same_terms_are_equal():
    """Rules that ask the same are evaluated once."""
    assert LabelTest((GPU,)) == LabelTest((GPU,))
    assert hash(LabelTest((GPU,))) == hash(LabelTest((GPU,)))
    assert LabelTest((GPU,)) != LabelTest((BIG,))
