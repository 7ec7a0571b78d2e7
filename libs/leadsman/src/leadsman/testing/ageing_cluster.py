"""A cluster of reporting nodes as a health index sees it, under a clock that the test moves."""

from collections.abc import Iterable

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.reasons import Reason
from leadsman.domain.rejections import storage_answer, volume_rejections
from leadsman.domain.report import NodeReport
from leadsman.domain.requirements import Requirement
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.testing.clock import FakeClock
from leadsman.testing.reports import report, status, storage_key

NODES = [f"n{number}" for number in range(10)]
"""The nodes of `ten_nodes`."""


class AgeingCluster:
    """Does for `index` what a running service does: hands it reports and ages, and ticks once a second.

    A reporter is as old as its last report. While the bus is lost ages stand still.
    """

    def __init__(self, policy: StoragePolicy | None = None) -> None:
        self.clock = FakeClock()
        self.index = HealthIndex(policy or StoragePolicy(), ChangeCounter())
        self._lost_s: float | None = None
        self._ages: dict[str, float] = {}

    def hear(self, *reports: NodeReport, age_s: float = 0.0) -> None:
        """Take in reports that are `age_s` seconds old."""
        for one in reports:
            self._ages[one.reporter] = age_s
            self.index.apply(one, age_s, self.clock.monotonic())

    def wait(self, seconds: float) -> None:
        """Let time pass, with a tick in every second and one at the end."""
        while seconds > 0:
            step = min(1.0, seconds)
            seconds -= step
            self.clock.advance(step)
            if self._lost_s is None:
                self._ages = {name: age + step for name, age in self._ages.items()}
            else:
                self._lost_s += step
            self.tick()

    def tick(self) -> None:
        """Let the index look at its clock."""
        self.index.tick(self.clock.monotonic(), self._ages.get, self._lost_s)

    def lose_bus(self) -> None:
        """From now on the bus is out of reach."""
        self._lost_s = 0.0

    def find_bus(self) -> None:
        """The bus works again."""
        self._lost_s = None
        self.tick()

    def forget(self, *reporters: str) -> None:
        """Drop reporters, as after long silence."""
        for name in reporters:
            self._ages.pop(name, None)
            self.index.forget(name)

    def adopt(self, policy: StoragePolicy) -> None:
        """Bring another policy in force."""
        self.index.adopt(policy, self.clock.monotonic(), self._ages.get)

    def rejected(self, nodes: Iterable[str], *needs: str, volumes: Iterable[Requirement] = ()) -> dict[str, str]:
        """Those of `nodes` that pods with `needs` (`driver` or `driver/backend`) are kept off, each with the reason."""
        answer = storage_answer(self.index, tuple(storage_key(need) for need in needs))
        answer = answer._replace(volumes=volume_rejections(self.index, volumes))
        verdicts = ((node, answer.verdict(node)) for node in nodes)
        return {node: verdict.reason.value for node, verdict in verdicts if verdict}


def ten_nodes(policy: StoragePolicy | None = None) -> AgeingCluster:
    """A cluster of `NODES`, all of them well."""
    cluster = AgeingCluster(policy)
    cluster.hear(*map(well, NODES))
    return cluster


def well(node: str, driver: str = "nfs") -> NodeReport:
    """The driver works, and so does its backend `a`."""
    return report(node, status(driver, State.HEALTHY), status(f"{driver}/a", State.HEALTHY))


def dead(node: str, driver: str = "nfs") -> NodeReport:
    """The driver's plugin does not answer; its backend `a` is well as far as mounts tell."""
    plugin = status(driver, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    return report(node, plugin, status(f"{driver}/a", State.HEALTHY))


def hung(node: str, driver: str = "nfs") -> NodeReport:
    """The driver works, and a mount of its backend `a` hangs."""
    return report(node, status(driver, State.HEALTHY), status(f"{driver}/a", State.UNHEALTHY, Reason.MOUNT_HUNG))


def misnamed(node: str, *storages: str) -> NodeReport:
    """The driver works, and the names of the servers behind `storages` (`driver/backend`) do not resolve."""
    drivers = dict.fromkeys(storage_key(storage).driver for storage in storages)
    unresolved = [status(storage, State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED) for storage in storages]
    return report(node, *[status(driver, State.HEALTHY) for driver in drivers], *unresolved)


def absent(node: str, driver: str = "nfs") -> NodeReport:
    """The driver is not meant for the node."""
    return report(node, status(driver, State.NOT_APPLICABLE))


def starting(node: str, driver: str = "nfs") -> NodeReport:
    """Nothing is known of the driver yet."""
    return report(node, status(driver, State.UNKNOWN))
