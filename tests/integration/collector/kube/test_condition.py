"""The Node condition is written on change and as a heartbeat, keeps its transition time, and touches nothing else."""

import asyncio

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman.testing.kube_api import Failure
from leadsman_health_collector.kube.condition import CONDITION
from leadsman_health_collector.kube.condition_writer import ConditionSettings, NodeConditionWriter
from leadsman_health_collector.kube.metrics import ConditionMetrics

from .conftest import NODE, node

pytestmark = pytest.mark.integration

KEY = StorageKey("nfs.csi.k8s.io", "a")
HEALTHY = StorageStatus(KEY, State.HEALTHY)
HUNG = StorageStatus(KEY, State.UNHEALTHY, Reason.MOUNT_HUNG)
FULL = StorageStatus(KEY, State.DEGRADED, Reason.CAPACITY_LOW)
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
QUICK = ConditionSettings(gap_s=0.02, heartbeat_s=60.0, backoff_limit_s=0.1)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def writer(server, api, clock, registry):
    await server.put("nodes", {**node(zone="a"), "status": {"conditions": [READY], "capacity": {"cpu": "4"}}})
    return make(api, clock, registry)


def make(api, clock, registry, settings=QUICK):
    return NodeConditionWriter(api, NODE, clock=clock, metrics=ConditionMetrics(registry), settings=settings)


def condition(server):
    listed = server.objects["nodes"]["", NODE]["status"]["conditions"]
    return next((one for one in listed if one["type"] == CONDITION), {})


async def test_nothing_is_written_before_there_is_something_to_say(server, writer, running, soon):
    """A collector that has not looked yet knows nothing of the node's storage."""
    assert writer.describe() == (True, "not written yet")
    async with running(writer):
        writer.show([HEALTHY])
        await soon("it is written", lambda: condition(server))
        await soon("it is told", lambda: writer.describe() == (True, f"{CONDITION} is True"))
    assert server.count("PATCH") == 1


async def test_it_is_set_and_cleared_and_nothing_else_is_touched(server, writer, clock, running, soon):
    """True, False with the reason, True again; the node's own status, labels and other conditions stay."""
    before = server.objects["nodes"]["", NODE]
    async with running(writer):
        writer.show([HEALTHY])
        await soon("it is True", lambda: condition(server).get("status") == "True")
        clock.advance(100)
        writer.show([HUNG])
        await soon("it is False", lambda: condition(server)["status"] == "False")
        assert condition(server) == {
            "type": CONDITION,
            "status": "False",
            "reason": "MountHung",
            "message": "UNHEALTHY: nfs.csi.k8s.io/a (MountHung)",
            "lastHeartbeatTime": "2026-09-21T14:31:40Z",
            "lastTransitionTime": "2026-09-21T14:31:40Z",
        }
        clock.advance(100)
        writer.show([HEALTHY])
        await soon("it is True again", lambda: condition(server)["status"] == "True")
        assert condition(server)["lastTransitionTime"] == "2026-09-21T14:33:20Z"
    after = server.objects["nodes"]["", NODE]
    assert after["status"]["conditions"][0] == READY
    assert after["status"]["capacity"] == before["status"]["capacity"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert all("/status" in line for line in server.requests if line.startswith("PATCH"))


async def test_transition_time_stays_while_the_status_does(server, writer, clock, running, soon):
    """Another reason for the same status is no transition."""
    async with running(writer):
        writer.show([HEALTHY])
        await soon("it is written", lambda: condition(server))
        since = condition(server)["lastTransitionTime"]
        clock.advance(100)
        writer.show([FULL])
        await soon("it has another reason", lambda: condition(server)["reason"] == "CapacityLow")
    assert condition(server)["lastTransitionTime"] == since
    assert condition(server)["lastHeartbeatTime"] > since


async def test_restart_is_no_transition_and_no_loss(server, api, writer, clock, registry, running, soon):
    """The condition stays at a stop, and the next run goes on from it."""
    async with running(writer):
        writer.show([HUNG])
        await soon("it is written", lambda: condition(server))
    left = condition(server)
    assert left["status"] == "False"
    clock.advance(1000)
    again = NodeConditionWriter(api, NODE, clock=clock, metrics=writer._metrics, settings=QUICK)
    async with running(again):
        again.show([HUNG])
        await soon("it is renewed", lambda: condition(server)["lastHeartbeatTime"] > left["lastHeartbeatTime"])
    assert condition(server)["lastTransitionTime"] == left["lastTransitionTime"]


async def test_heartbeat_renews_it(server, api, registry, running, soon, metric):
    """So that a condition that nobody keeps any more can be told from one that is kept."""
    writer = make(api, SystemClock(), registry, ConditionSettings(gap_s=0.02, heartbeat_s=0.1))
    async with running(writer):
        writer.show([HEALTHY])
        await soon("it is written three times", lambda: metric("condition_writes_total") >= 3)
    assert server.count("GET") == 1


async def test_quick_changes_are_written_together(server, api, registry, running, soon, metric):
    """Only the latest of a burst reaches the API server; what did not change is not written."""
    writer = make(api, SystemClock(), registry, ConditionSettings(gap_s=0.3))
    async with running(writer):
        writer.show([HEALTHY])
        await soon("it is True", lambda: condition(server).get("status") == "True")
        for _ in range(20):
            writer.show([HUNG])
            await asyncio.sleep(0.002)  # time in which a write could begin
            writer.show([FULL])
            writer.show([FULL])
        await soon("the latest is written", lambda: condition(server)["reason"] == "CapacityLow")
        await soon("its answer has come back", lambda: metric("condition_writes_total") >= 2)
    assert metric("condition_writes_total") == 2


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (403, "no right to write the node condition; apply deploy/health-collector/rbac-node-condition.yaml"),
        (404, "no Node to write the condition on; check --node-name"),
        (500, "told to fail"),
    ],
)
async def test_failure_is_told_and_tried_again(server, writer, running, soon, metric, status, words):
    """Whatever fails, the latest state is written in the end."""
    server.failures.append(Failure(status, "/status"))
    async with running(writer):
        writer.show([HUNG])
        await soon("it failed twice", lambda: metric("condition_failures_total") >= 2)
        assert not writer.describe()[0]
        assert words in writer.describe()[1]
        writer.show([FULL])
        server.failures.clear()
        await soon("the latest is written", lambda: condition(server).get("reason") == "CapacityLow")
        await soon("all is well", lambda: writer.describe()[0])


async def test_unreadable_node_is_not_written_blindly(server, writer, running, soon, metric):
    """Without knowing what stands there, the time of the last transition would be made up."""
    server.failures.append(Failure(403, f"/{NODE}", method="GET"))
    async with running(writer):
        writer.show([HUNG])
        await soon("it was tried twice", lambda: metric("condition_failures_total") >= 2)
        assert server.count("PATCH") == 0
        server.failures.clear()
        await soon("it is written", lambda: condition(server))


async def test_node_that_comes_back_gets_its_condition(server, writer, clock, running, soon, metric):
    """With a transition time of its own."""
    async with running(writer):
        writer.show([HEALTHY])
        await soon("it is written", lambda: condition(server))
        await server.delete("nodes", NODE)
        clock.advance(100)
        writer.show([FULL])
        await soon("the loss is seen", lambda: metric("condition_failures_total") >= 1)
        await server.put("nodes", node())
        await soon("it is written again", lambda: condition(server).get("reason") == "CapacityLow")
    assert condition(server)["lastTransitionTime"] == "2026-09-21T14:31:40Z"
