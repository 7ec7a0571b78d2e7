"""Which nodes a pod is kept off and why: one reason per node, the same one on every replica."""

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health import Health, health, treatment, weak
from leadsman.domain.health_index import HealthIndex, levels
from leadsman.domain.reasons import Reason
from leadsman.domain.rejections import reject, rejecting, storage_answer, volume_rejections
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.requirements import Requirement
from leadsman.domain.states import Evidence, State
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy, Treatment
from leadsman.domain.verdicts import Rejection
from leadsman.testing.reports import index_of, report, status, storage_key, volume

NFS = storage_key("nfs")
NFS_A = storage_key("nfs/a")
SMB = storage_key("smb")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.HEALTHY, None),
        (State.DEGRADED, None),
        (State.UNKNOWN, None),
        (State.UNHEALTHY, Rejection(Reason.MOUNT_HUNG, "nfs")),
        (State.NOT_APPLICABLE, Rejection(Reason.DRIVER_NOT_REGISTERED, "nfs")),
    ],
)
@pytest.mark.parametrize("storage", ["nfs", "nfs/a"])
def test_each_state_has_its_verdict(storage: str, state: State, expected: Rejection | None) -> None:
    """By default only unhealthy and not applicable keep a pod off, at the driver or at its backend alike."""
    index = index_of(n1=[status(storage, state)])

    assert expected == storage_answer(index, (NFS_A,)).verdict("n1")


def test_other_backends_and_drivers_do_not_matter() -> None:
    """One dead NFS server must not condemn the others."""
    index = index_of(n1=[status("nfs", State.HEALTHY), status("nfs/a", State.UNHEALTHY), status("x", State.UNHEALTHY)])

    assert storage_answer(index, (storage_key("nfs/b"),)).verdict("n1") is None
    assert storage_answer(index, (NFS,)).verdict("n1") is None


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (
            [status("nfs", State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING), status("nfs/a", State.UNHEALTHY)],
            Rejection(Reason.MOUNT_HUNG, "nfs"),
        ),
        ([status("nfs", State.UNHEALTHY), status("smb", State.UNHEALTHY)], Rejection(Reason.MOUNT_HUNG, "nfs")),
        ([status("nfs", State.NOT_APPLICABLE), status("smb", State.UNHEALTHY)], Rejection(Reason.MOUNT_HUNG, "smb")),
        (
            [status("smb", State.UNHEALTHY, None), status("nfs", State.HEALTHY)],
            Rejection(Reason.MOUNT_HUNG, "smb"),
        ),
    ],
)
def test_one_reason_is_chosen_by_rule_whatever_the_order(statuses: list[StorageStatus], expected: Rejection) -> None:
    """Worst first, then driver by name, then backend before driver; order of report and request does not matter."""
    for reported, needs in itertools.product(itertools.permutations(statuses), itertools.permutations((NFS_A, SMB))):
        assert expected == storage_answer(index_of(n1=list(reported)), needs).verdict("n1")


def test_an_unhealthy_state_without_a_reason_still_rejects() -> None:
    """A report of a newer or faulty collector gets the general text, never a pass."""
    assert Rejection(Reason.UNRECOGNISED, "nfs") == reject(health(State.UNHEALTHY, None, Evidence.CONTROL_PLANE), "nfs")


def test_where_unknown_is_rejected_only_named_nodes_pass() -> None:
    """A node that is not known good is rejected with the reason that fits what is known of it."""
    policy = StoragePolicy(drivers={"nfs": DriverPolicy(unknown=Treatment.REJECT)})
    index = index_of(
        policy,
        good=[status("nfs", State.HEALTHY)],
        slow=[status("nfs/a", State.DEGRADED)],
        starting=[status("nfs", State.UNKNOWN)],
        broken=[status("nfs", State.HEALTHY), status("nfs/a", State.UNHEALTHY)],
        other=[status("smb", State.HEALTHY)],
    )
    answer = storage_answer(index, (NFS_A,))

    assert frozenset({"good", "slow"}) == answer.allowed
    assert Rejection(Reason.DRIVER_STARTING, "nfs") == answer.verdict("starting")
    assert Rejection(Reason.MOUNT_HUNG, "nfs") == answer.verdict("broken")
    assert Rejection(Reason.NOT_OBSERVED, "nfs") == answer.verdict("other")
    assert Rejection(Reason.NOT_OBSERVED, "nfs") == answer.verdict("never heard of")


