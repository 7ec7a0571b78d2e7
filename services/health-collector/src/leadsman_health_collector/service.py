"""The collector put together from its parts, and its life from start to SIGTERM."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from leadsman.bus.connect import Bus, BusSettings
from leadsman.bus.publish import ReportPublisher
from leadsman.bus.subjects import BACKENDS
from leadsman.domain.clock import SystemClock
from leadsman.domain.durations import format_duration
from leadsman.domain.errors import ConfigError
from leadsman.domain.report import StorageStatus
from leadsman.runtime.admin import AdminRoutes, Check
from leadsman.runtime.app import Shutdown, run_until_shutdown, start_eternal
from leadsman.runtime.http import HttpServer
from leadsman.runtime.options import Address
from leadsman.runtime.ports import write_ports
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.metrics import service_registry
from leadsman_health_collector.announced import EndpointDirectory
from leadsman_health_collector.book import HealthBook
from leadsman_health_collector.config_file import load_endpoints
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.metrics import CollectorMetrics
from leadsman_health_collector.observation import Kind
from leadsman_health_collector.plugin_sockets import registered_names
from leadsman_health_collector.probes.csi_plugin import CsiPluginProbe
from leadsman_health_collector.probes.mount_liveness import MountLivenessProbe
from leadsman_health_collector.probes.probe import Probe
from leadsman_health_collector.probes.tcp_endpoint import TcpEndpointProbe
from leadsman_health_collector.reporter import Reporter
from leadsman_health_collector.rounds import Rounds, spread
from leadsman_health_collector.state_file import Remembered, StateFile
from leadsman_health_collector.strikes import Thresholds
from leadsman_health_collector.volumes import VolumeMap
from leadsman_health_collector.workers import WorkerPool

log = get_logger("collector")

COMPONENT = "health-collector"

MOUNT_PERIOD = 1.5
"""Mounts are looked at less often than sockets: a process is started for each (facts: storage-health 3.1)."""

MOUNT_DEADLINE = 5 / 3
"""And they get more time: 5 s against 3 s with the defaults."""

LAST_REPORT_S = 1.0
"""At a stop the last report has this time to be handed to the bus."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The collector's options; durations in seconds."""

    node: str
    bus: BusSettings
    kubelet_dir: Path
    mountinfo: Path
    state_file: Path
    config: Path | None
    period_s: float
    deadline_s: float
    heartbeat_s: float
    admin: Address
    port_file: Path | None = None

    def __post_init__(self) -> None:
        if not 0 < self.deadline_s <= self.period_s:
            raise ConfigError(
                f"the probe deadline ({format_duration(self.deadline_s)}) must be above zero and at most the period "
                f"({format_duration(self.period_s)}); lower --probe-deadline or raise --period"
            )

    @property
    def mount_period_s(self) -> float:
        """Time between two looks at a mount."""
        return self.period_s * MOUNT_PERIOD

    @property
    def mount_deadline_s(self) -> float:
        """Time that a mount has to answer."""
        return min(self.deadline_s * MOUNT_DEADLINE, self.mount_period_s)


