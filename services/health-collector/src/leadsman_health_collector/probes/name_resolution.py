"""Can the names of storage servers be resolved on this node?

Source: the system's resolver, for endpoints that are named and not given as an address. Period 30 s, deadline 4 s, bad
after 3 failures of any kind, good after one success.

Control plane, and weak alone: mounts know their address and go on, only new ones need the name. What is resolved here
is what the other probes use; while the resolver fails they use the last good address. It cannot tell what the driver's
pod would find, if that has another resolver than the collector's (facts: storage-health 3.3).
"""

import asyncio
from collections.abc import Collection, Mapping

from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman_health_collector.endpoints import is_ip
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.probes.tcp_endpoint import Wanted
from leadsman_health_collector.resolver import LookupsBusyError, NameLookupError, Resolver
from leadsman_health_collector.strikes import Thresholds
from leadsman_health_collector.tcp_connect import unresolved


class NameResolutionProbe:
    """Looks the names among `wanted` up; a name counts once for each (driver, backend)."""

    kind = Kind.NAME
    schedule = Schedule(period=3.0, thresholds=Thresholds(definite=3, failures=3, up=1), second_look=False)

    def __init__(self, wanted: Wanted, resolver: Resolver, clock: Clock, deadline_s: float) -> None:
        self._wanted = wanted
        self._resolver = resolver
        self._clock = clock
        self._deadline_s = deadline_s
        self._sources: Mapping[str, Source] = {}

    def discover(self) -> Collection[str]:
        """See `Probe.discover`."""
        named = (endpoint for endpoint in self._wanted().values() if not is_ip(endpoint.host))
        self._sources = {f"{one.key}@{one.host}": Source(one.key, place=one.host) for one in named}
        return self._sources.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: all of them."""
        del suspects
        return self._sources.keys()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return self._sources

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        source = self._sources.get(name)
        if source is None:
            return not_run("the name is no longer wanted")
        begin = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._resolver.resolve(source.place)
        except TimeoutError:
            return unresolved(source.place, self._resolver, self._deadline_s)
        except LookupsBusyError as error:
            return not_run(str(error))
        except NameLookupError as error:
            return Observation(Outcome.ERROR, Reason.NAME_RESOLUTION_FAILED, str(error))
        return Observation(Outcome.GOOD, latency_s=self._clock.monotonic() - begin)
