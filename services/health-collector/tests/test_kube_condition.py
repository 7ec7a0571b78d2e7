"""What a node's storages amount to in one Node condition."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman_health_collector.kube.condition import Condition, condition_of


def status(backend, state, reason=None, message="5 s"):
    return StorageStatus(StorageKey("nfs.csi.k8s.io", backend), state, reason, message=message)


FINE = status("a", State.HEALTHY)
HUNG = status("b", State.UNHEALTHY, Reason.MOUNT_HUNG)
DOWN = status("c", State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT)
FULL = status("d", State.DEGRADED, Reason.CAPACITY_LOW)
SLOW = status("e", State.DEGRADED, Reason.HIGH_LATENCY)
BLIND = status("f", State.UNKNOWN, Reason.NOT_OBSERVED)
GONE = status("g", State.NOT_APPLICABLE, Reason.DRIVER_NOT_REGISTERED)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], ("True", "StorageHealthy")),
        ([GONE], ("True", "StorageHealthy")),
        ([FINE, GONE], ("True", "StorageHealthy")),
        ([FINE, FULL], ("True", "CapacityLow")),
        ([FULL, SLOW], ("True", "CapacityLow")),
        ([FINE, BLIND], ("Unknown", "NotObserved")),
        ([FULL, BLIND], ("Unknown", "NotObserved")),
        ([BLIND, HUNG, FULL], ("False", "MountHung")),
        ([HUNG, DOWN], ("False", "StorageUnhealthy")),
        ([HUNG, HUNG._replace(key=StorageKey("x", "y"))], ("False", "MountHung")),
    ],
)
def test_worst_state_decides(statuses, expected):
    """UNHEALTHY before UNKNOWN before DEGRADED, in any order; DEGRADED storage may be used."""
    assert condition_of(statuses)[:2] == expected
    assert condition_of(reversed(statuses)) == condition_of(statuses)


def test_message_names_storages_and_reasons():
    """Sorted, worst first."""
    assert condition_of([FULL, DOWN, FINE, HUNG]) == Condition(
        "False",
        "StorageUnhealthy",
        "UNHEALTHY: nfs.csi.k8s.io/b (MountHung), nfs.csi.k8s.io/c (EndpointTimeout); "
        "DEGRADED: nfs.csi.k8s.io/d (CapacityLow)",
    )
    assert condition_of([FINE, GONE]).message == "every storage of this node is HEALTHY"


def test_words_that_change_by_themselves_are_left_out():
    """Each write of a Node's status goes to everyone who watches Nodes."""
    assert condition_of([HUNG]) == condition_of([HUNG._replace(message="20 s", latency_s=20.0, since_epoch_s=7.0)])


def test_message_stays_short():
    """However many storages there are."""
    many = [status(f"{number:03}-{'x' * 200}", State.UNHEALTHY, Reason.MOUNT_HUNG) for number in range(200)]
    assert len(condition_of(many).message.encode()) <= 1024
    assert condition_of([one._replace(key=StorageKey("d", str(n))) for n, one in enumerate(many)]).message.endswith(
        "and 192 more"
    )
