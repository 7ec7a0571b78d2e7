"""Statuses of a node, from looks, and from what an earlier run knew."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import Evidence, State
from leadsman.testing.clock import FakeClock
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Source

DRIVER = StorageKey("nfs.csi.k8s.io")
BACKEND = StorageKey("nfs.csi.k8s.io", "10.0.0.9")
GOOD = Observation(Outcome.GOOD, latency_s=0.01)
REFUSED = Observation(Outcome.ERROR, Reason.ENDPOINT_REFUSED, "refused")
HUNG = Observation(Outcome.TIMEOUT, Reason.MOUNT_HUNG, "hung")


class Node:
    """A book with one plugin, one address and one mount, looked at in rounds."""

    def __init__(self, *inherited: StorageStatus) -> None:
        self.clock = FakeClock()
        self.book = HealthBook(self.clock, inherited, kinds=(Kind.PLUGIN, Kind.TCP, Kind.MOUNT))

    def round(self, *, plugin=None, endpoint=None, mount=None, blind=()) -> bool:
        """One round of each probe; those in `blind` cannot tell what there is, so what they watched stands."""
        looks = {Kind.PLUGIN: plugin, Kind.TCP: endpoint, Kind.MOUNT: mount}
        for kind, seen in looks.items():
            name = "0:51" if kind is Kind.MOUNT else "one"
            if kind not in blind:
                self.book.watch(kind, {name: Source(DRIVER if kind is Kind.PLUGIN else BACKEND)} if seen else {})
            if seen:
                self.book.record(kind, name, seen)
            self.book.end_round(kind, discovered=kind not in blind)
        self.clock.advance(10)
        return self.book.evaluate()

    def state(self, key: StorageKey) -> tuple[State, Reason | None] | None:
        status = {status.key: status for status in self.book.statuses}.get(key)
        return (status.state, status.reason) if status else None


def inherited(key: StorageKey, state: State, reason: Reason | None = None) -> StorageStatus:
    return StorageStatus(key, state, reason, since_epoch_s=5.0)


def test_nothing_is_said_about_a_node_without_storage():
    """No source, no status."""
    node = Node()
    assert not node.round()
    assert node.book.statuses == ()


def test_the_first_good_look_counts_at_once_and_change_is_told_once():
    """A new node is usable after one round."""
    node = Node()
    assert node.round(plugin=GOOD, endpoint=GOOD)
    assert node.state(DRIVER) == node.state(BACKEND) == (State.HEALTHY, None)
    assert not node.round(plugin=GOOD, endpoint=GOOD)


def test_a_new_source_is_not_listed_before_its_first_round_is_over():
    """Otherwise every new volume would be published as unknown for a moment."""
    node = Node()
    node.round(plugin=GOOD)
    node.book.watch(Kind.TCP, {"one": Source(BACKEND)})
    assert not node.book.evaluate()
    node.book.end_round(Kind.TCP, discovered=True)
    assert node.book.evaluate()
    assert node.state(BACKEND) == (State.UNKNOWN, Reason.NOT_OBSERVED)


def test_the_first_bad_look_is_unknown_until_it_has_its_strikes():
    """Unknown is never read as unhealthy."""
    node = Node()
    node.round(endpoint=REFUSED)
    assert node.state(BACKEND) == (State.UNKNOWN, Reason.NOT_OBSERVED)
    node.round(endpoint=REFUSED)
    assert node.state(BACKEND) == (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
    assert {status.key: status.evidence for status in node.book.statuses}[BACKEND] is Evidence.DATA_PATH


def test_since_is_the_begin_of_the_state_and_not_of_the_message():
    """People want to know how long it has been so."""
    node = Node()
    node.round(endpoint=GOOD)
    begin = node.book.statuses[0].since_epoch_s
    node.round(endpoint=GOOD)
    assert node.book.statuses[0].since_epoch_s == begin
    node.round(endpoint=REFUSED)
    node.round(endpoint=REFUSED)
    assert node.book.statuses[0].since_epoch_s > begin


def test_good_evidence_that_is_not_renewed_turns_unknown_and_bad_stays():
    """Absence of data is not health, and an error is not a recovery."""
    good, bad = Node(), Node()
    good.round(endpoint=GOOD)
    for _ in range(2):
        bad.round(endpoint=REFUSED)
    for _ in range(3):
        for node in (good, bad):
            node.round(endpoint=not_run("no sockets left"))
    assert good.state(BACKEND) == (State.UNKNOWN, Reason.NOT_OBSERVED)
    assert bad.state(BACKEND) == (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
    good.round(endpoint=GOOD)
    assert good.state(BACKEND) == (State.HEALTHY, None)


def test_a_hung_mount_outweighs_a_reachable_server():
    """And its driver is degraded by it."""
    node = Node()
    node.round(plugin=GOOD, endpoint=GOOD, mount=GOOD)
    for _ in range(3):
        node.round(plugin=GOOD, endpoint=GOOD, mount=HUNG)
    assert node.state(BACKEND) == (State.UNHEALTHY, Reason.MOUNT_HUNG)
    assert node.state(DRIVER) == (State.DEGRADED, Reason.MOUNT_HUNG)
    for _ in range(2):
        node.round(plugin=GOOD, endpoint=GOOD, mount=GOOD)
    assert node.state(BACKEND) == node.state(DRIVER) == (State.HEALTHY, None)


def test_a_source_that_is_no_longer_there_leaves_with_its_evidence():
    """An unmounted volume and a withdrawn endpoint are nobody's fault."""
    node = Node()
    for _ in range(3):
        node.round(plugin=GOOD, mount=HUNG)
    assert node.round(plugin=GOOD)
    assert node.state(BACKEND) is None
    assert node.state(DRIVER) == (State.HEALTHY, None)


