"""Which probes look at this machine, made from the settings. The one place where they are put together."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from leadsman.domain.clock import Clock
from leadsman.domain.report import StorageKey
from leadsman_health_collector.announced import EndpointDirectory
from leadsman_health_collector.capacity import shares
from leadsman_health_collector.cluster_view import ClusterView
from leadsman_health_collector.config_file import CollectorConfig
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.kernel_modules import KernelModules
from leadsman_health_collector.metrics import CollectorMetrics
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Kind
from leadsman_health_collector.probes.canary_io import CanaryIoProbe
from leadsman_health_collector.probes.capacity import CapacityProbe
from leadsman_health_collector.probes.cpu_memory import CpuMemoryProbe
from leadsman_health_collector.probes.csi_plugin import CsiPluginProbe
from leadsman_health_collector.probes.csi_storage_health import CsiStorageHealthProbe
from leadsman_health_collector.probes.csi_volume_health import CsiVolumeHealthProbe
from leadsman_health_collector.probes.device_paths import DevicePathsProbe
from leadsman_health_collector.probes.diskstats import DiskstatsProbe
from leadsman_health_collector.probes.gpu import GpuProbe
from leadsman_health_collector.probes.io_pressure import IoPressureProbe
from leadsman_health_collector.probes.kernel_support import KernelSupportProbe
from leadsman_health_collector.probes.mount_flags import MountFlagsProbe
from leadsman_health_collector.probes.mount_liveness import MountLivenessProbe
from leadsman_health_collector.probes.name_resolution import NameResolutionProbe
from leadsman_health_collector.probes.pressure import PressureProbe
from leadsman_health_collector.probes.probe import FactProbe, Probe
from leadsman_health_collector.probes.protocol_ping import ProtocolPingProbe, can_ping
from leadsman_health_collector.probes.registration import RegistrationProbe
from leadsman_health_collector.probes.tcp_endpoint import TcpEndpointProbe
from leadsman_health_collector.registrars import Registrars
from leadsman_health_collector.resolver import Resolver
from leadsman_health_collector.settings import LookSettings
from leadsman_health_collector.state_file import Remembered
from leadsman_health_collector.volumes import VolumeMap
from leadsman_health_collector.workers import WorkerPool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What probes are given by whoever runs them.

    `view` tells what the API server says, `api` whether there is one. `everything` has mounts looked at that are no
    volumes of a driver, too. Who looks only once is not `patient`: nothing can be waited for.
    """

    node: str
    boot_id: str
    clock: Clock
    workers: WorkerPool
    metrics: CollectorMetrics
    view: Callable[[], ClusterView]
    api: bool = False
    everything: bool = False
    patient: bool = True


