"""This node as the API server has it, kept current by three watches.

Source: the node's own Node (labels, UID, attached volumes) and CSINode (registered drivers and how many volumes they
can attach, the kubelet's findings), and the names of all CSIDrivers. Changes arrive within a second; the first two are
also listed again every 60 to 120 s, which bounds any drift. When the API server is lost or a right is missing, the last
view stands and the other watches go on.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec

from leadsman.domain.clock import Clock
from leadsman.domain.durations import format_duration
from leadsman.kube.api import Api
from leadsman.kube.watch import Reflector
from leadsman.kube.watched import Decoded, Key, Watched, WatchSettings
from leadsman.telemetry.logs import get_logger
from leadsman_health_collector.cluster_view import NOTHING_KNOWN, AttachSlots, ClusterView
from leadsman_health_collector.kube.metrics import ViewMetrics
from leadsman_health_collector.kube.objects import (
    OwnCsiNode,
    OwnNode,
    watched_csi_drivers,
    watched_csi_node,
    watched_node,
)

log = get_logger("collector.kube")

T = TypeVar("T")

OWN_OBJECTS = WatchSettings(watch_s=60.0, relist_s=60.0, idle_s=130.0)
"""Resync of the node's own two objects (facts: storage-health 3.1, P3); a list of one name is one read for etcd."""

CSI_DRIVERS = WatchSettings()

DEGRADED_AFTER_S = 30.0
"""A watch that has been down for this long shows on /readyz."""

RIGHTS = "deploy/health-collector/rbac.yaml"


class _Kept(Generic[T]):
    """What one watch has brought; `read` is whether that is all there is, be it nothing.

    Of an object that cannot be read the former value stands: it must not look like one that is not there.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._unreadable = False
        self.objects: dict[str, T] = {}
        self.read = False

    def noting(self, watched: Watched[T]) -> Watched[T]:
        """`watched`, but that it could not read something is noted here."""

        def decode(body: msgspec.Raw) -> Decoded[T]:
            try:
                return watched.decode(body)
            except msgspec.DecodeError:
                self._unreadable = True
                self.read = False
                self._changed()
                raise

        return dataclasses.replace(watched, decode=decode)

    def replace(self, objects: Mapping[Key, T]) -> None:
        former = self.objects if self._unreadable else {}
        self.objects = former | {name: kept for (_, name), kept in objects.items()}
        self.read = not self._unreadable
        self._unreadable = False
        self._changed()

    def put(self, key: Key, kept: T) -> None:
        self.objects[key[1]] = kept
        self._changed()

    def drop(self, key: Key) -> None:
        self.objects.pop(key[1], None)
        self._changed()

    def __len__(self) -> int:
        return len(self.objects)


class ClusterWatch:
    """Keeps `view` current while `run` runs."""

    def __init__(
        self,
        api: Api,
        node: str,
        *,
        clock: Clock,
        metrics: ViewMetrics,
        own: WatchSettings = OWN_OBJECTS,
        drivers: WatchSettings = CSI_DRIVERS,
    ) -> None:
        self.view: ClusterView = NOTHING_KNOWN
        self._name = node
        self._metrics = metrics
        self._callbacks: list[Callable[[], None]] = []
        self._node = _Kept[OwnNode](self._changed)
        self._csi_node = _Kept[OwnCsiNode](self._changed)
        self._drivers = _Kept[None](self._changed)
        self._seen: tuple[OwnNode | None, OwnCsiNode | None] = (None, None)

        def reflector(watched: Any, kept: Any, settings: WatchSettings) -> Reflector[Any]:  # noqa: ANN401 - of one T
            return Reflector(kept.noting(watched), api, kept, clock=clock, metrics=metrics, settings=settings)

        self._reflectors = {
            "Node": reflector(watched_node(node), self._node, own),
            "CSINode": reflector(watched_csi_node(node), self._csi_node, own),
            "CSIDriver": reflector(watched_csi_drivers(), self._drivers, drivers),
        }

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback`, synchronously, after every change of `view`; it must be quick and must not raise."""
        self._callbacks.append(callback)

    async def run(self) -> None:
        """Watch, for ever."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"watch {kind}")

    def describe(self) -> tuple[bool, str]:
        """Whether everything is read and current, and words for people, for /readyz."""
        troubles = [words for kind, one in self._reflectors.items() if (words := _trouble(kind, one))]
        if not troubles and self._node.read and not self._node.objects:
            troubles.append(f"there is no Node {self._name}: check --node-name")
        if troubles:
            return False, "; ".join(troubles)
        registered = len(self.view.registered or ())
        return True, f"{len(self.view.labels)} labels, {registered} registered drivers"

    def _changed(self) -> None:
        self._note_losses()
        view = self._build()
        if view == self.view:
            return
        self.view = view
        for callback in self._callbacks:
            callback()

    def _build(self) -> ClusterView:
        node, csi_node = self._node.objects.get(self._name), self._csi_node.objects.get(self._name)
        return ClusterView(
            node_uid=node.uid if node else "",
            labels=node.labels if node else {},
            registered=self._registered(csi_node),
            cluster_drivers=frozenset(self._drivers.objects),
            storage_health=csi_node.verdicts if csi_node else (),
            attach_slots=_attach_slots(node, csi_node),
        )

    def _registered(self, csi_node: OwnCsiNode | None) -> frozenset[str] | None:
        if csi_node is not None:
            return csi_node.drivers
        # The kubelet makes the CSINode with the first driver. Without a Node either, our name is wrong or the node has
        # been taken out of the cluster: that tells nothing about drivers.
        return frozenset() if self._csi_node.read and self._node.objects else None

    def _note_losses(self) -> None:
        """Count, once per change, what of the two objects is of no use."""
        node, csi_node = seen = self._node.objects.get(self._name), self._csi_node.objects.get(self._name)
        before, self._seen = self._seen, seen
        if node and node.labels_cut and node != before[0]:
            self._metrics.labels_cut.inc(node.labels_cut)
            log.warning("labels left out, all of them are too long for a report", number=node.labels_cut)
        if csi_node and csi_node.unread and csi_node != before[1]:
            self._metrics.unread_conditions.inc(csi_node.unread)
            log.warning("cannot read all of the CSINode's storageHealth", number=csi_node.unread)
        if csi_node and csi_node.odd_drivers and csi_node != before[1]:
            self._metrics.bad_objects.labels("CSINode").inc(csi_node.odd_drivers)
            log.warning("entries of the CSINode name no driver", number=csi_node.odd_drivers)


def _attach_slots(node: OwnNode | None, csi_node: OwnCsiNode | None) -> dict[str, AttachSlots]:
    attached = node.attached if node else None
    limits = csi_node.attach_limits if csi_node else {}
    return {
        driver: AttachSlots(limit, None if attached is None else attached.get(driver, 0))
        for driver, limit in limits.items()
    }


def _trouble(kind: str, one: Reflector[Any]) -> str:
    """What is wrong with a watch; empty if nothing is."""
    hint = f"; apply {RIGHTS}" if one.last_status == HTTPStatus.FORBIDDEN else ""
    if not one.synced:
        return f"{kind} not read yet: {one.last_error}{hint}"
    if one.down_for_s > DEGRADED_AFTER_S:
        since = format_duration(round(one.down_for_s))
        return f"{kind} not watched for {since}, using what is known: {one.last_error}{hint}"
    return ""
