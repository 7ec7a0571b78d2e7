"""P3: is the driver registered with this node's kubelet, so that a pod with its volumes can start here?

Source: the node's CSINode as the API server has it, which is what the kubelet itself believes; without an API server
the answer to `GetInfo` on the driver's registration socket. Period 10 s; deadline 1 s. Thresholds: two looks without it
are DEGRADED, 30 s of absence are UNHEALTHY, one good look heals. Evidence class: control plane.

A driver that the cluster has but of which nothing was here for 30 s, neither an entry nor a plugin nor a mount, is not
meant for this node. An entry that vanishes while the driver restarts is a matter of seconds
(kubernetes/kubernetes#126921) and lies within the grace. A cluster need not have a CSIDriver object of every driver, so
that one without is taken for uninstalled only when that grace is over, too.

An entry survives a reboot: a driver that is registered but has no socket anywhere is given two minutes to start, and is
missed from then on.

It cannot tell whether a registered driver works: an entry outlives the driver's death. Without an API server it cannot
tell whether the kubelet has accepted what the registration socket offers.
"""

from collections.abc import Callable, Collection, Mapping

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.cluster_view import ClusterView
from leadsman_health_collector.combine import IN_TREE
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.plugins import CsiNodeHistory, Plugin, is_uninstalled
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.registrars import Registrars, Reply
from leadsman_health_collector.strikes import Thresholds

STARTING = 12
"""Periods after our start in which a registered driver may have no socket yet (facts: storage-health 4)."""

_GONE = "nothing of it is here any more"


