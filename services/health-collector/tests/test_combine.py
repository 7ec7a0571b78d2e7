"""From single sources to backends and drivers."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman_health_collector.combine import (
    DriverEvidence,
    Superblock,
    of_backend,
    of_driver,
    of_endpoints,
    of_mounts,
    of_plugin,
    of_superblock,
    of_volumes,
    worst,
)
from leadsman_health_collector.strikes import Level

GOOD = Level(State.HEALTHY, latency_s=0.01)
REFUSED = Level(State.UNHEALTHY, Reason.ENDPOINT_REFUSED, "refused")
SILENT = Level(State.UNHEALTHY, Reason.ENDPOINT_TIMEOUT, "silent")
HUNG = Level(State.UNHEALTHY, Reason.MOUNT_HUNG, "hung")
STALE = Level(State.UNHEALTHY, Reason.STALE_FILE_HANDLE, "stale")
GONE = Level(State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING)
DEAD = Level(State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
STARTING = Level(State.DEGRADED, Reason.DRIVER_STARTING)
FULL = Level(State.DEGRADED, Reason.CAPACITY_LOW, "97 % used")
SLOW = Level(State.DEGRADED, Reason.HIGH_LATENCY, "slow")
ABSENT = Level(State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED)
NOWHERE = Level(State.NOT_APPLICABLE, Reason.DRIVER_NOT_REGISTERED)
UNKNOWN = Level(State.UNKNOWN, Reason.NOT_OBSERVED)


IN_USE = DriverEvidence(mounted=True)


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
        ([HUNG], False, (State.DEGRADED, Reason.MOUNT_HUNG)),
        ([HUNG, HUNG], False, (State.UNHEALTHY, Reason.MOUNT_HUNG)),
        ([HUNG, STALE], False, (State.UNHEALTHY, Reason.MOUNT_HUNG)),
        ([GOOD, FULL], True, (State.DEGRADED, Reason.CAPACITY_LOW)),
        ([GOOD, FULL], False, (State.HEALTHY, None)),
        ([GOOD, SLOW], False, (State.DEGRADED, Reason.HIGH_LATENCY)),
    ],
)
def test_mounts(mounts, shared, expected):
    """One bad mount degrades, all of several bad condemn, and a hung one of a known backend condemns at once."""
    assert brief(of_mounts([Superblock(level, shared) for level in mounts])) == expected


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


def test_a_quorum_needs_a_majority():
    """One monitor of three that is down is normal; two are an outage."""
    assert brief(of_endpoints([REFUSED, GOOD, GOOD], quorum=True)) == (State.DEGRADED, Reason.PATHS_DEGRADED)
    assert brief(of_endpoints([REFUSED, REFUSED, GOOD], quorum=True)) == (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
    assert brief(of_endpoints([REFUSED, REFUSED, GOOD])) == (State.DEGRADED, Reason.PATHS_DEGRADED)


def test_good_flags_do_not_make_a_filesystem_healthy_that_nobody_has_looked_at():
    """And bad ones count before it has been."""
    assert of_superblock(None, [GOOD]) is None
    assert of_superblock(None, [GOOD, FULL]) == FULL
    assert of_superblock(GOOD, [GOOD, None]) == GOOD
    assert of_superblock(GOOD, [STALE]) == STALE


def test_what_a_driver_says_of_single_volumes_degrades_at_most():
    """Others of the backend may be fine."""
    assert of_volumes([GOOD, None]) is None
    assert brief(of_volumes([GOOD, Level(State.UNHEALTHY, Reason.VOLUME_UNHEALTHY)])) == (
        State.DEGRADED,
        Reason.VOLUME_UNHEALTHY,
    )


def test_a_stale_socket_beside_a_working_one_does_not_count():
    """An upgrade that moves the socket leaves a dead one behind."""
    assert of_plugin([DEAD, GOOD]) == GOOD
    assert of_plugin([GONE, DEAD]) == DEAD
    assert of_plugin([GONE]) == GONE
    assert of_plugin([None]) is None


def test_the_worse_of_mounts_and_addresses_wins():
    """Independent probes of one backend are both right."""
    assert of_backend(GOOD, HUNG, []) == HUNG
    assert of_backend(REFUSED, GOOD, []) == REFUSED
    assert of_backend(UNKNOWN, GOOD, []) == UNKNOWN
    assert of_backend(None, GOOD, []) == GOOD
    assert of_backend(GOOD, GOOD, [FULL, None]) == FULL
    assert worst([]) is None


def test_failing_names_alone_do_not_condemn_a_backend_whose_mounts_work():
    """Mounts know the address already."""
    unresolved = Level(State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)
    assert brief(of_backend(unresolved, GOOD, [], mounts_work=True)) == (State.DEGRADED, Reason.NAME_RESOLUTION_FAILED)
    assert brief(of_backend(unresolved, None, [])) == (State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED)


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
    assert (
        brief(of_driver("nfs.csi.k8s.io", DriverEvidence(plugin, None, mounts, mounted=mounted), backends)) == expected
    )


def test_an_in_tree_driver_is_what_its_backends_are():
    """It has no plugin that could fail."""
    driver = "kubernetes.io/nfs"
    assert brief(of_driver(driver, IN_USE, [GOOD])) == (State.HEALTHY, None)
    assert brief(of_driver(driver, IN_USE, [GOOD, HUNG])) == (State.DEGRADED, Reason.MOUNT_HUNG)
    assert of_driver(driver, IN_USE, [UNKNOWN]) is None


@pytest.mark.parametrize(
    ("plugin", "registration", "mounted", "expected"),
    [
        (GOOD, GOOD, False, (State.HEALTHY, None)),
        (GOOD, ABSENT, False, (State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED)),
        (GOOD, NOWHERE, False, (State.HEALTHY, None)),
        (None, NOWHERE, False, (State.NOT_APPLICABLE, Reason.DRIVER_NOT_REGISTERED)),
        (None, NOWHERE, True, (State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED)),
        (None, GOOD, False, (State.UNKNOWN, Reason.NOT_OBSERVED)),
        (GONE, ABSENT, False, (State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING)),
        (GONE, ABSENT, True, (State.UNHEALTHY, Reason.DRIVER_SOCKET_MISSING)),
    ],
)
def test_registration(plugin, registration, mounted, expected):
    """A driver that the kubelet does not know cannot mount; one that was never meant for the node is not missing."""
    seen = DriverEvidence(plugin, registration, mounted=mounted)
    assert brief(of_driver("nfs.csi.k8s.io", seen, [])) == expected


def test_without_a_look_at_its_plugin_a_registered_driver_is_well():
    """Whoever switches a probe off for a driver must not make that driver unknown."""
    seen = DriverEvidence(registration=GOOD, looked_for=False)
    assert brief(of_driver("nfs.csi.k8s.io", seen, [])) == (State.HEALTHY, None)


def test_a_broken_path_is_not_hidden_by_a_full_volume():
    """Of equally bad findings the one that is not the volume's own matter is told."""
    paths = Level(State.DEGRADED, Reason.PATHS_DEGRADED, "1 of 2 paths down")
    mounts = [Superblock(of_superblock(GOOD, [FULL, paths]), shared=False)]
    assert brief(of_mounts(mounts)) == (State.DEGRADED, Reason.PATHS_DEGRADED)