def test_a_blind_index_rejects_only_where_policy_says_so() -> None:
    """After a bus outage beyond the limit, the old rejections are gone and stale decides."""
    drivers = {"smb": DriverPolicy(stale=Treatment.REJECT)}
    index = index_of(StoragePolicy(drivers=drivers, bus_frozen_max_age_s=1), n1=[status("nfs", State.UNHEALTHY)])
    index.tick(2, lambda _: 2, frozen_for_s=2)

    assert storage_answer(index, (NFS,)).verdict("n1") is None
    assert Rejection(Reason.STALE, "smb") == storage_answer(index, (SMB,)).verdict("n1")


def test_a_backend_that_is_listed_no_more_has_recovered_where_its_driver_is_well() -> None:
    """Also where unknown is rejected: not listed is not unknown as long as the driver is."""
    index = index_of(
        StoragePolicy(DriverPolicy(unknown=Treatment.REJECT)),
        n1=[status("nfs", State.HEALTHY), status("nfs/a", State.UNHEALTHY)],
    )
    index.take_recovered()
    index.apply(report("n1", status("nfs", State.HEALTHY), seq=2), 0, 1)

    assert storage_answer(index, (NFS_A,)).verdict("n1") is None
    assert index.take_recovered() == {"nfs/a"}


def test_what_one_storage_rejects_can_be_listed() -> None:
    """The metric of rejected nodes is made of this."""
    index = index_of(n1=[status("nfs", State.UNHEALTHY)], n2=[status("nfs", State.UNKNOWN)])

    assert {"n1": Rejection(Reason.MOUNT_HUNG, "nfs")} == rejecting(index, NFS, State.UNHEALTHY)
    assert rejecting(index, NFS, State.UNKNOWN) == {}


KEYS = [storage_key(text) for text in ("nfs", "nfs/a", "nfs/b", "smb", "smb/a")]
NODES = ["n1", "n2", "n3", "n4"]
TREATMENTS = st.sampled_from(list(Treatment))
POLICIES = st.builds(
    StoragePolicy,
    st.builds(DriverPolicy, TREATMENTS, TREATMENTS),
    st.dictionaries(st.just("smb"), st.builds(DriverPolicy, TREATMENTS, TREATMENTS)),
    breaker=st.builds(BreakerPolicy, st.sampled_from([0.4, 1.0]), st.sampled_from([1, 2])),
)
VOLUMES = ["nfs/pv-1", "nfs/pv-2", "smb/pv-1"]
KNOWN = [(state, None) for state in State] + [(State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)]
World = dict[str, tuple[dict[str, tuple[State, Reason | None]], float, set[str]]]
WORLDS = st.dictionaries(
    st.sampled_from(NODES),
    st.tuples(
        st.dictionaries(st.sampled_from([str(key) for key in KEYS]), st.sampled_from(KNOWN)),
        st.sampled_from([0, 40, 400]),
        st.sets(st.sampled_from(VOLUMES)),
    ),
)
NEEDS = st.lists(
    st.builds(
        lambda key, name: Requirement(key.driver, key.backend, name),
        st.sampled_from(KEYS),
        st.sampled_from(["pv-1", "pv-2", "pv-3"]),
    ),
    max_size=3,
)


def may_run(index: HealthIndex, states: Mapping[StorageKey, Health], needs: tuple[StorageKey, ...]) -> bool:
    """The rule for one node, word for word: every need must not be rejected by what is listed for it."""
    for need in needs:
        listed = {key: states[key] for key in levels(need) if key in states} or {need: index.unlisted}
        counting = [one for key, one in listed.items() if not (weak(one) and index.breaker_open(key))]
        if any(treatment(one, index.policy.of(need.driver)) is Treatment.REJECT for one in counting):
            return False
    return True


@given(policy=POLICIES, world=WORLDS, needed=NEEDS)
def test_the_answer_equals_the_rule_applied_to_each_node(
    policy: StoragePolicy, world: World, needed: list[Requirement]
) -> None:
    """Merging per storage and volume gives the verdict of judging node by node, known or not, in either form."""
    index = HealthIndex(policy, ChangeCounter())
    for node, (states, age_s, bad) in world.items():
        listed = [status(text, *known) for text, known in states.items()]
        index.apply(report(node, *listed, volumes=map(volume, bad)), age_s, 0)
    needs = tuple(sorted({need.key for need in needed}))
    answer = storage_answer(index, needs)._replace(volumes=volume_rejections(index, needed))

    assert not answer.allowed & answer.rejected.keys()
    for node in [*NODES, "never heard of"]:
        in_force = {
            key: index.in_state(key, state)[node]
            for key in KEYS
            for state in State
            if node in index.in_state(key, state)
        }
        _, age_s, bad = world.get(node, ({}, 0, set[str]()))
        volumes_well = age_s > 330 or not bad & {f"{need.driver}/{need.volume}" for need in needed}
        assert (may_run(index, in_force, needs) and volumes_well) == (answer.verdict(node) is None), node
