"""A node's agent and its sidecars are heard together: the union of what they list, each word at its own age."""

import itertools

import pytest

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health import STALE, Health, health, prevailing
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.reasons import Reason, evidence_of
from leadsman.domain.rejections import storage_answer
from leadsman.domain.report import NodeReport, StorageKey, node_of
from leadsman.domain.states import Evidence, State
from leadsman.domain.storage_policy import DriverPolicy, StoragePolicy, Treatment
from leadsman.testing.reports import report, status, storage_key

NFS = storage_key("nfs")
SMB = storage_key("smb")


def made(state: State, reason: Reason | None = None) -> Health:
    return health(state, reason, evidence_of(reason) if reason else Evidence.CONTROL_PLANE)


FINE = made(State.HEALTHY)
SLOW = made(State.DEGRADED, Reason.HIGH_LATENCY)
ABSENT = made(State.NOT_APPLICABLE, Reason.DRIVER_NOT_REGISTERED)
HUNG = made(State.UNHEALTHY, Reason.MOUNT_HUNG)
REFUSED = made(State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
NO_KERNEL_SUPPORT = made(State.UNHEALTHY, Reason.KERNEL_SUPPORT_MISSING)
STARTING = made(State.UNKNOWN, Reason.DRIVER_STARTING)


def state_of(index: HealthIndex, key: StorageKey, node: str = "n1") -> tuple[State, Reason | None] | None:
    found = [index.in_state(key, state)[node] for state in State if node in index.in_state(key, state)]
    assert len(found) <= 1
    return (found[0].state, found[0].reason) if found else None


def heard(*reports: NodeReport, policy: StoragePolicy | None = None) -> HealthIndex:
    index = HealthIndex(policy or StoragePolicy(), ChangeCounter())
    for one in reports:
        index.apply(one, 0, 0)
    return index


WORST_FIRST = [HUNG, REFUSED, NO_KERNEL_SUPPORT, ABSENT, SLOW, FINE, STARTING, STALE]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(WORST_FIRST, 2)))
def test_the_worse_of_what_is_known_counts_whoever_says_it(one: Health, other: Health) -> None:
    """What keeps pods off goes before what does not; unknown is no knowledge; data path before control plane."""
    assert one is prevailing(one, other)
    assert one is prevailing(other, one)


def test_which_of_three_reporters_speaks_first_does_not_matter() -> None:
    """Every replica says the same, in whatever order it heard the reports."""
    said = [HUNG, made(State.UNHEALTHY, Reason.MOUNT_IO_ERROR), STARTING]
    outcomes = {prevailing(prevailing(one, two), three) for one, two, three in itertools.permutations(said)}
    assert len(outcomes) == 1


def test_a_sidecar_adds_to_what_the_agent_says() -> None:
    """Neither overwrites the other, and together they are one node."""
    index = heard(
        report("n1", status("nfs", State.HEALTHY)),
        report("n1", status("smb", State.UNHEALTHY), scope="smb"),
        report("n1", status("nfs", State.DEGRADED), seq=2),
    )

    assert state_of(index, NFS) == (State.DEGRADED, Reason.HIGH_LATENCY)
    assert state_of(index, SMB) == (State.UNHEALTHY, Reason.MOUNT_HUNG)
    assert index.nodes == 1
    assert storage_answer(index, (SMB,)).verdict("n1") is not None


def test_an_agent_that_does_not_know_yet_takes_nothing_from_its_sidecar() -> None:
    """A restart of one reporter makes no healthy storage unknown, nor an unhealthy one healthy."""
    for state in (State.HEALTHY, State.UNHEALTHY):
        index = heard(
            report("n1", status("nfs", state), scope="nfs"),
            report("n1", status("nfs", State.UNKNOWN, Reason.DRIVER_STARTING)),
        )
        told = state_of(index, NFS)
        assert told is not None
        assert told[0] is state


