"""P4, second half: what a CSI driver itself says of single volumes that are mounted on this node.

Source: csi.v1.Node/NodeGetVolumeHealth (alpha in CSI 1.13) of drivers that advertise GET_VOLUME_HEALTH; else the
`volume_condition` of NodeGetVolumeStats (alpha until CSI 1.12), of drivers that advertise VOLUME_CONDITION. Period 60 s
and no volume more often; at most one call is out per driver, and MAX_PER_DRIVER volumes of it have their turn in one
round. Deadline 10 s. Thresholds: one look decides, both ways; an answer without a word on the volume, and a call that
fails or hangs, leave everything as it was. Evidence class: data path, on the driver's word.

It cannot tell whether the driver has looked: some answer from a cache of minutes, some a constant. It does not see
volumes in block mode, nor those that could not be mounted.
"""

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leadsman.csi.v1 import csi_pb2
from leadsman.domain.clock import Clock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.csi_client import CallFailedError, PatientCalls
from leadsman_health_collector.driver_findings import in_words, worst_of
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.mountinfo import Mount
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.plugins import Plugin
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.strikes import Thresholds
from leadsman_health_collector.volume_data import VolumeData, read_volume_data
from leadsman_health_collector.volumes import ReadVolumeData, VolumeMount

MAX_PER_DRIVER = 16
"""Volumes of one driver that it is asked about in one round; more of them take turns."""

_EARLY = 0.95
"""A volume may be asked about again after this share of the gap: rounds are not punctual to the millisecond."""

_CAPABILITIES = csi_pb2.NodeServiceCapability.RPC
_PUBLISHED = re.compile(r".*/pods/[^/]+/volumes/kubernetes\.io~csi/[^/]+/mount")


@dataclass(frozen=True, slots=True)
class _Volume:
    """One PersistentVolume: what its driver calls it, and where it is published and, if so, staged."""

    key: StorageKey
    name: str
    handle: str
    path: str
    staging: str


