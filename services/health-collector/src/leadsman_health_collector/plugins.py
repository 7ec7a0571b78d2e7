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


def is_uninstalled(view: ClusterView, driver: str) -> bool:
    """Whether the API server knows other drivers but nothing of `driver`, neither here nor in the cluster."""
    if view.registered is None or not view.cluster_drivers:
        return False
    return driver not in view.registered and driver not in view.cluster_drivers
