"""All parts together, as the collector has them; and none of them without an API server."""

import asyncio

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman_health_collector.cluster_view import NOTHING_KNOWN
from leadsman_health_collector.kube.cluster_link import ClusterLink
from leadsman_health_collector.kube.condition import CONDITION
from leadsman_health_collector.reporter import Transition

from .conftest import NODE, csi_node, node

pytestmark = pytest.mark.integration

DRIVER = "nfs.csi.k8s.io"
HUNG = StorageStatus(StorageKey(DRIVER, "a"), State.UNHEALTHY, Reason.MOUNT_HUNG)
VOLUME = VolumeStatus(DRIVER, "pv-1", State.UNHEALTHY, Reason.MOUNT_HUNG)
CHANGE = Transition(storages=((None, HUNG),), volumes=((None, VOLUME),))


def make(api, registry, **switches):
    chosen = {"events": True, "node_condition": True, **switches}
    return ClusterLink(api, NODE, clock=FakeClock(), registry=registry, **chosen)


class Tasks:
    """All tasks of a link as one part."""

    def __init__(self, link):
        self._link = link

    async def run(self):
        await asyncio.gather(*self._link.tasks().values())


async def test_parts_work_together(server, api, registry, running, soon):
    """The view is read, a transition becomes Events, the statuses become the condition."""
    await server.put("nodes", node("u-1", zone="a"))
    await server.put("csinodes", csi_node(DRIVER))
    link, calls = make(api, registry), []
    link.on_change(lambda: calls.append(link.view))
    async with running(Tasks(link)):
        await soon("the view is read", lambda: link.view.registered == {DRIVER} and link.view.node_uid)
        assert calls[-1] is link.view
        link.on_transition(CHANGE)
        link.show([HUNG])
        await soon("two events", lambda: len(server.objects["events"]) == 2)
        await soon("the condition", lambda: server.objects["nodes"]["", NODE].get("status", {}).get("conditions"))
        await soon("all is well", lambda: all(check.probe()[0] for check in link.checks()))
    assert {event["involvedObject"]["uid"] for event in server.objects["events"].values()} == {"u-1"}
    assert [check.name for check in link.checks()] == ["cluster-view", "events", "node-condition"]
    assert not any(check.required for check in link.checks())


async def test_events_and_condition_can_be_left_out(server, api, registry, running, soon):
    """Then nothing is ever written."""
    link = make(api, registry, events=False, node_condition=False)
    async with running(Tasks(link)):
        link.on_transition(CHANGE)
        link.show([HUNG])
        await soon("the view is read", lambda: link.view.node_uid)
    assert [check.name for check in link.checks()] == ["cluster-view"]
    assert server.count("POST") == server.count("PATCH") == 0
    assert CONDITION not in str(server.objects)


async def test_without_an_api_server_nothing_is_known_and_nothing_runs(registry):
    """A machine outside any cluster."""
    link = make(None, registry)
    link.on_change(lambda: None)
    link.on_transition(CHANGE)
    link.show([HUNG])
    assert link.view is NOTHING_KNOWN
    assert link.tasks() == {}
    assert link.checks() == []
    await link.close()
