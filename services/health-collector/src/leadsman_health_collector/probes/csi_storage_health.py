"""P4, first half: what a CSI driver itself says of the storage behind it, as seen from this node.

Source: csi.v1.Node/NodeGetStorageHealth (alpha in CSI 1.13) of drivers that advertise GET_STORAGE_HEALTH, never with
secrets; and the kubelet's findings by the same call in `CSINode.status.storageHealth` (KEP-1432, alpha in Kubernetes
v1.37). Period 60 s; deadline 10 s. Thresholds: one look decides, both ways; only an explicit empty answer is good, and
a call that fails leaves everything as it was. Evidence class: data path, on the driver's word.

It cannot tell which of several backends a driver means: the call knows none (KEP-1432 names the gap). An answer may be
as old as the driver cares to keep it. Most drivers do not know the call.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from leadsman.csi.v1 import csi_pb2
from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.cluster_view import ClusterView, KubeletVerdict
from leadsman_health_collector.csi_client import CallFailedError, PatientCalls
from leadsman_health_collector.driver_findings import in_words, worst_of
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.plugins import Plugin
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.strikes import Thresholds

_ADVERTISED = csi_pb2.NodeServiceCapability.RPC.GET_STORAGE_HEALTH
_KUBELET = "CSINode of "
"""Begins the names of sources that are the kubelet's findings."""

_UNREACHABLE = "StorageUnreachable"
_DEGRADED = "StorageDegraded"
_KEP_WORDS = {
    csi_pb2.STORAGE_UNREACHABLE: _UNREACHABLE,
    csi_pb2.STORAGE_DEGRADED: _DEGRADED,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One adverse condition: its `status` in the words of the KEP, and which volumes only are affected, if not all."""

    status: str
    reason: str
    message: str
    limits: str = ""


class CsiStorageHealthProbe:
    """Asks the drivers among `plugins` that can tell; `view` has what the kubelet heard from them."""

    kind = Kind.STORAGE_HEALTH
    schedule = Schedule(period=6.0, thresholds=Thresholds(definite=1, failures=1, up=1), second_look=False)

    def __init__(
        self,
        plugins: Callable[[], Mapping[str, Plugin]],
        view: Callable[[], ClusterView],
        clock: Clock,
        deadline_s: float,
    ) -> None:
        self._plugins = plugins
        self._view = view
        self._deadline_s = deadline_s
        self._calls = PatientCalls(clock)
        self._heard: Mapping[str, list[KubeletVerdict]] = {}

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: drivers, and the kubelet's word on them where it has one."""
        view = self._view()
        if view.registered is not None:
            self._heard = _by_driver(view, self._plugins())
        self._calls.keep(frozenset(self._asked()))
        return self.sources().keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: all of them."""
        del suspects
        return self.sources().keys()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        asked = {name: Source(StorageKey(name), place=plugin.socket) for name, plugin in self._asked().items()}
        heard = {_KUBELET + name: Source(StorageKey(name), place="CSINode") for name in self._heard}
        return asked | heard

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        if name.startswith(_KUBELET):
            return self._kubelets_word(name.removeprefix(_KUBELET))
        plugin = self._asked().get(name)
        if plugin is None:
            return not_run("the driver no longer tells how its storage is")
        try:
            answer = await self._calls.call(
                plugin,
                lambda node: node.NodeGetStorageHealth(csi_pb2.NodeGetStorageHealthRequest()),
                self._deadline_s,
            )
        except CallFailedError as error:
            return not_run(str(error))
        return judge(_finding(entry) for entry in answer.backend_health)

    def _asked(self) -> dict[str, Plugin]:
        return {name: plugin for name, plugin in self._plugins().items() if plugin.can(_ADVERTISED)}

    def _kubelets_word(self, driver: str) -> Observation:
        view = self._view()
        if view.registered is None or driver not in view.registered:
            return not_run("the kubelet does not ask this driver now")
        return judge(Finding(one.status, one.reason, one.message) for one in self._heard.get(driver, ()))


def judge(findings: Iterable[Finding]) -> Observation:
    """The worst of `findings`; good without any.

    What concerns some volumes only, and words that this version does not know, keep no pod away from the node.
    """
    return worst_of([_judge_one(one) for one in findings])


def _judge_one(one: Finding) -> Observation:
    words = in_words(one.status, one.reason, one.message)
    if one.limits:
        return Observation(Outcome.IMPAIRED, Reason.STORAGE_DEGRADED, f"for {one.limits} only: {words}")
    if one.status == _UNREACHABLE:
        return Observation(Outcome.ERROR, Reason.STORAGE_UNREACHABLE, words)
    if one.status == _DEGRADED:
        return Observation(Outcome.IMPAIRED, Reason.STORAGE_DEGRADED, words)
    return Observation(Outcome.IMPAIRED, Reason.STORAGE_DEGRADED, f"adverse, but of a kind not known here: {words}")


def _finding(entry: csi_pb2.NodeGetStorageHealthResponse.StorageBackendHealth) -> Finding:
    status = _KEP_WORDS.get(entry.status, f"status {int(entry.status)}")
    limits = _limits(entry.volume_capability) if entry.HasField("volume_capability") else ""
    return Finding(status, entry.reason, entry.message, limits)


def _limits(capability: csi_pb2.VolumeCapability) -> str:
    """Which volumes `capability` means, in words."""
    mode = {"block": "block volumes", "mount": "mounted volumes"}.get(capability.WhichOneof("access_type") or "")
    modes = csi_pb2.VolumeCapability.AccessMode.Mode
    number = capability.access_mode.mode
    access = modes.Name(number) if number and number in modes.values() else ""
    return " ".join(filter(None, [mode or "some volumes", access and f"with {access}"]))


def _by_driver(view: ClusterView, plugins: Mapping[str, Plugin]) -> Mapping[str, list[KubeletVerdict]]:
    """The kubelet's findings by driver; those about drivers that are no longer here are left over."""
    found: dict[str, list[KubeletVerdict]] = {}
    for verdict in view.storage_health:
        if verdict.driver in plugins or verdict.driver in (view.registered or ()):
            found.setdefault(verdict.driver, []).append(verdict)
    return found
