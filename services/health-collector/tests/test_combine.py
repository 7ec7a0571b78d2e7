"""From single sources to backends and drivers."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman_health_collector.combine import of_backend, of_driver, of_endpoints, of_mounts, of_plugin, worst
from leadsman_health_collector.strikes import Level

GOOD = Level(State.HEALTHY, latency_s=0.01)
REFUSED = Level(State.UNHEALTHY, Reason.ENDPOINT_REFUSED, "refused")
SILENT = Level(State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT, "silent")
HUNG = Level(State.UNHEALTHY, Reason.MOUNT_HUNG, "hung")
STALE = Level(State.UNHEALTHY, Reason.STALE_FILE_HANDLE, "stale")
GONE = Level(State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING)
DEAD = Level(State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
STARTING = Level(State.DEGRADED, Reason.DRIVER_STARTING)
UNKNOWN = Level(State.UNKNOWN, Reason.NOT_OBSERVED)


def brief(level: Level | None) -> tuple[State, Reason | None] | None:
    return (level.state, level.reason) if level else None


@pytest.mark.parametrize(
    ("mounts", "shared", "expected"),
    [
        ([], True, None),
        ([None], True, None),
        ([GOOD, None], True, (State.HEALTHY, None)),
        ([GOOD, STALE], True, (State.DEGRADED, Reason.STALE_FILE_HANDLE)),
        ([STALE], True, (State.DEGRADED, Reason.STALE_FILE_HANDLE)),
        ([STALE, STALE], True, (State.UNHEALTHY, Reason.STALE_FILE_HANDLE)),
        ([STALE, STALE, None], True, (State.DEGRADED, Reason.STALE_FILE_HANDLE)),
        ([HUNG], True, (State.UNHEALTHY, Reason.MOUNT_HUNG)),
        ([GOOD, GOOD, HUNG], True, (State.UNHEALTHY, Reason.MOUNT_HUNG)),
        ([GOOD, STALE, HUNG], True, (State.UNHEALTHY, Reason.MOUNT_HUNG)),
        ([GOOD, HUNG], False, (State.DEGRADED, Reason.MOUNT_HUNG)),
        ([HUNG], False, (State.UNHEALTHY, Reason.MOUNT_HUNG)),
        ([HUNG, STALE], False, (State.UNHEALTHY, Reason.MOUNT_HUNG)),
    ],
)
def test_mounts(mounts, shared, expected):
    """One bad mount degrades, all of several bad condemn, and a hung one of a known backend condemns at once."""
    assert brief(of_mounts(mounts, shared=shared)) == expected


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([], None),
        ([None], None),
        ([GOOD, None], (State.HEALTHY, None)),
        ([REFUSED], (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)),
        ([REFUSED, GOOD], (State.DEGRADED, Reason.PATHS_DEGRADED)),
        ([REFUSED, None], (State.DEGRADED, Reason.PATHS_DEGRADED)),
        ([REFUSED, SILENT, SILENT], (State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT)),
    ],
)
def test_addresses(addresses, expected):
    """Some down: degraded paths; all down: unhealthy with the commonest reason."""
    assert brief(of_endpoints(addresses)) == expected


def test_a_stale_socket_beside_a_working_one_does_not_count():
    """An upgrade that moves the socket leaves a dead one behind."""
    assert of_plugin([DEAD, GOOD]) == GOOD
    assert of_plugin([GONE, DEAD]) == DEAD
    assert of_plugin([GONE]) == GONE
    assert of_plugin([None]) is None


def test_the_worse_of_mounts_and_addresses_wins():
    """Independent probes of one backend are both right."""
    assert of_backend(GOOD, HUNG) == HUNG
    assert of_backend(REFUSED, GOOD) == REFUSED
    assert of_backend(UNKNOWN, GOOD) == UNKNOWN
    assert of_backend(None, GOOD) == GOOD
    assert worst([]) is None


def test_failing_names_alone_do_not_condemn_a_backend_whose_mounts_work():
    """Mounts know the address already."""
    unresolved = Level(State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)
    assert brief(of_backend(unresolved, GOOD)) == (State.DEGRADED, Reason.NAME_RESOLUTION_FAILED)
    assert brief(of_backend(unresolved, None)) == (State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)


@pytest.mark.parametrize(
    ("plugin", "mounts", "backends", "mounted", "expected"),
    [
        (None, None, [], False, None),
        (GOOD, None, [], False, (State.HEALTHY, None)),
        (DEAD, None, [GOOD], True, (State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)),
        (STARTING, None, [], False, (State.DEGRADED, Reason.DRIVER_STARTING)),
        (GOOD, None, [GOOD, SILENT], False, (State.DEGRADED, Reason.ENDPOINT_TIMEOUT)),
        (GOOD, None, [SILENT, SILENT], False, (State.DEGRADED, Reason.ENDPOINT_TIMEOUT)),
        (GOOD, HUNG, [], True, (State.UNHEALTHY, Reason.MOUNT_HUNG)),
        (GONE, None, [], False, (State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING)),
        (GONE, None, [SILENT], False, (State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING)),
        (GONE, None, [], True, (State.UNHEALTHY, Reason.DRIVER_SOCKET_MISSING)),
        (None, None, [GOOD], False, None),
    ],
)
def test_drivers(plugin, mounts, backends, mounted, expected):
    """The plugin decides; broken backends only degrade; uninstalled with volumes in use is missing."""
    assert brief(of_driver("nfs.csi.k8s.io", plugin, mounts, backends, mounted=mounted)) == expected


def test_an_in_tree_driver_is_what_its_backends_are():
    """It has no plugin that could fail."""
    driver = "kubernetes.io/nfs"
    assert brief(of_driver(driver, None, None, [GOOD], mounted=True)) == (State.HEALTHY, None)
    assert brief(of_driver(driver, None, None, [GOOD, HUNG], mounted=True)) == (State.DEGRADED, Reason.MOUNT_HUNG)
    assert of_driver(driver, None, None, [UNKNOWN], mounted=True) is None
