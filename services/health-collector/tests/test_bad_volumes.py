"""Single volumes that are not well."""

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, VolumeStatus
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Source
from leadsman_health_collector.strikes import Thresholds

BLOCK = StorageKey("ebs.csi.aws.com")
SHARE = StorageKey("nfs.csi.k8s.io", "10.0.0.9")
GOOD = Observation(Outcome.GOOD)
BROKEN = Observation(Outcome.ERROR, Reason.FILESYSTEM_ERRORS, "ext4 has counted errors")
STALE = Observation(Outcome.ERROR, Reason.STALE_FILE_HANDLE, "stat: stale")
HUNG = Observation(Outcome.TIMEOUT, Reason.MOUNT_HUNG, "hung")
FULL = Observation(Outcome.IMPAIRED, Reason.CAPACITY_LOW, "97 % used")

Looks = dict[str, tuple[StorageKey, tuple[str, ...], Observation]]


class Node:
    """A book that is shown superblocks in rounds."""

    def __init__(self, *inherited: VolumeStatus) -> None:
        self.clock = FakeClock()
        self.book = HealthBook(self.clock, (), inherited, kinds=(Kind.MOUNT, Kind.FLAGS, Kind.CAPACITY))

    def round(
        self, *, mounts: Looks, flags: Looks | None = None, capacity: Looks | None = None, times: int = 3
    ) -> bool:
        changed = False
        for _ in range(times):
            for kind, looks in ((Kind.MOUNT, mounts), (Kind.FLAGS, flags or {}), (Kind.CAPACITY, capacity or {})):
                self.book.watch(kind, {name: Source(key, volumes) for name, (key, volumes, _) in looks.items()})
                for name, (_, _, seen) in looks.items():
                    self.book.record(kind, name, seen)
                self.book.end_round(kind, discovered=True)
            changed |= self.book.evaluate()
            self.clock.advance(10)
        return changed

    def volumes(self) -> dict[str, tuple[State, Reason]]:
        return {one.volume: (one.state, one.reason) for one in self.book.bad_volumes}

    def state(self, key: StorageKey) -> State:
        return next(status.state for status in self.book.statuses if status.key == key)


def test_one_bad_volume_among_many_is_listed_and_its_driver_only_degraded():
    """The node stays open for every other volume."""
    node = Node()
    good: Looks = {f"259:{n}": (BLOCK, (f"pv-{n}",), GOOD) for n in range(5)}
    assert node.round(mounts=good, flags={"259:3": (BLOCK, ("pv-3",), BROKEN)})
    assert node.volumes() == {"pv-3": (State.UNHEALTHY, Reason.FILESYSTEM_ERRORS)}
    assert node.state(BLOCK) is State.DEGRADED
    assert node.round(mounts=good, flags={"259:3": (BLOCK, ("pv-3",), GOOD)})
    assert node.volumes() == {}
    assert node.state(BLOCK) is State.HEALTHY


def test_a_full_block_volume_is_its_own_matter():
    """It is listed as degraded, which keeps nobody off; the driver is fine."""
    node = Node()
    looks: Looks = {"259:1": (BLOCK, ("pv-1",), GOOD)}
    node.round(mounts=looks, capacity={"259:1": (BLOCK, ("pv-1",), FULL)})
    assert node.volumes() == {"pv-1": (State.DEGRADED, Reason.CAPACITY_LOW)}
    assert node.state(BLOCK) is State.HEALTHY


def test_volumes_of_a_hung_or_full_share_are_the_backends_matter():
    """Listing hundreds of volumes would say nothing more."""
    node = Node()
    every = tuple(f"pv-{n}" for n in range(100))
    node.round(mounts={"0:51": (SHARE, every, HUNG)}, times=4)
    assert node.volumes() == {}
    assert node.state(SHARE) is State.UNHEALTHY


def test_the_volume_of_a_stale_export_is_listed():
    """The backend is only degraded, since new mounts usually work, so it must be told apart."""
    node = Node()
    node.round(mounts={"0:51": (SHARE, ("pv-1",), STALE), "0:52": (SHARE, ("pv-3",), GOOD)})
    assert set(node.volumes()) == {"pv-1"}
    assert node.state(SHARE) is State.DEGRADED


def test_a_stale_directory_does_not_condemn_every_volume_of_its_export():
    """The NFS client has one superblock for an export, and one path of it is looked at: whose it was is not known."""
    node = Node()
    node.round(mounts={"0:51": (SHARE, ("pv-1", "pv-2"), STALE), "0:52": (SHARE, ("pv-3",), GOOD)})
    assert node.volumes() == {}
    assert node.state(SHARE) is State.DEGRADED


def test_a_restart_keeps_a_bad_volume_until_it_has_been_looked_into_again():
    """Neither a failed look nor the liveness of its mount disproves what the flags had told."""
    old = VolumeStatus("ebs.csi.aws.com", "pv-1", State.UNHEALTHY, Reason.FILESYSTEM_ERRORS, since_epoch_s=5.0)
    node = Node(old)
    mounts: Looks = {"259:1": (BLOCK, ("pv-1",), GOOD)}
    node.round(mounts=mounts, flags={"259:1": (BLOCK, ("pv-1",), not_run("sysfs is not there"))})
    assert node.book.bad_volumes == (old,)
    node.round(mounts=mounts, flags={"259:1": (BLOCK, ("pv-1",), GOOD)})
    assert node.volumes() == {}


def test_a_bad_volume_of_an_earlier_run_that_is_not_mounted_any_more_is_dropped():
    """After two rounds in which the mounts could be read."""
    node = Node(VolumeStatus("ebs.csi.aws.com", "pv-1", State.UNHEALTHY, Reason.FILESYSTEM_ERRORS))
    node.round(mounts={}, times=1)
    assert set(node.volumes()) == {"pv-1"}
    assert node.round(mounts={}, times=1)
    assert node.volumes() == {}


def test_the_worst_of_several_findings_counts():
    """A full volume that is broken is broken."""
    node = Node()
    looks: Looks = {"259:1": (BLOCK, ("pv-1",), GOOD)}
    node.round(
        mounts=looks,
        flags={"259:1": (BLOCK, ("pv-1",), BROKEN)},
        capacity={"259:1": (BLOCK, ("pv-1",), FULL)},
    )
    assert node.volumes() == {"pv-1": (State.UNHEALTHY, Reason.FILESYSTEM_ERRORS)}


def test_thresholds_apply_to_volumes_as_to_everything():
    """A single bad look lists nothing."""
    node = Node()
    node.book.watch(Kind.FLAGS, {"259:1": Source(BLOCK, ("pv-1",))}, Thresholds())
    node.book.record(Kind.FLAGS, "259:1", BROKEN)
    node.book.evaluate()
    assert node.volumes() == {}


def test_a_new_volume_does_not_inherit_the_verdict_on_the_one_before_it():
    """The kernel gives the device number of an unmounted filesystem to the next one at once."""
    node = Node()
    old, new = Source(SHARE, ("pv-old",), "/k/old"), Source(SHARE, ("pv-new",), "/k/new")
    for _ in range(3):
        node.book.watch(Kind.MOUNT, {"0:51": old})
        node.book.record(Kind.MOUNT, "0:51", STALE)
    node.book.evaluate()
    assert set(node.volumes()) == {"pv-old"}
    node.book.watch(Kind.MOUNT, {"0:51": new})
    node.book.record(Kind.MOUNT, "0:51", GOOD)
    node.book.evaluate()
    assert node.volumes() == {}