def test_each_reporter_ages_by_itself() -> None:
    """The sidecar's fresh word stands while the agent's own storages turn stale, and the node counts as silent."""
    index = heard(
        report("n1", status("nfs", State.HEALTHY), status("smb", State.HEALTHY)),
        report("n1", status("nfs", State.HEALTHY), scope="nfs"),
    )
    index.tick(31.0, {"n1": 31.0, "n1/nfs": 2.0}.get)

    assert state_of(index, NFS) == (State.HEALTHY, None)
    assert state_of(index, SMB) == (State.UNKNOWN, Reason.STALE)
    assert (index.silent, index.nodes) == (1, 1)

    index.tick(62.0, {"n1": 62.0, "n1/nfs": 33.0}.get)
    assert state_of(index, NFS) == (State.UNKNOWN, Reason.STALE)
    assert (index.silent, index.nodes) == (1, 1)


def test_bad_news_of_a_reporter_that_went_silent_holds_against_good_news_of_another() -> None:
    """Silence is no recovery, also where somebody else is content; the end of the hold is one, and told."""
    index = heard(
        report("n1", status("nfs", State.UNHEALTHY)),
        report("n1", status("nfs", State.HEALTHY), scope="nfs"),
    )
    index.tick(31.0, {"n1": 31.0, "n1/nfs": 1.0}.get)
    assert state_of(index, NFS) == (State.UNHEALTHY, Reason.MOUNT_HUNG)
    assert not index.recovering

    index.tick(331.0, {"n1": 331.0, "n1/nfs": 1.0}.get)
    assert state_of(index, NFS) == (State.HEALTHY, None)
    assert index.take_recovered() == {"nfs"}


def test_where_stale_is_rejected_a_fresh_word_of_another_reporter_lets_pods_in() -> None:
    """An uninstalled sidecar must not keep a node closed until its last report is forgotten."""
    policy = StoragePolicy(DriverPolicy(Treatment.REJECT, Treatment.REJECT))
    index = heard(
        report("n1", status("nfs", State.HEALTHY), scope="nfs"),
        report("n1", status("nfs", State.HEALTHY)),
        policy=policy,
    )
    index.tick(400.0, {"n1": 1.0, "n1/nfs": 400.0}.get)

    assert storage_answer(index, (NFS,)).verdict("n1") is None
    index.tick(500.0, {"n1": 101.0, "n1/nfs": 500.0}.get)
    assert storage_answer(index, (NFS,)).verdict("n1") is not None


def test_a_reporter_is_forgotten_without_the_others() -> None:
    """Only when the last one has gone is the node unknown."""
    index = heard(
        report("n1", status("nfs", State.UNHEALTHY), scope="nfs"),
        report("n1", status("smb", State.HEALTHY)),
    )
    index.forget("n1/nfs")
    assert state_of(index, NFS) is None
    assert state_of(index, SMB) == (State.HEALTHY, None)
    assert index.take_recovered() == {"nfs"}
    assert index.nodes == 1

    index.forget("n1")
    assert (index.nodes, set(index.storages())) == (0, set())


def test_a_heartbeat_of_one_reporter_changes_nothing_for_the_other() -> None:
    """Nor is the other's word looked at again with the wrong age."""
    index = heard(
        report("n1", status("nfs", State.HEALTHY)),
        report("n1", status("nfs", State.DEGRADED), scope="nfs"),
    )
    before = index.changes
    index.apply(report("n1", status("nfs", State.HEALTHY), seq=2), 0, 20)
    index.apply(report("n1", status("nfs", State.DEGRADED), scope="nfs", seq=2), 0, 29)
    assert index.changes == before

    index.tick(50.0, {"n1": 30.0, "n1/nfs": 21.0}.get)
    assert state_of(index, NFS) == (State.DEGRADED, Reason.HIGH_LATENCY)


def test_a_reporter_goes_by_the_name_of_its_node() -> None:
    """An agent is called like its node, so that nothing changes where there are no sidecars."""
    agent, sidecar = report("a.b"), report("a.b", scope="nfs.csi.k8s.io")

    assert (agent.reporter, sidecar.reporter) == ("a.b", "a.b/nfs.csi.k8s.io")
    assert node_of(agent.reporter) == node_of(sidecar.reporter) == "a.b"
