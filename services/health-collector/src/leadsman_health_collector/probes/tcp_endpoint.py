"""Can a TCP connection to the storage be opened from this node?

A frozen server still completes handshakes (facts: storage-health 0.2), so success is weak evidence and failure strong.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Collection, Mapping

from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run

_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN})
_RESET = frozenset({errno.ECONNREFUSED, errno.ECONNRESET})


class TcpEndpointProbe:
    """Looks at the endpoints that `wanted` names at the start of each round."""

    kind = Kind.ENDPOINT

    def __init__(self, wanted: Callable[[], Mapping[str, Endpoint]], clock: Clock, deadline_s: float) -> None:
        self._wanted = wanted
        self._clock = clock
        self._deadline_s = deadline_s
        self._endpoints: Mapping[str, Endpoint] = {}
        self._addresses: dict[str, str] = {}

    def discover(self) -> Collection[str]:
        """See `Probe.discover`."""
        self._endpoints = self._wanted()
        self._addresses = {host: at for host, at in self._addresses.items() if host in self._hosts()}
        return self._endpoints.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: all of them."""
        del suspects
        return self._endpoints.keys()

    def keys(self) -> Mapping[str, StorageKey]:
        """See `Probe.keys`."""
        return {name: endpoint.key for name, endpoint in self._endpoints.items()}

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            return not_run("the endpoint is no longer wanted")
        begin = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._connect(endpoint)
        except TimeoutError:
            return self._silent(endpoint)
        except socket.gaierror as error:
            words = f"{endpoint.host} cannot be resolved: {error.strerror}"
            return Observation(Outcome.TIMEOUT, Reason.NAME_RESOLUTION_FAILED, words)
        except OSError as error:
            return _failed(error, f"{endpoint.host}:{endpoint.port}")
        return Observation(Outcome.GOOD, latency_s=self._clock.monotonic() - begin)

    async def _connect(self, endpoint: Endpoint) -> None:
        address = await self._resolve(endpoint)
        _, writer = await asyncio.open_connection(address, endpoint.port)
        writer.transport.abort()

    async def _resolve(self, endpoint: Endpoint) -> str:
        """The address to try: the first one, as a mount would; the last one known while the resolver fails."""
        known = self._addresses.get(endpoint.host)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._deadline_s / 2 if known else None):
                found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, TimeoutError):
            if known is None:
                raise
            return known
        self._addresses[endpoint.host] = str(found[0][4][0])
        return self._addresses[endpoint.host]

    def _silent(self, endpoint: Endpoint) -> Observation:
        if endpoint.host not in self._addresses:
            words = f"{endpoint.host} is not resolved within {self._deadline_s:g} s"
            return Observation(Outcome.TIMEOUT, Reason.NAME_RESOLUTION_FAILED, words)
        words = f"no connection to {endpoint.host}:{endpoint.port} within {self._deadline_s:g} s"
        return Observation(Outcome.TIMEOUT, Reason.ENDPOINT_TIMEOUT, words)

    def _hosts(self) -> set[str]:
        return {endpoint.host for endpoint in self._endpoints.values()}


def _failed(error: OSError, where: str) -> Observation:
    number = error.errno or 0
    if number in _RESET:
        return Observation(Outcome.ERROR, Reason.ENDPOINT_REFUSED, f"{where} refuses the connection")
    if number in _UNREACHABLE:
        return Observation(Outcome.ERROR, Reason.ENDPOINT_TIMEOUT, f"{where}: {os.strerror(number)}")
    if number == errno.ETIMEDOUT:
        return Observation(Outcome.TIMEOUT, Reason.ENDPOINT_TIMEOUT, f"no connection to {where}")
    return not_run(f"cannot connect to {where}: {error.strerror or error}")
