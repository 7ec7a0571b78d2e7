"""Does the storage server answer in its own protocol?

Source: endpoints whose protocol is known by the driver, by the configuration or by the mount that uses them. NFS: an
RPC NULL call; Ceph: the monitor's banner; SMB: NEGOTIATE; HTTP(S): HEAD. Period 10 s, deadline 3 s for connection and
answer together, down after 2 definite failures (refused, unreachable, a wrong answer) or 3 of any kind, up after 2 good
looks; DEGRADED above 1 s on average. Ceph works as long as a majority of its monitors answers.

Data path, and strong: it sees servers that are frozen but still accept connections, and networks that lose everything
but handshakes (facts: storage-health 0.2). It includes what `tcp_endpoint` tells, so an endpoint has only one of both.
It cannot tell whether an export, share or pool may be used, nor whether large packets arrive, nor what happens to
connections from privileged ports, which some mounts use.
"""

import asyncio
import socket
from collections.abc import Collection, Mapping

from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman_health_collector.endpoints import CEPH, HTTP, HTTPS, NFS, SMB, Endpoint
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.probes.protocols.ceph import CephPing
from leadsman_health_collector.probes.protocols.exchange import Exchange, Ping, WrongAnswerError
from leadsman_health_collector.probes.protocols.http import HttpPing
from leadsman_health_collector.probes.protocols.nfs import NfsPing
from leadsman_health_collector.probes.protocols.smb import SmbPing
from leadsman_health_collector.probes.tcp_endpoint import Pings, Wanted, sources_of
from leadsman_health_collector.resolver import LookupsBusyError, NameLookupError, Resolver
from leadsman_health_collector.strikes import Thresholds
from leadsman_health_collector.tcp_connect import connect, silent, why_not

PINGS: Mapping[str, Ping] = {
    NFS: NfsPing(),
    CEPH: CephPing(),
    SMB: SmbPing(),
    HTTP: HttpPing(tls=False),
    HTTPS: HttpPing(tls=True),
}
"""Every protocol that can be spoken."""


def can_ping(endpoint: Endpoint) -> bool:
    """Whether the protocol of `endpoint` is one that we speak."""
    return endpoint.protocol in PINGS


class ProtocolPingProbe:
    """Looks at those of `wanted` that it `pings`, which must be among those that it `can_ping`."""

    kind = Kind.PROTOCOL
    schedule = Schedule(thresholds=Thresholds(slow_s=1.0))

    def __init__(
        self, wanted: Wanted, resolver: Resolver, clock: Clock, deadline_s: float, *, pings: Pings = can_ping
    ) -> None:
        self._wanted = wanted
        self._resolver = resolver
        self._clock = clock
        self._deadline_s = deadline_s
        self._pings = pings
        self._endpoints: Mapping[str, Endpoint] = {}
        self._sources: Mapping[str, Source] = {}

    def discover(self) -> Collection[str]:
        """See `Probe.discover`."""
        self._endpoints = {name: one for name, one in self._wanted().items() if self._pings(one)}
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
        connection: socket.socket | None = None
        begin = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s):
                connection = await connect(endpoint, self._resolver)
                await PINGS[endpoint.protocol].ping(Exchange(connection, endpoint.host))
        except TimeoutError:
            if connection is None:
                return silent(endpoint, self._resolver, self._deadline_s)
            words = f"{endpoint.address} accepts connections but does not answer within {self._deadline_s:g} s"
            return Observation(Outcome.TIMEOUT, Reason.PROTOCOL_TIMEOUT, words)
        except WrongAnswerError as error:
            return Observation(Outcome.ERROR, Reason.PROTOCOL_TIMEOUT, f"{endpoint.address} {error}")
        except (OSError, NameLookupError, LookupsBusyError) as error:
            return why_not(error, endpoint, self._resolver)
        finally:
            if connection is not None:
                connection.close()
        return Observation(Outcome.GOOD, latency_s=self._clock.monotonic() - begin)
