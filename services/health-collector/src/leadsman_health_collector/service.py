"""The collector put together from its parts, and its life from start to SIGTERM."""

import asyncio
from collections.abc import Awaitable

from leadsman.bus.connect import Bus
from leadsman.bus.publish import ReportPublisher
from leadsman.bus.subjects import BACKENDS
from leadsman.domain.clock import SystemClock
from leadsman.domain.report import NodeReport, Sequence
from leadsman.kube.api import Api
from leadsman.runtime.admin import AdminRoutes
from leadsman.runtime.app import Shutdown, run_until_shutdown, start_eternal
from leadsman.runtime.http import HttpServer
from leadsman.runtime.options import Address
from leadsman.runtime.ports import write_ports
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.metrics import service_registry
from leadsman.telemetry.traces import Tracing
from leadsman_health_collector.book import Change, HealthBook
from leadsman_health_collector.boot import read_boot_id
from leadsman_health_collector.checks import Readiness
from leadsman_health_collector.config_file import load_config
from leadsman_health_collector.fact_rounds import FactRounds, Facts
from leadsman_health_collector.kube.cluster_link import ClusterLink
from leadsman_health_collector.metrics import CollectorMetrics
from leadsman_health_collector.observation import Kind
from leadsman_health_collector.probe_set import ProbeSet, Surroundings
from leadsman_health_collector.probe_spans import ProbeSpans
from leadsman_health_collector.refresher import Refresher
from leadsman_health_collector.reporter import NodeDetails, Reporter
from leadsman_health_collector.rounds import Rounds, spread
from leadsman_health_collector.settings import Settings
from leadsman_health_collector.state_file import Remembered, StateFile
from leadsman_health_collector.workers import WorkerPool

log = get_logger("collector")

COMPONENT = "health-collector"

LAST_REPORT_S = 1.0
"""At a stop the last report has this time to be handed to the bus."""


