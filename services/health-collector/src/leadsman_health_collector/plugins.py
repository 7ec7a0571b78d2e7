"""What is known of the CSI drivers on this node. Plain data, filled by the `csi_plugin` probe."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from leadsman_health_collector.cluster_view import ClusterView


class Instance(NamedTuple):
    """Tells one socket file from the next in the same place: a driver that starts binds a new one.

    Inode numbers are used again at once, the time of the last change of the inode (ns) is not.
    """

    inode: int
    changed_ns: int


GRACE = 3
"""Periods for which a driver may be out of CSINode because it restarts (facts: storage-health 2, row 17)."""

NO_INSTANCE = Instance(0, 0)
"""There is no socket file."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A driver's plugin: the path of its `socket`, which process serves it, and what that has told.

    `answers` is whether it did so in the latest look. `capabilities` are the values of
    `NodeServiceCapability.RPC.Type` that it advertises, None until it has told.
    """

    driver: str
    socket: str
    instance: Instance = NO_INSTANCE
    answers: bool = False
    version: str = ""
    capabilities: frozenset[int] | None = None

    def can(self, capability: int) -> bool:
        """Whether it advertises `capability`."""
        return self.capabilities is not None and capability in self.capabilities

    @property
    def present(self) -> bool:
        """Whether its socket file is there."""
        return self.instance != NO_INSTANCE


def by_driver(plugins: Iterable[Plugin]) -> dict[str, Plugin]:
    """The one plugin to ask of each driver: an upgrade may leave a dead socket in the old place."""
    found: dict[str, Plugin] = {}
    for plugin in plugins:
        other = found.get(plugin.driver)
        if other is None or (plugin.answers, plugin.instance.changed_ns) > (other.answers, other.instance.changed_ns):
            found[plugin.driver] = plugin
    return found


class CsiNodeHistory:
    """For how long this node's CSINode has not listed a driver. A probe notes the view once per round.

    Where it is not `patient` one look at it is enough, for want of a second round.
    """

    def __init__(self, *, patient: bool) -> None:
        self._grace = GRACE if patient else 0
        self._rounds = 0
        self._last: dict[str, int] = {}

    def note(self, view: ClusterView) -> None:
        """A round begins; one in which nobody knows what CSINode says does not count."""
        if view.registered is not None:
            self._rounds += 1
            self._last |= dict.fromkeys(view.registered, self._rounds)

    def ever_had(self, driver: str) -> bool:
        """Whether `driver` was listed at any time since the start."""
        return driver in self._last

    def lacks(self, driver: str) -> bool:
        """Whether `driver` has not been listed for a whole grace, be it since the start."""
        return self._rounds - self._last.get(driver, 1) >= self._grace


def is_uninstalled(view: ClusterView, driver: str) -> bool:
    """Whether the API server knows other drivers but nothing of `driver`, neither here nor in the cluster.

    That is no proof: a CSIDriver object is optional, and operators delete and recreate it.
    """
    if view.registered is None or not view.cluster_drivers:
        return False
    return driver not in view.registered and driver not in view.cluster_drivers