def read_boot_id() -> str:
    """The kernel's id of this boot; empty if it does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Collector:
    """One node's collector.

    Raises:
        LeadsmanError: a file or an option cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._registry = service_registry(COMPONENT)
        self._metrics = CollectorMetrics(self._registry)
        boot_id = read_boot_id()
        self._state_file = StateFile(settings.state_file, settings.node, boot_id, self._clock, self._metrics)
        configured = load_endpoints(settings.config)
        self._remembered = self._state_file.load()
        self._book = HealthBook(self._clock, Thresholds(), self._remembered.statuses)
        self._workers = WorkerPool(settings.node, boot_id, self._clock)
        self._metrics.stuck.set_function(lambda: self._workers.stuck)
        self._build_probes(configured)
        self._bus = Bus(settings.bus, self._registry)
        self._publisher = ReportPublisher(
            self._bus,
            settings.node,
            epoch=self._state_file.epoch,
            clock=self._clock,
            registry=self._registry,
            heartbeat_s=settings.heartbeat_s,
        )
        self._reporter = Reporter(
            settings.node,
            boot_id,
            self._book,
            self._publisher,
            ready=lambda: bool(self._remembered.statuses) or self._discovered(),
            keep=self._keep,
            metrics=self._metrics,
        )
        self._rounds = self._all_rounds()

    async def run(self, shutdown: Shutdown) -> None:
        """Probe and publish until `shutdown`."""
        admin = HttpServer(
            AdminRoutes(COMPONENT, self._registry, self._checks()), self._settings.admin.host, self._settings.admin.port
        )
        await admin.listen()
        if self._settings.port_file:
            write_ports(self._settings.port_file, {"admin": admin.port})
        log.info("listening", admin=str(Address(self._settings.admin.host, admin.port)))
        await self._bus.subscribe(BACKENDS, self._endpoints.on_backend_list)
        self._reporter.refresh()
        try:
            async with asyncio.TaskGroup() as group:
                outer = [
                    start_eternal(group, "bus", self._bus.run()),
                    start_eternal(group, "admin", admin.run_forever()),
                ]
                await self._sound(shutdown)
                for task in outer:
                    task.cancel()
        finally:
            await self._workers.close()
            await self._bus.close()

    async def _sound(self, shutdown: Shutdown) -> None:
        """Probe and publish until `shutdown`; then publish once more while the bus is still there.

        A change within the publisher's minimum gap would be lost otherwise: nobody speaks for the node until the next
        collector has started.
        """
        rounds = {f"rounds of {rounds.kind}": rounds.run() for rounds in self._rounds}
        await run_until_shutdown(shutdown, {**rounds, "publisher": self._publisher.run()})
        if not self._bus.connected:
            return
        try:
            async with asyncio.timeout(LAST_REPORT_S):
                await self._publisher.publish_now()
        except TimeoutError:
            log.info("the bus did not take the last report in time; the next start publishes it")

    def _build_probes(self, configured: tuple[Endpoint, ...]) -> None:
        settings = self._settings
        kubelet_dir = Path(os.path.realpath(settings.kubelet_dir))  # as mountinfo shows it
        self._volumes = VolumeMap(kubelet_dir)
        self._plugins = CsiPluginProbe(kubelet_dir, self._clock, settings.deadline_s, self._remembered.drivers)
        self._mounts = MountLivenessProbe(settings.mountinfo, self._volumes, self._workers, settings.mount_deadline_s)
        self._endpoints = EndpointDirectory(
            configured, self._remembered.endpoints, self._drivers_here, self._clock, self._metrics
        )
        self._tcp = TcpEndpointProbe(self._endpoints.wanted, self._clock, settings.deadline_s)
        self._metrics.unmapped.set_function(lambda: self._volumes.unmapped)
        self._metrics.unidentified.set_function(lambda: len(self._plugins.unidentified))

    def _drivers_here(self) -> set[str]:
        return {*self._plugins.drivers.values(), *(key.driver for key in self._mounts.keys().values())}

    def _all_rounds(self) -> list[Rounds]:
        probes: list[Probe] = [self._plugins, self._tcp, self._mounts]
        return [
            Rounds(
                probe,
                self._book,
                period_s=self._settings.mount_period_s if probe is self._mounts else self._settings.period_s,
                phase_s=spread(self._settings.node, self._settings.mount_period_s),
                clock=self._clock,
                metrics=self._metrics.probes,
                on_news=self._reporter.refresh,
            )
            for probe in probes
        ]

    def _keep(self, statuses: tuple[StorageStatus, ...]) -> None:
        self._state_file.save(Remembered(statuses, self._plugins.drivers, self._endpoints.announced))

    def _looked(self) -> bool:
        return all(self._book.rounds(kind) > 0 for kind in Kind)

    def _discovered(self) -> bool:
        """Whether every probe has found out what there is: until then an empty report would be a false claim."""
        return all(self._book.discoveries(kind) > 0 for kind in Kind)

    def _checks(self) -> list[Check]:
        return [
            Check("first-round", self._first_round),
            Check(
                "bus",
                lambda: (self._bus.connected, "connected" if self._bus.connected else "no connection to NATS"),
                required=False,
            ),
            Check("discovery", self._discovery, required=False),
            Check("drivers-identified", self._identified, required=False),
            Check(
                "state-file",
                lambda: (not self._state_file.trouble, self._state_file.trouble or "kept for the next start"),
                required=False,
            ),
            Check("mount-workers", lambda: (self._workers.stuck == 0, f"{self._workers.stuck} stuck"), required=False),
        ]

    def _first_round(self) -> tuple[bool, str]:
        if not self._looked():
            return False, "probing"
        return True, "every probe has had a round" + ("" if self._discovered() else ", but not every one could look")

    def _discovery(self) -> tuple[bool, str]:
        troubles = [f"{rounds.kind}: {rounds.trouble}" for rounds in self._rounds if rounds.trouble]
        if troubles:
            silent = "" if self._reporter.started else "; nothing is published until every probe could look once"
            return False, "; ".join(troubles) + silent
        return (True, "every probe knows what to look at") if self._discovered() else (False, "not yet done")

    def _identified(self) -> tuple[bool, str]:
        if self._book.discoveries(Kind.PLUGIN) == 0:
            return False, "no CSI socket has been looked for with success yet"
        unidentified = self._plugins.unidentified
        if not unidentified:
            return True, "the driver of every CSI socket is known"
        claimed = ", ".join(registered_names(self._settings.kubelet_dir)) or "none"
        return False, (
            f"never answered, so not reported: {', '.join(unidentified)}; registration sockets claim: {claimed}"
        )