class Collector:
    """One node's collector.

    Raises:
        LeadsmanError: a file or an option cannot be used.
    """

    def __init__(self, settings: Settings, api: Api | None) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._registry = service_registry(COMPONENT)
        self._metrics = CollectorMetrics(self._registry)
        self._tracing = Tracing.start(COMPONENT, self._registry, node=settings.node)
        self._spans = ProbeSpans(self._tracing)
        self._cluster = ClusterLink(
            api,
            settings.node,
            events=settings.kube.events,
            node_condition=settings.kube.node_condition,
            clock=self._clock,
            registry=self._registry,
        )
        boot_id = read_boot_id(settings.look.roots.proc)
        self._state_file = StateFile(settings.state_file, settings.node, boot_id, self._clock, self._metrics)
        config = load_config(settings.look.config)
        known = self._state_file.load()
        self._workers = WorkerPool(settings.node, boot_id, self._clock)
        self._metrics.stuck.set_function(lambda: self._workers.stuck)
        self._probes = ProbeSet(
            settings.look,
            config,
            known,
            Surroundings(
                node=settings.node,
                boot_id=boot_id,
                clock=self._clock,
                workers=self._workers,
                metrics=self._metrics,
                view=lambda: self._cluster.view,
                api=api is not None,
            ),
        )
        self._book = HealthBook(
            self._clock,
            known.report.storages if known.report else (),
            known.report.bad_volumes if known.report else (),
            kinds=self._probes.kinds,
            damping=config.damping,
            looked_for=lambda driver: self._probes.allows(Kind.PLUGIN, driver),
        )
        self._facts = Facts(self._clock)
        self._bus = Bus(settings.bus, self._registry)
        self._publisher = ReportPublisher(
            self._bus,
            settings.node,
            epoch=self._state_file.epoch,
            clock=self._clock,
            registry=self._registry,
            heartbeat_s=settings.heartbeat_s,
            scope=settings.look.sidecar.driver if settings.look.sidecar else "",
        )
        self._known = known
        self._reporter = Reporter(
            NodeReport(settings.node, Sequence(0, 0), 0.0, (), boot_id=boot_id),
            self._book,
            self._publisher,
            ready=lambda: known.report is not None or self._readiness.discovered,
            keep=self._keep,
            metrics=self._metrics,
            details=self._details,
            on_transition=self._cluster.on_transition,
        )
        self._refresher = Refresher(self._reporter.refresh)
        self._rounds = [
            Rounds(
                probe,
                self._book,
                period_s=settings.look.period_s,
                phase_s=spread(settings.node, settings.look.period_s * probe.schedule.period),
                clock=self._clock,
                metrics=self._metrics.probes,
                on_news=self._refresher.ask,
                on_change=self._on_change,
                allows=self._probes.allows,
            )
            for probe in self._probes.probes
        ]
        self._fact_rounds = [
            FactRounds(
                probe,
                self._facts,
                period_s=settings.look.period_s,
                phase_s=spread(settings.node, settings.look.period_s * probe.period),
                clock=self._clock,
                metrics=self._metrics.probes,
            )
            for probe in self._probes.facts
        ]
        self._readiness = Readiness(self._book, self._rounds, self._probes)
        self._cluster.on_change(self._refresher.ask)

    async def run(self, shutdown: Shutdown) -> None:
        """Probe and publish until `shutdown`."""
        checks = self._readiness.checks(
            bus=lambda: self._bus.connected,
            state_file=lambda: self._state_file.trouble,
            workers=self._workers,
            published=lambda: self._reporter.started,
        )
        checks += self._cluster.checks()
        address = self._settings.admin
        admin = HttpServer(AdminRoutes(COMPONENT, self._registry, checks), address.host, address.port)
        await admin.listen()
        if self._settings.port_file:
            write_ports(self._settings.port_file, {"admin": admin.port})
        log.info("listening", admin=str(Address(address.host, admin.port)))
        await self._bus.subscribe(BACKENDS, self._probes.endpoints.on_backend_list)
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
            self._probes.close()
            await self._workers.close()
            await self._bus.close()
            await self._cluster.close()
            await self._tracing.close()

    async def _sound(self, shutdown: Shutdown) -> None:
        """Probe and publish until `shutdown`; then publish once more while the bus is still there.

        A change within the publisher's minimum gap would be lost otherwise: nobody speaks for the node until the next
        collector has started.
        """
        await self._probes.prepare()
        rounds = {f"rounds of {rounds.kind}": rounds.run() for rounds in self._rounds}
        facts = {f"facts of {rounds.name}": rounds.run() for rounds in self._fact_rounds}
        eternal: dict[str, Awaitable[None]] = {
            **self._cluster.tasks(),
            **rounds,
            **facts,
            "refresher": self._refresher.run(),
            "publisher": self._publisher.run(),
        }
        await run_until_shutdown(shutdown, eternal)
        self._reporter.refresh()
        if not self._bus.connected:
            return
        try:
            async with asyncio.timeout(LAST_REPORT_S):
                await self._publisher.publish_now()
        except TimeoutError:
            log.info("the bus did not take the last report in time; the next start publishes it")

    def _on_change(self, change: Change, began_epoch_s: float) -> None:
        self._reporter.probe = self._spans.changed(change, began_epoch_s) or self._reporter.probe

    def _details(self) -> NodeDetails:
        view = self._cluster.view
        before = self._known.report
        # Until the API server has been read, what an earlier run read of it stands.
        labels = view.labels if view.node_uid or before is None else before.labels
        uid = view.node_uid or (before.node_uid if before else "")
        return NodeDetails(uid, labels, self._facts.current(), self._probes.shares(), view.attach_slots)

    def _keep(self, report: NodeReport) -> None:
        drivers, endpoints = self._probes.plugins.drivers, self._probes.endpoints.to_remember
        self._state_file.save(Remembered(report, drivers, endpoints))
        self._cluster.show(report.storages)
