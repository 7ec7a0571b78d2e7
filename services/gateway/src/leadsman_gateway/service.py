"""The gateway process: its parts put together, its readiness, and a clean end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import asynccontextmanager

from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus
from leadsman.bus.subjects import WAKE
from leadsman.domain.clock import Clock, SystemClock
from leadsman.kube.api import connect
from leadsman.runtime.admin import AdminRoutes, Check
from leadsman.runtime.app import Shutdown, start_eternal
from leadsman.runtime.http import HttpServer
from leadsman.runtime.options import Address
from leadsman.runtime.ports import write_ports
from leadsman.runtime.process import freeze_heap, tune_process
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.metrics import service_registry
from leadsman_gateway.app import GatewayApp
from leadsman_gateway.backends import BackendAnnouncer
from leadsman_gateway.decider import Decider
from leadsman_gateway.extender import Extender
from leadsman_gateway.hop.agreement import PolicyAgreement
from leadsman_gateway.hop.client import HopClient
from leadsman_gateway.hop.kinds import FILTER, SCORER
from leadsman_gateway.hop.metrics import HopMetrics
from leadsman_gateway.metrics import GatewayMetrics
from leadsman_gateway.records import DecisionRecorder
from leadsman_gateway.settings import GatewaySettings
from leadsman_gateway.volumes import (
    ApiServerCatalogue,
    Catalogue,
    ManifestCatalogue,
    VolumeResolver,
    WakeObject,
    backend_list,
)
from leadsman_gateway.wake import Reconnection, Waker, WakeWriter

log = get_logger("gateway")

WARM_UP_S = 10.0
"""How long a starting gateway waits for a filter and a scorer before it counts as ready without them.

