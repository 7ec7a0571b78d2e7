"""What the registration sockets of a kubelet say: which CSI drivers are to be registered, and where those serve.

node-driver-registrar, or the driver itself, answers `GetInfo` on `<kubelet>/plugins_registry/<driver>-reg.sock`
(facts: storage-health 1.1, 3.3). Nothing else is ever called there: it would be taken for the kubelet's word.
"""

import asyncio
import errno
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from leadsman.pluginregistration.v1 import registration_pb2, registration_pb2_grpc
from leadsman_health_collector.csi_client import connect_error, open_channel, received
from leadsman_health_collector.plugin_sockets import claimed_name, registration_sockets
from leadsman_health_collector.plugins import Instance
from leadsman_health_collector.volume_data import DRIVER_NAME

MAX_SOCKETS = 200
"""More than any node has; what is over is not looked at."""

_CSI = "CSIPlugin"


@dataclass(frozen=True, slots=True)
class Registrar:
    """What one registration socket has told.

    `driver` is empty if it is not a CSI driver's. `endpoint` is the driver's own socket as a path of ours, empty if it
    is not below the kubelet's directory.
    """

    instance: Instance
    driver: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of asking for a driver's registration: it is answered for, or else `words` say why not.

    `silent` tells a registrar that does not answer in time from one that refuses or is not there.
    """

    answered: bool
    words: str = ""
    silent: bool = False


class Registrars:
    """The registration sockets below `kubelet_dir`; `known_as` are other names of that directory on the host.

    A driver's own socket is told as a path on the host. It is followed only below the kubelet's directory.
    """

    def __init__(self, kubelet_dir: Path, known_as: Collection[Path] = (), *, deadline_s: float = 1.0) -> None:
        self._kubelet_dir = kubelet_dir
        self._prefixes = [f"{name}/" for name in dict.fromkeys([kubelet_dir, *known_as])]
        self._deadline_s = deadline_s
        self._sockets: Mapping[str, Instance] = {}
        self._told: dict[str, Registrar] = {}
        self._all_seen = False

    def scan(self) -> None:
        """See which registration sockets there are; what was told on one that is gone is forgotten.

        Raises:
            OSError: the directory cannot be read.
        """
        self._all_seen = False
        seen = registration_sockets(self._kubelet_dir)
        found = sorted(seen.instances.items())
        self._sockets = dict(found[:MAX_SOCKETS])
        self._all_seen = bool(seen.directories) and len(found) <= MAX_SOCKETS
        self._told = {path: told for path, told in self._told.items() if self._sockets.get(path) == told.instance}

    async def meet(self) -> None:
        """Ask everybody who has not told yet, so that the first look at plugins knows all that can be known.

        Raises:
            OSError: the directory cannot be read.
        """
        self.scan()
        # Whatever goes wrong with one socket, the later looks at it will say so.
        await asyncio.gather(*(self.ask(driver, anew=False) for driver in self.drivers), return_exceptions=True)

    @property
    def drivers(self) -> frozenset[str]:
        """CSI drivers that registration sockets speak for, or claim to by their name as long as they do not answer."""
        return frozenset(filter(None, map(self._driver, self._sockets)))

    @property
    def complete(self) -> bool:
        """Whether the latest scan has seen every socket, and each of them tells, or claims by its name, whose it is."""
        return self._all_seen and all(path in self._told or claimed_name(path) for path in self._sockets)

    @property
    def endpoints(self) -> Mapping[str, str]:
        """Driver by path of its own socket, as far as told."""
        return {told.endpoint: told.driver for told in self._told.values() if told.driver and told.endpoint}

    def sockets_of(self, driver: str) -> list[str]:
        """Registration sockets that speak for `driver`."""
        return [path for path in self._sockets if self._driver(path) == driver]

    async def ask(self, driver: str, *, anew: bool) -> Reply | None:
        """Whether a registration socket answers for `driver`; None if there is no socket for it.

        A socket that has told once is only connected to, unless it is to be asked `anew`.
        """
        reply: Reply | None = None
        for path in self.sockets_of(driver):
            reply = await self._ask_one(path, driver, anew=anew)
            if reply.answered:
                break
        return reply

    def _driver(self, path: str) -> str:
        told = self._told.get(path)
        return told.driver if told else claimed_name(path)

    async def _ask_one(self, path: str, driver: str, *, anew: bool) -> Reply:
        error = connect_error(path)
        if error is not None:
            return _refused(error)
        if anew or path not in self._told:
            try:
                if not await self._get_info(path):
                    return Reply(answered=False, words="its registration socket gives an answer that cannot be read")
            except grpc.aio.AioRpcError as failed:
                silent = failed.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                why = f"does not answer within {self._deadline_s:g} s" if silent else f"fails with {failed.code().name}"
                return Reply(answered=False, words=f"its registration socket {why}", silent=silent)
        if self._driver(path) != driver:
            return Reply(answered=False, words="its registration socket is another plugin's")
        return Reply(answered=True)

    async def _get_info(self, path: str) -> bool:
        """Note what is told on `path`; False if that cannot be read."""
        request = registration_pb2.InfoRequest()
        async with open_channel(path) as channel:
            registration = registration_pb2_grpc.RegistrationStub(channel)
            info = received(await registration.GetInfo(request, timeout=self._deadline_s))
        if info is None:
            return False
        instance = self._sockets.get(path)
        if instance is not None:  # else it has gone meanwhile
            is_driver = info.type == _CSI and DRIVER_NAME.fullmatch(info.name)
            endpoint = self._ours(info.endpoint) if info.endpoint else path
            self._told[path] = Registrar(instance, info.name if is_driver else "", endpoint)
        return True

    def _ours(self, endpoint: str) -> str:
        """The path on the host as one below our `kubelet_dir`, empty if it is elsewhere or crooked."""
        for prefix in self._prefixes:
            if endpoint.startswith(prefix) and os.path.normpath(endpoint) == endpoint:
                return f"{self._kubelet_dir}/{endpoint.removeprefix(prefix)}"
        return ""


def _refused(error: OSError) -> Reply:
    if error.errno == errno.ECONNREFUSED:
        return Reply(answered=False, words="nobody listens on its registration socket")
    if error.errno == errno.ENOENT:
        return Reply(answered=False, words="its registration socket has vanished")
    silent = error.errno == errno.EAGAIN
    return Reply(answered=False, words=f"its registration socket: {error.strerror or error}", silent=silent)
