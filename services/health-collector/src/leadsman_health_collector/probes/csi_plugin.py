"""P1 and P2: does the CSI plugin's process answer on its socket?

Source: sockets below the kubelet's directory (found by scan and by registration sockets), a plain connect whose errno
tells what gRPC hides, then csi.v1.Identity/Probe on a fresh channel. GetPluginInfo and NodeGetCapabilities are asked
once per process that serves the socket. Period 10 s; deadline 3 s for the answer. Thresholds: two definite errors,
three silences, two good looks up; absence gets a grace of 30 s, "not ready" one of 2 minutes.
Evidence class: control plane.

It cannot tell anything about the storage behind the driver: most drivers answer a constant "ready" (facts:
storage-health 0.1, 1.1). Nor does it see a driver whose socket has a name of its own and whose registrar is down.
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio

from leadsman.csi.v1 import csi_pb2, csi_pb2_grpc
from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.cluster_view import NOTHING_KNOWN, ClusterView
from leadsman_health_collector.csi_client import UNREADABLE, connect_error, open_channel, received
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.plugin_sockets import (
    NO_SOCKETS,
    find_only_socket,
    find_socket,
    match_names,
    scan_plugin_sockets,
)
from leadsman_health_collector.plugins import NO_INSTANCE, CsiNodeHistory, Instance, Plugin, by_driver, is_uninstalled
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.registrars import Registrars
from leadsman_health_collector.volume_data import DRIVER_NAME

CAPABILITIES_AGAIN_S = 60.0
"""A driver that does not tell what it can do is asked again no sooner: a call that hangs in it takes a thread."""

_ALIVE = frozenset({Outcome.GOOD, Outcome.STARTING})
_VANISHED = Observation(Outcome.ABSENT, Reason.DRIVER_SOCKET_MISSING, "its socket has vanished")


class CsiPluginProbe:
    """Looks at every CSI socket of the node, or as a sidecar at `only_socket` and no other.

    `known` holds the driver behind each socket path as an earlier run on this boot knew it: a frozen driver does not
    tell its name, and a vanished one must still be missed. Where nobody has told a name, the one that it was
    registered under counts from the first look on, until the driver itself tells another.

    `registrars` know names and further sockets, and `view` which drivers have been uninstalled from the cluster; a
    single pass, which is not `patient`, believes that at once.
    """

    kind = Kind.PLUGIN
    schedule = Schedule()

    def __init__(
        self,
        kubelet_dir: Path,
        clock: Clock,
        deadline_s: float,
        known: Mapping[str, str],
        *,
        registrars: Registrars | None = None,
        view: Callable[[], ClusterView] = lambda: NOTHING_KNOWN,
        only_socket: Path | None = None,
        patient: bool = True,
    ) -> None:
        self._kubelet_dir = kubelet_dir
        self._clock = clock
        self._deadline_s = deadline_s
        self._registrars = registrars or Registrars(kubelet_dir)
        self._view = view
        self._only_socket = only_socket
        self._history = CsiNodeHistory(patient=patient)
        self._found = NO_SOCKETS
        self._complete = False
        at = {path: name for path, name in known.items() if only_socket is None or path == str(only_socket)}
        self._plugins = {path: Plugin(name, path) for path, name in at.items()}
        self._named: dict[str, Instance] = {}
        """Which process has told its name on each socket."""
        self._capabilities_due: dict[str, float] = {}

    @property
    def drivers(self) -> Mapping[str, str]:
        """Driver name by socket path."""
        return {path: plugin.driver for path, plugin in self._plugins.items()}

    def plugins(self) -> Mapping[str, Plugin]:
        """What is known of each driver's plugin, by driver; of several sockets, the one to ask."""
        return by_driver(self._plugins.values())

    @property
    def unidentified(self) -> list[str]:
        """Sockets without a name: a driver that never answered, nor can be told by its registration, or leftovers."""
        return sorted(self._found.sockets - self._plugins.keys())

    @property
    def complete(self) -> bool:
        """Whether all sockets of the node were found at the latest look, and every one has a name."""
        return self._complete and not self.unidentified

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: the sockets there are, and those that were."""
        self._history.note(self._view())
        self._complete = False
        if self._only_socket is not None:
            self._found = find_only_socket(self._only_socket)
        else:
            self._find_all()
            self._complete = True
        answering = {plugin.driver for plugin in self._plugins.values() if plugin.answers}
        self._plugins = {
            path: self._as_found(path, plugin)
            for path, plugin in self._plugins.items()
            # What is left of a driver that has moved is of no interest.
            if self._has_place(path) or plugin.answers or plugin.driver not in answering
        }
        return self._found.sockets | self._plugins.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: all of them."""
        del suspects
        return self._found.sockets | self._plugins.keys()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return {path: Source(StorageKey(plugin.driver), place=path) for path, plugin in self._plugins.items()}

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        instance = self._found.instances.get(name)
        if instance is None:
            return self._missing(name)
        error = connect_error(name)
        seen = await self._ask(name, instance) if error is None else self._gone_or(_why_not(error), name)
        if plugin := self._plugins.get(name):
            self._plugins[name] = replace(plugin, answers=seen.outcome in _ALIVE)
        return seen

    def _find_all(self) -> None:
        with contextlib.suppress(OSError):  # then nothing is known beyond what they have told
            self._registrars.scan()
        endpoints = self._registrars.endpoints
        self._found = scan_plugin_sockets(self._kubelet_dir)
        for path in sorted({*endpoints, *self._plugins} - self._found.sockets):
            self._found |= find_socket(self._kubelet_dir, path)
        for path, driver in endpoints.items():
            known = self._plugins.get(path)
            if path not in self._named and self._has_place(path) and not (known and known.driver == driver):
                self._plugins[path] = Plugin(driver, path)
        if nameless := self.unidentified:
            self._plugins |= {path: Plugin(name, path) for path, name in self._guessed(nameless).items()}

    def _guessed(self, nameless: Collection[str]) -> Mapping[str, str]:
        """Driver by path, for sockets that only a registrar which does not answer can name."""
        taken = {self._plugins[path].driver for path in self._found.sockets & self._plugins.keys()}
        return match_names(nameless, sorted(self._registrars.drivers - taken))

    def _as_found(self, path: str, plugin: Plugin) -> Plugin:
        instance = self._found.instances.get(path, NO_INSTANCE)
        return replace(plugin, instance=instance, answers=plugin.answers and instance != NO_INSTANCE)

    def _has_place(self, path: str) -> bool:
        return path.rpartition("/")[0] in self._found.directories

    def _missing(self, path: str) -> Observation:
        if not self._has_place(path):
            return Observation(Outcome.REMOVED, Reason.DRIVER_SOCKET_MISSING, "its socket's directory has vanished")
        return self._gone_or(_VANISHED, path)

    def _gone_or(self, seen: Observation, path: str) -> Observation:
        """`seen`, but absence means nothing bad of a driver that has been uninstalled and has left things behind."""
        known = self._plugins.get(path)
        if seen.outcome is not Outcome.ABSENT or known is None:
            return seen
        if not self._history.lacks(known.driver) or not is_uninstalled(self._view(), known.driver):
            return seen  # it may be restarting
        return replace(seen, outcome=Outcome.REMOVED, message=f"{seen.message}, and the cluster has no such driver")

    async def _ask(self, path: str, instance: Instance) -> Observation:
        async with open_channel(path) as channel:
            if self._named.get(path) == instance:
                seen = await self._probe(channel)
            else:
                seen = await self._meet(channel, path, instance)
            if seen.outcome in _ALIVE:
                await self._learn_capabilities(channel, path)
        return seen

    async def _meet(self, channel: grpc.aio.Channel, path: str, instance: Instance) -> Observation:
        """The first look at a process, which must tell its name, too.

        Both are asked together, so that one that is slow to tell its name is not taken for a silent one.
        """
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(self._probe(channel))
            naming = group.create_task(self._learn_name(channel, path, instance))
        if not naming.result():
            return not_run("the driver tells a name that the CSI specification does not allow")
        return probing.result()

    async def _probe(self, channel: grpc.aio.Channel) -> Observation:
        begin = self._clock.monotonic()
        stub = csi_pb2_grpc.IdentityStub(channel)
        try:
            answer = received(await stub.Probe(csi_pb2.ProbeRequest(), timeout=self._deadline_s))
        except grpc.aio.AioRpcError as error:
            return self._failed(error.code(), self._clock.monotonic() - begin)
        took = self._clock.monotonic() - begin
        if answer is None:
            return Observation(Outcome.ERROR, Reason.DRIVER_NOT_RESPONDING, UNREADABLE)
        if answer.HasField("ready") and not answer.ready.value:
            return Observation(Outcome.STARTING, Reason.DRIVER_STARTING, "it says that it is not ready", took)
        return Observation(Outcome.GOOD, latency_s=took)

    def _failed(self, code: grpc.StatusCode, took: float) -> Observation:
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return Observation(Outcome.GOOD, latency_s=took)  # it answers, which is all that is asked
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            words = f"no answer within {self._deadline_s:g} s"
            return Observation(Outcome.TIMEOUT, Reason.DRIVER_NOT_RESPONDING, words)
        return Observation(Outcome.ERROR, Reason.DRIVER_NOT_RESPONDING, f"its probe fails with {code.name}")

    async def _learn_name(self, channel: grpc.aio.Channel, path: str, instance: Instance) -> bool:
        """Ask the driver its name; False if it tells one that no driver may have.

        One that does not tell keeps the name it has, and is asked again at the next look.
        """
        request = csi_pb2.GetPluginInfoRequest()
        stub = csi_pb2_grpc.IdentityStub(channel)
        try:
            info = received(await stub.GetPluginInfo(request, timeout=self._deadline_s))
        except grpc.aio.AioRpcError:
            return True
        if info is None:
            return True
        if not DRIVER_NAME.fullmatch(info.name):
            return False
        known = self._plugins.get(path)
        # What it can do is asked anew; until then what the process before it could do stands.
        before = known.capabilities if known and known.driver == info.name else None
        self._plugins[path] = Plugin(info.name, path, instance, version=info.vendor_version, capabilities=before)
        self._named[path] = instance
        self._capabilities_due.pop(path, None)
        return True

    async def _learn_capabilities(self, channel: grpc.aio.Channel, path: str) -> None:
        now = self._clock.monotonic()
        if path not in self._plugins or now < self._capabilities_due.get(path, now):
            return
        self._capabilities_due[path] = now + CAPABILITIES_AGAIN_S
        request = csi_pb2.NodeGetCapabilitiesRequest()
        stub = csi_pb2_grpc.NodeStub(channel)
        try:
            told = received(await stub.NodeGetCapabilities(request, timeout=self._deadline_s / 3))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                return
            told = csi_pb2.NodeGetCapabilitiesResponse()  # no node plugin, so it can do nothing
        if told is None:
            return
        self._capabilities_due[path] = float("inf")
        if plugin := self._plugins.get(path):  # else it has been forgotten meanwhile
            capabilities = frozenset(one.rpc.type for one in told.capabilities)
            self._plugins[path] = replace(plugin, capabilities=capabilities)


def _why_not(error: OSError) -> Observation:
    match error.errno:
        case errno.ENOENT:
            return _VANISHED
        case errno.ECONNREFUSED:
            return Observation(Outcome.ABSENT, Reason.DRIVER_NOT_RESPONDING, "nobody listens on its socket")
        case errno.EAGAIN:
            return Observation(Outcome.TIMEOUT, Reason.DRIVER_NOT_RESPONDING, "it accepts no connection")
        case errno.EACCES | errno.EPERM:
            return not_run("the collector may not connect to the driver's socket; it must run as root")
        case number:
            return not_run(f"cannot connect: {os.strerror(number) if number else error}")
