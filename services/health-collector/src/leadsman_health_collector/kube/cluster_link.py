"""Everything that a collector has to do with the API server, as one part: to be made, told of changes, and run.

Without an API server (no pod, no kubeconfig) it does nothing and knows nothing; probing never depends on it.
"""

from collections.abc import Awaitable, Callable, Iterable

from prometheus_client import CollectorRegistry

from leadsman.domain.clock import Clock
from leadsman.domain.report import StorageStatus
from leadsman.kube.api import Api
from leadsman.runtime.admin import Check
from leadsman_health_collector.cluster_view import NOTHING_KNOWN, ClusterView
from leadsman_health_collector.kube.cluster_watch import ClusterWatch
from leadsman_health_collector.kube.condition_writer import NodeConditionWriter
from leadsman_health_collector.kube.event_recorder import EventRecorder
from leadsman_health_collector.kube.metrics import ConditionMetrics, EventMetrics, ViewMetrics
from leadsman_health_collector.reporter import Transition


class ClusterLink:
    """The node's view of the cluster, its Events and its condition. `api` None stands for no API server."""

    def __init__(
        self,
        api: Api | None,
        node: str,
        *,
        events: bool,
        node_condition: bool,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self._api = api
        self._watch: ClusterWatch | None = None
        self._events: EventRecorder | None = None
        self._condition: NodeConditionWriter | None = None
        if api is None:
            return
        self._watch = ClusterWatch(api, node, clock=clock, metrics=ViewMetrics(registry))
        if events:
            self._events = EventRecorder(
                api, node, lambda: self.view.node_uid, clock=clock, metrics=EventMetrics(registry)
            )
        if node_condition:
            self._condition = NodeConditionWriter(api, node, clock=clock, metrics=ConditionMetrics(registry))

    @property
    def view(self) -> ClusterView:
        """This node as the API server has it; what was last read stands while the API server is away."""
        return self._watch.view if self._watch else NOTHING_KNOWN

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback`, synchronously, after every change of `view`; it must be quick and must not raise."""
        if self._watch:
            self._watch.on_change(callback)

    def on_transition(self, transition: Transition) -> None:
        """Tell people what has changed. Never waits, never raises."""
        if self._events is None:
            return
        for before, after in transition.storages:
            self._events.note(before, after)
        for volume_before, volume_after in transition.volumes:
            self._events.note_volume(volume_before, volume_after)

    def show(self, statuses: Iterable[StorageStatus]) -> None:
        """These are the node's storages, as published. Never waits, never raises."""
        if self._condition:
            self._condition.show(statuses)

    def tasks(self) -> dict[str, Awaitable[None]]:
        """What must run, for ever, by name."""
        parts = {"cluster view": self._watch, "events": self._events, "node condition": self._condition}
        return {name: part.run() for name, part in parts.items() if part is not None}

    def checks(self) -> list[Check]:
        """What /readyz?verbose tells; nothing here makes the collector unready."""
        parts = {"cluster-view": self._watch, "events": self._events, "node-condition": self._condition}
        return [Check(name, part.describe, required=False) for name, part in parts.items() if part is not None]

    async def close(self) -> None:
        """Close the connections."""
        if self._api:
            await self._api.close()