@pytest.mark.parametrize("first", [GOOD, not_run("no"), HUNG])
def test_a_restart_keeps_unhealthy_until_it_is_disproved_twice(first):
    """Neither a good look alone nor a failed one makes a bad node good."""
    node = Node(inherited(BACKEND, State.UNHEALTHY, Reason.MOUNT_HUNG))
    assert not node.round(mount=first)
    assert node.state(BACKEND) == (State.UNHEALTHY, Reason.MOUNT_HUNG)
    assert node.book.statuses[0].since_epoch_s == 5.0
    node.round(mount=GOOD)
    if first is not GOOD:
        assert node.state(BACKEND) == (State.UNHEALTHY, Reason.MOUNT_HUNG)
        node.round(mount=GOOD)
    assert node.state(BACKEND) == (State.HEALTHY, None)


def test_after_a_restart_every_probe_must_have_decided_again():
    """A reachable server says nothing about the mount that was hung."""
    node = Node(inherited(BACKEND, State.UNHEALTHY, Reason.MOUNT_HUNG))
    for _ in range(4):
        node.round(endpoint=GOOD, mount=not_run("16 workers are stuck"))
    assert node.state(BACKEND) == (State.UNHEALTHY, Reason.MOUNT_HUNG)


def test_after_a_restart_healthy_stays_through_strikes_that_do_not_suffice():
    """No burst of unknown, and bad news still counts when it is due."""
    node = Node(inherited(BACKEND, State.HEALTHY))
    assert not node.round(endpoint=REFUSED)
    assert node.state(BACKEND) == (State.HEALTHY, None)
    node.round(endpoint=REFUSED)
    assert node.state(BACKEND) == (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)


def test_inherited_good_news_that_nobody_can_confirm_turns_unknown():
    """A collector whose probes cannot run knows nothing."""
    node = Node(inherited(BACKEND, State.HEALTHY))
    for _ in range(3):
        node.round(endpoint=not_run("no"))
    assert node.state(BACKEND) == (State.UNKNOWN, Reason.NOT_OBSERVED)


