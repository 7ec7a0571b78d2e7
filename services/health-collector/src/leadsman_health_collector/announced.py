"""The cluster's backends as the gateway announces them on the bus, and what of them this node looks at."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from leadsman.domain.clock import Clock
from leadsman.domain.report import StorageKey
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle
from leadsman.wire.errors import WireError
from leadsman.wire.notices import BackendList, decode_backends
from leadsman_health_collector.endpoints import Endpoint, choose_endpoints, parse_endpoint
from leadsman_health_collector.metrics import CollectorMetrics

log = get_logger("collector.announced")

_MAX_NAME = 253


class Message(Protocol):
    """What of a NATS message is needed here."""

    @property
    def data(self) -> bytes:
        """Its body."""
        ...


class EndpointDirectory:
    """Configured endpoints with the latest announced ones and those of mounts; a silent bus takes none away.

    `mounted` tells the endpoints of the mounts there are now.
    """

    def __init__(
        self,
        configured: Sequence[Endpoint],
        announced: Sequence[Endpoint],
        drivers_here: Callable[[], Collection[str]],
        clock: Clock,
        metrics: CollectorMetrics,
        *,
        mounted: Callable[[], Collection[Endpoint]] = tuple,
    ) -> None:
        self.announced = tuple(announced)
        self._configured = configured
        self._drivers_here = drivers_here
        self._mounted = mounted
        self._clock = clock
        self._metrics = metrics
        self._throttle = Throttle()
        self._left_out = 0
        self.to_remember: tuple[Endpoint, ...] = self.announced
        """What was announced and is looked at, for the next run: the whole cluster's list may be too long to keep."""

    async def on_backend_list(self, msg: Message) -> None:
        """Take a `leadsman.v1.backends` message; one that cannot be read changes nothing."""
        try:
            listed = decode_backends(msg.data)
        except WireError as error:
            self._metrics.notice_errors.inc()
            if self._throttle.allows("unreadable", self._clock.monotonic()):
                log.warning("cannot read the list of backends; keeping the former one", error=str(error))
            return
        endpoints, refused = _endpoints(listed)
        self._metrics.notice_errors.inc(refused)
        if endpoints != self.announced:
            log.info("new list of backends", endpoints=len(endpoints), refused=refused)
        self.announced = endpoints

    def wanted(self) -> Mapping[str, Endpoint]:
        """The endpoints to look at now, by name."""
        mounted = self._mounted()
        kept, left_out = choose_endpoints(self._configured, self.announced, mounted, self._drivers_here())
        self._metrics.endpoints_left_out.set(left_out)
        if left_out and not self._left_out:
            log.warning("too many endpoints, some are not looked at", kept=len(kept), left_out=left_out)
        self._left_out = left_out
        known = {*self._configured, *mounted}
        self.to_remember = tuple(one for one in kept.values() if one not in known)
        return kept


def _endpoints(listed: BackendList) -> tuple[tuple[Endpoint, ...], int]:
    """The usable endpoints of a list, sorted, and the number of unusable ones."""
    found: set[Endpoint] = set()
    refused = 0
    for backend in listed.backends:
        key = StorageKey(backend.driver, backend.backend)
        for address in backend.endpoints:
            endpoint = parse_endpoint(key, address) if all(map(_is_name, key)) else None
            if endpoint is None:
                refused += 1
            else:
                found.add(endpoint)
    return tuple(sorted(found)), refused


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _MAX_NAME and text.isprintable()