class RegistrationProbe:
    """Looks at every driver that is here, or that the cluster has.

    `view` is what the API server says, `plugins` what is known of the drivers' own sockets, by driver. With `api` there
    is an API server to hear from: while it says nothing the registration sockets do not speak in its place, because
    they may be well where the kubelet has refused the driver. A sidecar has no `registrars` and judges the drivers
    among `plugins` only.

    `mounted` are drivers of which volumes are mounted here. `plugin_probe` tells whether the plugin of a driver is
    looked for, and `sockets_known` whether that has found all sockets there are: only then can one be missing. A
    single pass is not `patient`: it cannot wait for what may yet come.
    """

    kind = Kind.REGISTRATION
    schedule = Schedule(thresholds=Thresholds(up=1, gone_at_once=True))

    def __init__(
        self,
        view: Callable[[], ClusterView],
        plugins: Callable[[], Mapping[str, Plugin]],
        registrars: Registrars | None,
        *,
        api: bool,
        mounted: Callable[[], Collection[str]] = frozenset,
        plugin_probe: Callable[[str], bool] = lambda _: True,
        sockets_known: Callable[[], bool] = lambda: False,
        patient: bool = True,
    ) -> None:
        self._view = view
        self._plugins = plugins
        self._registrars = registrars
        self._api = api
        self._mounted = mounted
        self._plugin_probe = plugin_probe
        self._sockets_known = sockets_known
        self._history = CsiNodeHistory(patient=patient)
        self._starting = STARTING if patient else 0
        self._rounds = 0
        self._last = view()
        """What the API server said when it last said something."""
        self._was_registered: set[str] = set()
        """Drivers that were in CSINode, or whose registration socket has answered, since we started."""

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: drivers."""
        self._rounds += 1
        view = self._view()
        self._history.note(view)
        if self._registrars:
            self._registrars.scan()
        self._last = self._last if view.registered is None else view
        return self._names()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: all of them."""
        del suspects
        return self._names()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        by_csi_node = self._api or self._last.registered is not None
        judged = {name for name in self._names() if by_csi_node or self._told(name)}
        return {name: Source(StorageKey(name), place=self._place(name)) for name in judged}

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        by_socket = not self._api and self._last.registered is None
        reply = await self._registrars.ask(name, anew=by_socket) if self._registrars else None
        if by_socket:
            return self._by_socket(name, reply)
        view = self._view()
        if view.registered is None:
            return not_run("the API server does not tell which drivers are registered on this node")
        return self._by_csi_node(name, view, reply)

    def _names(self) -> set[str]:
        here = set(self._plugins())
        if self._registrars:
            here |= self._registrars.drivers | self._was_registered
            here |= self._last.cluster_drivers | (self._last.registered or frozenset())
        return {name for name in here if not name.startswith(IN_TREE)}

    def _place(self, driver: str) -> str:
        return next(iter(self._registrars.sockets_of(driver)), "") if self._registrars else ""

    def _told(self, driver: str) -> bool:
        """Whether a registration socket tells, or has told, of `driver`; one that is left over tells nothing."""
        claimed = self._registrars is not None and driver in self._registrars.drivers
        return driver in self._was_registered or (claimed and driver in self._plugins())

    def _by_csi_node(self, driver: str, view: ClusterView, reply: Reply | None) -> Observation:
        if driver in (view.registered or ()):
            self._was_registered.add(driver)
            if self._without_socket(driver):
                return self._awaited()
            return Observation(Outcome.GOOD, message=f"registered, but {reply.words}" if reply and reply.words else "")
        for_long = self._history.lacks(driver)
        if driver in view.cluster_drivers and not self._was_here(driver):
            early = not_run("it is too early to tell whether it is meant for this node")
            return _missing(Outcome.REMOVED, "it has never been registered on this node") if for_long else early
        if for_long and is_uninstalled(view, driver) and not self._in_use(driver):
            return _missing(Outcome.REMOVED, "nothing of it runs here, and the cluster has no such driver")
        return _missing(Outcome.ABSENT, f"it is not in this node's CSINode{self._why(driver, reply)}")

    def _was_here(self, driver: str) -> bool:
        """Whether anything but a registration socket, which may be left over, tells of `driver` on this node."""
        known = driver in self._was_registered or self._history.ever_had(driver)
        return known or driver in self._plugins() or driver in self._mounted()

    def _in_use(self, driver: str) -> bool:
        plugin = self._plugins().get(driver)
        return (plugin is not None and plugin.answers) or driver in self._mounted()

    def _without_socket(self, driver: str) -> bool:
        """Whether there is certainly no socket of `driver`, nor has been one since we know of it."""
        if self._registrars is None or driver in self._plugins() or self._registrars.sockets_of(driver):
            return False
        return self._registrars.complete and self._sockets_known() and self._plugin_probe(driver)

    def _awaited(self) -> Observation:
        words = "registered, but no socket of it is here"
        if self._rounds - 1 < self._starting:
            return not_run(f"{words}; it may be starting")
        return Observation(Outcome.ABSENT, Reason.DRIVER_SOCKET_MISSING, words)

    def _by_socket(self, driver: str, reply: Reply | None) -> Observation:
        plugin = self._plugins().get(driver)
        if reply and reply.answered:
            self._was_registered.add(driver)
            return Observation(Outcome.GOOD)
        if not plugin or not plugin.present:
            return _missing(Outcome.REMOVED, _GONE)
        if not plugin.answers:
            return not_run("its plugin does not answer either, so its registration cannot be judged")
        if reply and reply.silent:
            return _missing(Outcome.TIMEOUT, reply.words)
        return _missing(Outcome.ABSENT, reply.words if reply else "its registration socket has vanished")

    def _why(self, driver: str, reply: Reply | None) -> str:
        """What the registration sockets add to that; empty if nothing."""
        plugin = self._plugins().get(driver)
        claimed = self._registrars.endpoints.get(plugin.socket) if self._registrars and plugin else None
        if claimed and claimed != driver:
            return f"; its socket is offered to the kubelet as {claimed}"
        if reply is None:
            return "; no registration socket is there for it" if self._registrars else ""
        return f"; {reply.words}" if reply.words else "; its registration socket answers"


def _missing(outcome: Outcome, words: str) -> Observation:
    return Observation(outcome, Reason.DRIVER_NOT_REGISTERED, words)