class ProbeSet:
    """The probes that are switched on, and what they share. `known` is what an earlier run left."""

    def __init__(
        self, settings: LookSettings, config: CollectorConfig, known: Remembered, around: Surroundings
    ) -> None:
        self._settings = settings
        self._config = config
        self._around = around
        self.kubelet_dir = settings.kubelet_dir.resolve()  # as mountinfo shows it
        volumes = VolumeMap(self.kubelet_dir, everything=around.everything)
        self.table = MountTable(settings.mountinfo, volumes, around.clock)
        known_as = (settings.kubelet_dir, Path("/var/lib/kubelet"))
        self._registrars = None if settings.sidecar else Registrars(self.kubelet_dir, known_as)
        self.plugins = CsiPluginProbe(
            self.kubelet_dir,
            around.clock,
            settings.deadline_s,
            known.drivers,
            registrars=self._registrars,
            view=around.view,
            only_socket=settings.sidecar.socket if settings.sidecar else None,
            patient=around.patient,
        )
        self.endpoints = EndpointDirectory(
            config.endpoints,
            known.endpoints,
            self.drivers_here,
            around.clock,
            around.metrics,
            mounted=self.table.endpoints,
        )
        self._mounts = MountLivenessProbe(self.table, around.workers, settings.mount_deadline_s)
        self._gpu = GpuProbe(around.node, around.boot_id, settings.mount_deadline_s, proc=settings.roots.proc)
        self.probes = [probe for probe in self._all_probes() if config.allows(probe.kind)]
        self.facts = [probe for probe in self._all_facts() if config.allows(probe.name)]
        around.metrics.unmapped.set_function(lambda: self.table.unmapped)
        around.metrics.unidentified.set_function(lambda: len(self.plugins.unidentified))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The probes that judge storage."""
        return tuple(probe.kind for probe in self.probes)

    def allows(self, kind: Kind, driver: str) -> bool:
        """Whether a probe may look at sources of `driver`."""
        sidecar = self._settings.sidecar
        return (sidecar is None or driver == sidecar.driver) and self._config.allows(kind, driver)

    def drivers_here(self) -> set[str]:
        """Drivers that have a plugin or a mounted volume on this node."""
        return {*self.plugins.drivers.values(), *(mount.key.driver for mount in self.table.latest.values())}

    def shares(self) -> Mapping[StorageKey, tuple[float | None, float | None]]:
        """Shares (0-1) of space and inodes in use, by key."""
        return shares(self._mounts.capacities, self.table.latest)

    @property
    def misnamed(self) -> str:
        """What is wrong with a sidecar's driver in words for people: nothing is reported of one with another name."""
        sidecar = self._settings.sidecar
        others = sorted(set(self.plugins.drivers.values()) - {sidecar.driver}) if sidecar else []
        if sidecar is None or not others:
            return ""
        return f"the driver behind {sidecar.socket} calls itself {others[0]}, not {sidecar.driver}; mend --driver-name"

    @property
    def registered(self) -> list[str]:
        """Drivers that registration sockets claim to be."""
        return sorted(self._registrars.drivers) if self._registrars else []

    async def prepare(self) -> None:
        """Ask the registration sockets once, a second at most: they know of sockets that no scan finds."""
        if self._registrars:
            with contextlib.suppress(OSError):  # the probes' own discovery says so, and again until it is mended
                await self._registrars.meet()

    def close(self) -> None:
        """End what looks in processes of its own; `WorkerPool.close` ends the rest."""
        self._gpu.close()

    def _all_probes(self) -> list[Probe]:
        return [*self._of_drivers(), *self._of_endpoints(), *self._of_mounts()]

    def _of_drivers(self) -> list[Probe]:
        settings, around, plugins = self._settings, self._around, self.plugins.plugins
        roots = settings.roots
        return [
            self.plugins,
            RegistrationProbe(
                around.view,
                plugins,
                self._registrars,
                api=around.api,
                mounted=lambda: {mount.key.driver for mount in self.table.latest.values()},
                plugin_probe=lambda driver: self.allows(Kind.PLUGIN, driver),
                sockets_known=lambda: self.plugins.complete,
                patient=around.patient,
            ),
            CsiStorageHealthProbe(plugins, around.view, around.clock, settings.slow_deadline_s),
            CsiVolumeHealthProbe(
                plugins, self.table, around.clock, settings.slow_deadline_s, gap_s=6 * settings.period_s
            ),
            KernelSupportProbe(
                self.drivers_here,
                self.table,
                KernelModules(roots.proc, roots.sys, roots.modules),
                self._config.kernel_modules,
            ),
        ]

    def _of_endpoints(self) -> list[Probe]:
        settings, clock, wanted = self._settings, self._around.clock, self.endpoints.wanted
        resolver = Resolver(clock)
        return [
            TcpEndpointProbe(wanted, resolver, clock, settings.deadline_s, pings=self._pings),
            ProtocolPingProbe(wanted, resolver, clock, settings.deadline_s, pings=self._pings),
            NameResolutionProbe(wanted, resolver, clock, settings.name_deadline_s),
        ]

    def _of_mounts(self) -> list[Probe]:
        settings, around, roots = self._settings, self._around, self._settings.roots
        probes: list[Probe] = [
            self._mounts,
            MountFlagsProbe(self.table, roots.sys, around.clock),
            DevicePathsProbe(self.table, roots.sys, around.clock),
            CapacityProbe(self.table, lambda: self._mounts.capacities),
            IoPressureProbe(self.table, roots.proc),
        ]
        canaries = self._config.canaries
        if canaries:
            probes.append(CanaryIoProbe(canaries, around.workers, settings.slow_deadline_s, around.node))
        return probes

    def _all_facts(self) -> list[FactProbe]:
        if self._settings.sidecar:  # they are the agent's: two voices about one node would contradict each other
            return []
        roots, clock = self._settings.roots, self._around.clock
        return [
            PressureProbe(roots.proc, clock),
            DiskstatsProbe(self.table, self._settings.mountinfo, roots.proc, clock),
            CpuMemoryProbe(roots.proc, roots.sys),
            self._gpu,
        ]

    def _pings(self, endpoint: Endpoint) -> bool:
        """Whether `endpoint` is asked in its own protocol; any other is only connected to."""
        return can_ping(endpoint) and self.allows(Kind.PROTOCOL, endpoint.key.driver)