A fresh replica should not answer with its failure mode, or without scores, while others know better; but a gateway
without a filter still answers every pod that needs no storage, and the others as configured, which beats no answer.
"""

_SYNC_POLL_S = 0.1


async def run_gateway(shutdown: Shutdown, settings: GatewaySettings) -> None:
    """Run the gateway until shutdown; every call under way is answered before it returns.

    Raises:
        ListenError: the address is taken.
        ConfigError: the source of volumes cannot be used.
        ExceptionGroup: a task failed.
    """
    tune_process()
    clock, registry = SystemClock(), service_registry("gateway")
    async with _volumes(settings, clock, registry) as (catalogue, writer):
        await Gateway(settings, catalogue, writer, clock=clock, registry=registry).run(shutdown)


@asynccontextmanager
async def _volumes(
    settings: GatewaySettings, clock: Clock, registry: CollectorRegistry
) -> AsyncIterator[tuple[Catalogue, WakeWriter | None]]:
    """The volume catalogue and, with a cluster, the writer that wakes pods."""
    if settings.manifests is not None:
        yield ManifestCatalogue(settings.manifests, registry=registry), None
        return
    api = await connect(settings.kubeconfig, user_agent="leadsman-gateway")
    try:
        writer = WakeObject(api, settings.namespace) if settings.wake else None
        yield ApiServerCatalogue(api, clock=clock, registry=registry), writer
    finally:
        await api.close()


class Gateway:
    """All parts of one gateway. Without a `writer` rejected pods are not woken."""

    def __init__(
        self,
        settings: GatewaySettings,
        catalogue: Catalogue,
        writer: WakeWriter | None,
        *,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._clock = clock
        self._registry = registry
        self._started = clock.monotonic()
        self._metrics = GatewayMetrics(registry)
        self._bus = Bus(settings.bus, registry, clock=clock)
        hop_metrics = HopMetrics(registry)
        self._filters = HopClient(FILTER, _texts(settings.filters), clock=clock, metrics=hop_metrics)
        self._scorers = HopClient(SCORER, _texts(settings.scorers), clock=clock, metrics=hop_metrics)
        self._agreement = PolicyAgreement(self._filters, self._scorers, registry=registry)
        self._recorder = DecisionRecorder(self._bus, clock=clock, metrics=self._metrics, registry=registry)
        self._waker = Waker(writer, clock=clock, registry=registry)
        self._resolver = VolumeResolver(catalogue, settings.backend_attributes)
        self._backend_attributes: Mapping[str, str] = settings.backend_attributes
        self._announcer = BackendAnnouncer(
            self._bus,
            lambda: backend_list(catalogue, self._backend_attributes),
            self._backends_known,
            clock=clock,
            registry=registry,
        )
        self._decider = self._make_decider()
        self._server = HttpServer(
            self._app(), settings.listen.host, settings.listen.port, on_bad=self._metrics.count_bad_http
        )

    async def run(self, shutdown: Shutdown) -> None:
        """Serve until shutdown, then answer what is under way, publish what is queued, and stop.

        Raises:
            ListenError: the address is taken.
            ExceptionGroup: a task failed.
        """
        await self._subscribe()
        await self._server.listen()
        self._say_port()
        async with asyncio.TaskGroup() as group:
            running = [start_eternal(group, name, task) for name, task in self._tasks().items()]
            http = start_eternal(group, "http", self._server.run_forever())
            await shutdown.wait()
            http.cancel()
            await asyncio.wait({http})
            await self._recorder.flush()
            await self._bus.close()
            for task in running:
                task.cancel()

    def _make_decider(self) -> Decider:
        return Decider(
            self._resolver,
            self._catalogue,
            self._filters,
            self._scorers,
            on_failure=self._settings.on_failure,
            clock=self._clock,
            metrics=self._metrics,
        )

    def _app(self) -> GatewayApp:
        return GatewayApp(
            Extender(self._decider, deadline_s=self._settings.deadline_s, clock=self._clock, metrics=self._metrics),
            AdminRoutes("gateway", self._registry, self._checks()),
            self._recorder,
            prefix=self._settings.url_prefix,
            max_body=self._settings.max_body,
            clock=self._clock,
            metrics=self._metrics,
        )

    def _tasks(self) -> dict[str, Awaitable[None]]:
        return {
            "bus": self._bus.run(),
            "catalogue": self._catalogue.run(),
            "filter links": self._filters.run(),
            "scorer links": self._scorers.run(),
            "decision records": self._recorder.run(),
            "wake": self._waker.run(),
            "backends": self._announcer.run(),
            "heap": self._freeze_heap(),
        }

    def _checks(self) -> list[Check]:
        return [
            Check("volumes", lambda: (self._catalogue.synced, "read" if self._catalogue.synced else "not read yet")),
            Check("warm-up", self._warm_up),
            Check("filter", self._filters.describe, required=False),
            Check("scorer", self._scorers.describe, required=False),
            Check("policy", self._agreement.describe, required=False),
            Check("catalogue", self._catalogue.describe, required=False),
            Check("bus", self._bus_state, required=False),
            Check("wake", self._waker.describe, required=False),
        ]

    def _name_backends(self) -> None:
        """Take over what the policy says that names backends; the command line stands above it."""
        attributes = {**self._filters.backend_attributes, **self._settings.backend_attributes}
        if attributes != self._backend_attributes:
            self._backend_attributes = attributes
            self._resolver.name_backends_by(attributes)
            log.info("backends are named anew", attributes=attributes)
        self._announcer.changed()

    def _backends_known(self) -> bool:
        """Whether the list would be whole: a policy that has not been heard of may name more backends."""
        waited = self._clock.monotonic() - self._started
        heard = self._filters.ever_linked.is_set() or not self._settings.filters or waited >= WARM_UP_S
        return self._catalogue.synced and heard

    def _warm_up(self) -> tuple[bool, str]:
        linked = {"filter": self._filters.ever_linked, "scorer": self._scorers.ever_linked}
        missing = " and ".join(name for name, event in linked.items() if not event.is_set())
        if not missing:
            return True, "a filter and a scorer have answered"
        waited = self._clock.monotonic() - self._started
        if waited < WARM_UP_S:
            return False, f"waiting for {missing}, {WARM_UP_S - waited:.0f} s more at most"
        if self._filters.ever_linked.is_set():
            return True, "over without a scorer: pods with storage get no scores from us"
        return (
            True,
            f"over without a {missing}: pods with storage are answered by --on-failure {self._settings.on_failure}",
        )

    def _bus_state(self) -> tuple[bool, str]:
        if self._bus.connected:
            return True, "connected"
        return False, "not connected: no decision records, and recoveries are heard of late"

    async def _subscribe(self) -> None:
        reconnection = Reconnection(self._waker, lambda: self._decider.closed_answers, self._clock)
        self._filters.on_heard(reconnection.filter_heard)
        self._filters.on_hello(self._name_backends)
        self._catalogue.on_change(self._announcer.changed)
        self._bus.on_connect(reconnection.bus_connected)
        self._bus.on_connect(self._announcer.repeat)

        async def on_wake(message: Msg) -> None:
            self._waker.on_notice(message.data)

        await self._bus.subscribe(WAKE, on_wake)

    def _say_port(self) -> None:
        port = self._server.port
        if self._settings.port_file:
            write_ports(self._settings.port_file, {"http": port, "admin": port})
        log.info(
            "listening",
            http=str(Address(self._settings.listen.host, port)),
            prefix=self._settings.url_prefix,
            on_failure=self._settings.on_failure,
            wake=self._waker.describe()[1],
        )

    async def _freeze_heap(self) -> None:
        freeze_heap()
        while not self._catalogue.synced:  # noqa: ASYNC110 - there is a flag and no event; over soon
            await asyncio.sleep(_SYNC_POLL_S)
        freeze_heap()
        await asyncio.Event().wait()


def _texts(addresses: Iterable[Address]) -> list[str]:
    return [str(address) for address in addresses]
