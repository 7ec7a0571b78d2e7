"""Does the CSI plugin's process answer on its socket?

It says nothing about the storage behind it: most drivers answer a constant "ready" (facts: storage-health 0.1, 1.1).
"""

import errno
import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path

import grpc
import grpc.aio

from leadsman.csi.v1 import csi_pb2, csi_pb2_grpc
from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.plugin_sockets import PluginSockets, match_names, registered_names, scan_plugin_sockets
from leadsman_health_collector.volumes import DRIVER_NAME

_OPTIONS = (
    # Channels share connections and back-off otherwise; each look must see the socket as it is now.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 64 * 1024),
)


class CsiPluginProbe:
    """Looks at every `csi.sock` of the node.

    `known` holds the driver behind each socket path as an earlier run on this boot knew it: a frozen driver does not
    tell its name, and a vanished one must still be missed. Where nobody has told a name, the one that it was
    registered under counts from the first look on, until the driver itself tells another.
    """

    kind = Kind.PLUGIN

    def __init__(self, kubelet_dir: Path, clock: Clock, deadline_s: float, known: Mapping[str, str]) -> None:
        self._kubelet_dir = kubelet_dir
        self._clock = clock
        self._deadline_s = deadline_s
        self._drivers = dict(known)
        self._found = PluginSockets(frozenset(), frozenset())

    @property
    def drivers(self) -> Mapping[str, str]:
        """Driver name by socket path."""
        return self._drivers

    @property
    def unidentified(self) -> list[str]:
        """Sockets without a name: a driver that never answered, nor can be told by its registration, or leftovers."""
        return sorted(self._found.sockets - self._drivers.keys())

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: the sockets there are, and those that were."""
        self._found = scan_plugin_sockets(self._kubelet_dir)
        self._name_by_registration()
        return self._found.sockets | self._drivers.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: all of them."""
        del suspects
        return self._found.sockets | self._drivers.keys()

    def keys(self) -> Mapping[str, StorageKey]:
        """See `Probe.keys`."""
        return {path: StorageKey(driver) for path, driver in self._drivers.items()}

    def _name_by_registration(self) -> None:
        if nameless := self.unidentified:
            told = {self._drivers[path] for path in self._found.sockets if path in self._drivers}
            registered = [name for name in registered_names(self._kubelet_dir) if name not in told]
            self._drivers.update(match_names(nameless, registered))

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        if name not in self._found.sockets:
            return self._missing(name)
        return _try_connect(name) or await self._ask(name)

    def _missing(self, path: str) -> Observation:
        if str(Path(path).parent) in self._found.directories:
            return Observation(Outcome.ABSENT, Reason.DRIVER_SOCKET_MISSING, "its socket has vanished")
        return Observation(Outcome.REMOVED, Reason.DRIVER_SOCKET_MISSING, "its socket's directory has vanished")

    async def _ask(self, path: str) -> Observation:
        begin = self._clock.monotonic()
        channel = grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS)
        try:
            identity = csi_pb2_grpc.IdentityStub(channel)
            info = await identity.GetPluginInfo(csi_pb2.GetPluginInfoRequest(), timeout=self._deadline_s)
            if not DRIVER_NAME.fullmatch(info.name):
                return not_run("the driver tells a name that the CSI specification does not allow")
            self._drivers[path] = info.name
            left = max(0.001, self._deadline_s - (self._clock.monotonic() - begin))
            answer = await identity.Probe(csi_pb2.ProbeRequest(), timeout=left)
        except grpc.aio.AioRpcError as error:
            return self._failed(error, path, self._clock.monotonic() - begin)
        finally:
            await channel.close()
        took = self._clock.monotonic() - begin
        if answer.HasField("ready") and not answer.ready.value:
            return Observation(Outcome.STARTING, Reason.DRIVER_STARTING, "it says that it is not ready", took)
        return Observation(Outcome.GOOD, latency_s=took)

    def _failed(self, error: grpc.aio.AioRpcError, path: str, took: float) -> Observation:
        code = error.code()
        if code is grpc.StatusCode.UNIMPLEMENTED and path in self._drivers:
            return Observation(Outcome.GOOD, latency_s=took)  # it answers, which is all that is asked
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            words = f"no answer within {self._deadline_s:g} s"
            return Observation(Outcome.TIMEOUT, Reason.DRIVER_NOT_RESPONDING, words)
        return Observation(Outcome.ERROR, Reason.DRIVER_NOT_RESPONDING, f"its probe fails with {code.name}")


def _try_connect(path: str) -> Observation | None:
    """What keeps a plain connect from succeeding, None if nothing does; gRPC hides the cause behind UNAVAILABLE."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        try:
            probe.connect(path)
        except OSError as error:
            return _why_not(error)
    return None


def _why_not(error: OSError) -> Observation:
    match error.errno:
        case errno.ENOENT:
            return Observation(Outcome.ABSENT, Reason.DRIVER_SOCKET_MISSING, "its socket has vanished")
        case errno.ECONNREFUSED:
            return Observation(Outcome.ABSENT, Reason.DRIVER_NOT_RESPONDING, "nobody listens on its socket")
        case errno.EAGAIN:
            return Observation(Outcome.TIMEOUT, Reason.DRIVER_NOT_RESPONDING, "it accepts no connection")
        case errno.EACCES | errno.EPERM:
            return not_run("the collector may not connect to the driver's socket; it must run as root")
        case number:
            return not_run(f"cannot connect: {os.strerror(number) if number else error}")
