import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.bus.errors import SubjectError
from leadsman.bus.subjects import decision_subject, status_subject

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


def test_a_dotted_node_name_becomes_one_token():
    """Node names such as those of EC2 hold dots, which would split a subject."""
    assert status_subject("ip-10-0-0-1.eu-west-1.internal") == "leadsman.v1.status.ip-10-0-0-1_eu-west-1_internal"


@given(st.lists(LABELS, min_size=1, max_size=5).map(".".join))
def test_every_node_name_survives_the_way_there_and_back(node):
    """Mapping to a subject loses nothing, and always gives one token."""
    subject = status_subject(node)
    assert subject.count(".") == 3
    assert subject.removeprefix("leadsman.v1.status.").replace("_", ".") == node


@pytest.mark.parametrize("node", ["", "a_b", "*", ">", "a.*", "A", "a..b", ".a", "a.", "-a", "a b", "a\n", "x" * 254])
def test_what_is_no_node_name_is_refused_with_advice(node):
    """Underscores, wildcards and anything Kubernetes would refuse never reach a subject."""
    with pytest.raises(SubjectError, match=r"is not a node name .* use the name of the Kubernetes Node object"):
        status_subject(node)


DRIVERS = st.lists(
    st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9]{0,10}[A-Za-z0-9])?", fullmatch=True), min_size=1, max_size=4
)


@given(DRIVERS.map(".".join).filter(lambda name: len(name) <= 63))
def test_every_driver_name_survives_the_way_there_and_back(driver):
    """One token after the node's; upper case stays, so that no two drivers share a subject."""
    subject = status_subject("a.b", driver)
    assert subject.count(".") == 4
    assert subject.removeprefix("leadsman.v1.status.a_b.").replace("_", ".") == driver


@pytest.mark.parametrize(
    "driver", ["a_b", "*", ">", "a.*", "a..b", ".a", "a.", "-a", "a b", "a\n", "kubernetes.io/nfs", "x" * 64, "\u212a"]
)
def test_what_is_no_driver_name_is_refused_with_advice(driver):
    """The last one is a Kelvin sign, which is a K when case is ignored."""
    with pytest.raises(SubjectError, match=r"is not a CSI driver name .* use the name that the driver's GetPluginInfo"):
        status_subject("node-1", driver)


def test_decision_subjects_are_one_per_verb():
    """A verb is a plain word, so that nobody can leave the decision prefix."""
    assert decision_subject("filter") == "leadsman.v1.decision.filter"
    with pytest.raises(SubjectError):
        decision_subject("a.b")