def test_what_an_earlier_run_knew_and_nothing_is_left_of_is_dropped_after_two_rounds():
    """A driver that was uninstalled while we were down is not kept for ever."""
    node = Node(inherited(DRIVER, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING))
    node.round()
    assert node.state(DRIVER) == (State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    node.round()
    assert node.state(DRIVER) is None


@pytest.mark.parametrize("blind", [Kind.PLUGIN, Kind.MOUNT])
@pytest.mark.parametrize("key", [DRIVER, BACKEND])
def test_a_probe_that_cannot_tell_what_there_is_drops_nothing_of_an_earlier_run(key, blind):
    """What it would have looked at may be the very thing that was bad."""
    node = Node(inherited(key, State.UNHEALTHY, Reason.MOUNT_HUNG))
    for _ in range(4):
        node.round(blind={blind})
    assert node.state(key) == (State.UNHEALTHY, Reason.MOUNT_HUNG)
    for _ in range(2):
        node.round()
    assert node.state(key) is None


def test_other_probes_do_not_speak_for_one_that_cannot_tell_what_there_is():
    """A reachable server and an answering plugin are no news about a mount nobody has looked for."""
    node = Node(
        inherited(DRIVER, State.UNHEALTHY, Reason.MOUNT_HUNG), inherited(BACKEND, State.UNHEALTHY, Reason.MOUNT_HUNG)
    )
    for _ in range(4):
        node.round(plugin=GOOD, endpoint=GOOD, blind={Kind.MOUNT})
    assert node.state(BACKEND) == node.state(DRIVER) == (State.UNHEALTHY, Reason.MOUNT_HUNG)
    node.round(plugin=GOOD, endpoint=GOOD)
    assert node.state(BACKEND) == node.state(DRIVER) == (State.HEALTHY, None)


def test_good_news_ages_also_in_rounds_in_which_nothing_can_be_found():
    """A blind collector knows nothing for long."""
    node = Node(inherited(BACKEND, State.HEALTHY))
    for _ in range(3):
        node.round(blind={*Kind})
    assert node.state(BACKEND) is None


def test_inherited_ignorance_delays_nothing():
    """Unknown before the restart, good at the first look after it."""
    node = Node(inherited(BACKEND, State.UNKNOWN, Reason.NOT_OBSERVED))
    node.round(endpoint=GOOD)
    assert node.state(BACKEND) == (State.HEALTHY, None)


def test_suspects_are_what_is_bad_or_failing():
    """They are looked at in every round, however many others wait for their turn."""
    node = Node()
    node.round(mount=GOOD)
    assert not node.book.suspects(Kind.MOUNT)
    node.round(mount=HUNG)
    assert node.book.suspects(Kind.MOUNT) == {"0:51"}


@pytest.mark.parametrize(("from_mount", "expected"), [(True, State.DEGRADED), (False, State.UNHEALTHY)])
def test_monitors_that_an_old_mount_names_do_not_condemn_a_cluster_whose_mounts_work(from_mount, expected):
    """Operators replace monitors; what was configured or announced is believed."""
    book = HealthBook(FakeClock(), kinds=(Kind.PROTOCOL, Kind.MOUNT))
    ceph = StorageKey("cephfs.csi.ceph.com", "east")
    monitors = {name: Source(ceph, quorum=True, from_mount=from_mount) for name in "ab"}
    for _ in range(2):
        book.watch(Kind.PROTOCOL, monitors)
        book.watch(Kind.MOUNT, {"0:7": Source(ceph)})
        for name in monitors:
            book.record(Kind.PROTOCOL, name, REFUSED)
        book.record(Kind.MOUNT, "0:7", GOOD)
    book.evaluate()
    assert [status.state for status in book.statuses if status.key == ceph] == [expected]


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [(Reason.DRIVER_SOCKET_MISSING, Outcome.ABSENT), (Reason.DRIVER_STARTING, Outcome.STARTING)],
)
def test_a_restart_gives_no_new_grace_to_a_driver_that_was_down(reason, outcome):
    """A roll-out of collectors must not open every bad node for half a minute."""
    node = Node(inherited(DRIVER, State.UNHEALTHY, reason))
    for _ in range(5):
        node.round(plugin=Observation(outcome, reason))
        assert node.state(DRIVER) == (State.UNHEALTHY, reason)
    for _ in range(2):
        node.round(plugin=GOOD)
    assert node.state(DRIVER) == (State.HEALTHY, None)
    for _ in range(2):
        node.round(plugin=Observation(outcome, reason))
    assert node.state(DRIVER) == (State.DEGRADED, reason)


def test_a_restart_does_not_end_the_hold_for_flapping():
    """How long it was to last is not known, so it begins anew."""
    node = Node(inherited(BACKEND, State.DEGRADED, Reason.FLAPPING))
    for _ in range(25):
        node.round(endpoint=GOOD)
        assert node.state(BACKEND) == (State.DEGRADED, Reason.FLAPPING)
    for _ in range(6):
        node.round(endpoint=GOOD)
    assert node.state(BACKEND) == (State.HEALTHY, None)


def test_names_that_cannot_be_resolved_do_not_condemn_a_backend_whose_mounts_are_merely_slow():
    """They answer, so they have the address."""
    book = HealthBook(FakeClock(), kinds=(Kind.TCP, Kind.MOUNT))
    unresolved = Observation(Outcome.TIMEOUT, Reason.NAME_RESOLUTION_FAILED)
    slow = Observation(Outcome.IMPAIRED, Reason.HIGH_LATENCY)
    for _ in range(3):
        for kind, name, seen in ((Kind.TCP, "one", unresolved), (Kind.MOUNT, "0:51", slow)):
            book.watch(kind, {name: Source(BACKEND)})
            book.record(kind, name, seen)
    book.evaluate()
    assert [status.state for status in book.statuses if status.key == BACKEND] == [State.DEGRADED]


def test_a_missing_socket_is_not_forgotten_while_only_the_registration_is_left_and_has_not_decided():
    """A driver that never came back has no plugin to look at, and its registration is given time to tell."""
    clock = FakeClock()
    old = inherited(DRIVER, State.UNHEALTHY, Reason.DRIVER_SOCKET_MISSING)
    book = HealthBook(clock, [old], kinds=(Kind.PLUGIN, Kind.REGISTRATION, Kind.MOUNT))
    for seen in [not_run("too early")] * 5 + [GOOD] * 2:
        book.watch(Kind.REGISTRATION, {DRIVER.driver: Source(DRIVER)})
        book.record(Kind.REGISTRATION, DRIVER.driver, seen)
        for kind in (Kind.PLUGIN, Kind.REGISTRATION, Kind.MOUNT):
            book.end_round(kind, discovered=True)
        book.evaluate()
        before_good = seen is not GOOD
        if before_good:
            assert [(one.state, one.reason) for one in book.statuses] == [old[1:3]]
    assert [one.state for one in book.statuses] == [State.UNKNOWN]