class CsiVolumeHealthProbe:
    """Asks drivers among `plugins` about the volumes in `table`, none more often than every `gap_s` seconds."""

    kind = Kind.VOLUME_HEALTH
    schedule = Schedule(period=6.0, thresholds=Thresholds(definite=1, failures=1, up=1), second_look=False)

    def __init__(
        self,
        plugins: Callable[[], Mapping[str, Plugin]],
        table: MountTable,
        clock: Clock,
        deadline_s: float,
        *,
        gap_s: float = 60.0,
        read: ReadVolumeData = read_volume_data,
    ) -> None:
        self._plugins = plugins
        self._table = table
        self._clock = clock
        self._deadline_s = deadline_s
        self._gap_s = gap_s
        self._read = read
        self._calls = PatientCalls(clock)
        self._volumes: dict[str, _Volume] = {}
        self._told: dict[tuple[int, str], VolumeData] = {}
        self._asked_at: dict[str, float] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: volumes as `<driver>/<PersistentVolume>`."""
        self._volumes = {f"{one.key.driver}/{one.name}": one for one in self._published()}
        self._asked_at = {name: at for name, at in self._asked_at.items() if name in self._volumes}
        self._calls.keep(frozenset(one.key.driver for one in self._volumes.values()))
        return self._volumes.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:
        """See `Probe.choose`: suspects first, then those not asked about for longest, MAX_PER_DRIVER per driver."""
        due = self._clock.monotonic() - self._gap_s * _EARLY
        by_driver: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._volumes, key=lambda name: (name not in suspects, self._last(name), name)):
            if self._last(name) <= due:
                by_driver[self._volumes[name].key.driver].append(name)
        return [name for names in by_driver.values() for name in names[:MAX_PER_DRIVER]]

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return {name: Source(one.key, volumes=(one.name,), place=one.path) for name, one in self._volumes.items()}

    async def look(self, name: str) -> Observation:
        """See `Probe.look`; waits for its turn with the driver as long as for an answer."""
        volume = self._volumes.get(name)
        plugin = self._plugins().get(volume.key.driver) if volume else None
        if volume is None or plugin is None:
            return not_run("it is no longer mounted, or its driver has gone")
        turn = self._turns[plugin.driver]
        try:
            async with asyncio.timeout(self._deadline_s):
                await turn.acquire()
        except TimeoutError:
            return not_run("its driver is busy with other volumes")
        try:
            return await self._ask(plugin, name, volume)
        except CallFailedError as error:
            return not_run(str(error))
        finally:
            turn.release()

    def _last(self, name: str) -> float:
        return self._asked_at.get(name, float("-inf"))

    async def _ask(self, plugin: Plugin, name: str, volume: _Volume) -> Observation:
        self._calls.check(plugin)
        self._asked_at[name] = self._clock.monotonic()
        if plugin.can(_CAPABILITIES.GET_VOLUME_HEALTH):
            request = csi_pb2.NodeGetVolumeHealthRequest(
                volume_id=volume.handle, volume_publish_path=volume.path, staging_target_path=volume.staging
            )
            health = await self._calls.call(plugin, lambda node: node.NodeGetVolumeHealth(request), self._deadline_s)
            return judge_health(volume.handle, health)
        question = csi_pb2.NodeGetVolumeStatsRequest(
            volume_id=volume.handle, volume_path=volume.path, staging_target_path=volume.staging
        )
        stats = await self._calls.call(plugin, lambda node: node.NodeGetVolumeStats(question), self._deadline_s)
        return judge_condition(stats)

    def _published(self) -> Iterator[_Volume]:
        """Volumes of drivers that can tell; of one in several pods any one path, for what is told is about all."""
        remembered, self._told = self._told, {}
        plugins = self._plugins()
        for volume in self._table.current().values():
            plugin = plugins.get(volume.key.driver)
            if plugin is None or not _tells(plugin):
                continue
            for mount in volume.mounts:
                place = (mount.mount_id, mount.mount_point)
                data = remembered.get(place) or self._data(mount)
                if data is not None:
                    self._told[place] = data
                    if data.volume and data.handle and data.driver == plugin.driver:
                        yield _volume(volume, mount, data)

    def _data(self, mount: Mount) -> VolumeData | None:
        """What the file beside a published mount says: the table has such a mount only if that file could be read."""
        published = _PUBLISHED.fullmatch(mount.mount_point) and mount.mount_point.isprintable()
        return self._read(Path(mount.mount_point).parent / "vol_data.json") if published else None


def judge_health(handle: str, answer: csi_pb2.NodeGetVolumeHealthResponse) -> Observation:
    """What NodeGetVolumeHealth says of the volume `handle`."""
    health = answer.volume_health
    if not answer.HasField("volume_health") or health.volume_id not in {"", handle}:
        return not_run("the driver's answer does not speak of this volume")
    return worst_of([_adverse(entry) for entry in health.health_statuses])


def judge_condition(answer: csi_pb2.NodeGetVolumeStatsResponse) -> Observation:
    """What NodeGetVolumeStats says of the volume that it was asked about."""
    if not answer.HasField("volume_condition"):
        return not_run("the driver does not tell the condition of this volume, although it advertises that")
    if answer.volume_condition.abnormal:
        words = in_words("abnormal", answer.volume_condition.message)
        return Observation(Outcome.ERROR, Reason.VOLUME_UNHEALTHY, words)
    return Observation(Outcome.GOOD)


def _tells(plugin: Plugin) -> bool:
    by_stats = plugin.can(_CAPABILITIES.GET_VOLUME_STATS) and plugin.can(_CAPABILITIES.VOLUME_CONDITION)
    return by_stats or plugin.can(_CAPABILITIES.GET_VOLUME_HEALTH)


def _volume(volume: VolumeMount, mount: Mount, data: VolumeData) -> _Volume:
    digest = hashlib.sha256(data.handle.encode()).hexdigest()  # kubelet, pkg/volume/csi: makeDeviceMountPath
    ending = f"/plugins/kubernetes.io/csi/{data.driver}/{digest}/globalmount"
    staging = next((one.mount_point for one in volume.mounts if one.mount_point.endswith(ending)), "")
    return _Volume(volume.key, data.volume, data.handle, mount.mount_point, staging)


def _adverse(entry: csi_pb2.VolumeHealth.VolumeHealthEntry) -> Observation:
    words = (entry.reason, entry.message)
    match entry.status:
        case csi_pb2.INACCESSIBLE:
            return Observation(Outcome.ERROR, Reason.VOLUME_UNHEALTHY, in_words("inaccessible", *words))
        case csi_pb2.DATA_LOSS:
            return Observation(Outcome.ERROR, Reason.VOLUME_UNHEALTHY, in_words("data loss", *words))
        case csi_pb2.DEGRADED:
            return Observation(Outcome.IMPAIRED, Reason.VOLUME_UNHEALTHY, in_words("degraded", *words))
        case number:
            unknown = in_words(f"status {int(number)}", *words)
            return Observation(
                Outcome.IMPAIRED, Reason.VOLUME_UNHEALTHY, f"adverse, but of a kind not known here: {unknown}"
            )
