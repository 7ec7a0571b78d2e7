"""Can a TCP connection to the storage be opened from this node?

Source: endpoints of the configuration, of the bus and of mounts, except those that `protocol_ping` looks at. Period
10 s, deadline 3 s (a lost packet costs one second), down after 2 definite failures (refused, unreachable) or 3 of any
kind, up after 2 good looks; DEGRADED above 1 s on average.

Data path. It cannot tell whether anybody serves: the kernel completes handshakes for a frozen server (facts:
storage-health 0.2), so success is weak evidence and failure strong.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping

from leadsman.domain.clock import Clock
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.resolver import LookupsBusyError, NameLookupError, Resolver
from leadsman_health_collector.strikes import Thresholds
from leadsman_health_collector.tcp_connect import connect, silent, why_not

Wanted = Callable[[], Mapping[str, Endpoint]]
"""The endpoints to look at now, by name."""

Pings = Callable[[Endpoint], bool]
"""Whether an endpoint is asked in its own protocol, so that nobody needs to try a mere connection."""


class TcpEndpointProbe:
    """Looks at the endpoints that `wanted` names at the start of each round and that nobody `pings`."""

    kind = Kind.TCP
    schedule = Schedule(thresholds=Thresholds(slow_s=1.0))

    def __init__(self, wanted: Wanted, resolver: Resolver, clock: Clock, deadline_s: float, *, pings: Pings) -> None:
        self._wanted = wanted
        self._resolver = resolver
        self._clock = clock
        self._deadline_s = deadline_s
        self._pings = pings
        self._endpoints: Mapping[str, Endpoint] = {}
        self._sources: Mapping[str, Source] = {}

    def discover(self) -> Collection[str]:
        """See `Probe.discover`."""
        self._endpoints = {name: one for name, one in self._wanted().items() if not self._pings(one)}
        self._sources = sources_of(self._endpoints)
        return self._endpoints.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: all of them."""
        del suspects
        return self._endpoints.keys()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return self._sources

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            return not_run("the endpoint is no longer wanted")
        begin = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                connection = await connect(endpoint, self._resolver)
        except TimeoutError:
            return silent(endpoint, self._resolver, self._deadline_s)
        except (OSError, NameLookupError, LookupsBusyError) as error:
            return why_not(error, endpoint, self._resolver)
        connection.close()
        return Observation(Outcome.GOOD, latency_s=self._clock.monotonic() - begin)


def sources_of(endpoints: Mapping[str, Endpoint]) -> Mapping[str, Source]:
    """Whom each of `endpoints` belongs to."""
    return {
        name: Source(one.key, place=one.address, quorum=one.quorum, from_mount=one.from_mount)
        for name, one in endpoints.items()
    }
