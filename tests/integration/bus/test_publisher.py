import dataclasses
import time

import pytest
from prometheus_client import CollectorRegistry

from leadsman.bus.connect import Bus, BusSettings
from leadsman.bus.errors import SubjectError
from leadsman.bus.publish import ReportPublisher
from leadsman.bus.subjects import status_subject
from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman.wire.report import decode_report

pytestmark = pytest.mark.integration

NODE = "node-1.example"


def report(storages: tuple[StorageStatus, ...] = ()) -> NodeReport:
    return NodeReport(NODE, Sequence(0, 0), 0.0, storages)


@pytest.fixture
async def wire(raw):
    """What the node's subject carried: (time, report)."""
    seen: list[tuple[float, NodeReport]] = []

    async def keep(msg) -> None:
        seen.append((time.monotonic(), decode_report(msg.data)))

    await raw.subscribe(status_subject(NODE), cb=keep)
    await raw.flush()
    return seen


@pytest.fixture
def publisher(server, run):
    registry = CollectorRegistry()
    bus = Bus(BusSettings((server.url,), "collector/node-1", reconnect_jitter_s=0.05), registry)

    def make(heartbeat_s: float, scope: str = "") -> ReportPublisher:
        made = ReportPublisher(
            bus,
            NODE,
            scope=scope,
            epoch=7,
            clock=SystemClock(),
            registry=registry,
            heartbeat_s=heartbeat_s,
            uniform=lambda low, high: (low + high) / 2 if high <= 2 else 0.1,
        )
        run(bus.run())
        run(made.run())
        return made

    make.bus, make.registry = bus, registry  # type: ignore[attr-defined]
    return make


def storage(state: State, message: str = "", backend: str = "nfs") -> StorageStatus:
    reason = None if state is State.HEALTHY else Reason.ENDPOINT_TIMEOUT
    return StorageStatus(StorageKey("nfs.csi.k8s.io", backend), state, reason, message=message)


async def test_heartbeats_repeat_the_state_with_rising_sequence(publisher, wire, eventually):
    """The publisher stamps epoch, sequence and interval itself."""
    made = publisher(heartbeat_s=1.1)
    made.update(report(), urgent=False)
    await eventually(lambda: len(wire) >= 2)
    assert [seen.sequence for _, seen in wire[:2]] == [Sequence(7, 1), Sequence(7, 2)]
    assert wire[0][1].interval_s == pytest.approx(1.1)
    assert 0.9 <= wire[1][0] - wire[0][0] < 1.5


async def test_changes_go_out_at_once_but_once_a_second(publisher, wire, eventually):
    """Three changes in a row make two messages, the second a second later and with the last state."""
    made = publisher(heartbeat_s=60)
    started = time.monotonic()
    made.update(report((storage(State.HEALTHY),)), urgent=True)
    await eventually(lambda: len(wire) == 1, within=1)
    assert wire[0][0] - started < 0.5
    made.update(report((storage(State.DEGRADED),)), urgent=True)
    made.update(report((storage(State.UNHEALTHY),)), urgent=True)
    await eventually(lambda: len(wire) == 2)
    assert wire[1][0] - wire[0][0] >= 0.95
    assert wire[1][1].storages[0].state is State.UNHEALTHY


async def test_the_state_is_published_once_more_after_a_reconnect(server, publisher, run, replicate, eventually):
    """The stream may have come back empty, so nobody waits for the next heartbeat."""
    made = publisher(heartbeat_s=60)
    made.update(report(), urgent=True)
    one = replicate(server.url)
    await eventually(lambda: NODE in one.replica.reports)
    server.restart()
    await eventually(lambda: one.replica.reports[NODE].sequence.seq == 2)


async def test_a_node_on_which_everything_is_broken_is_still_heard(publisher, wire, eventually):
    """Too long a report loses its texts, not its states; one that is too long even then is counted."""
    made = publisher(heartbeat_s=60)
    broken = tuple(storage(State.UNHEALTHY, "no route to host " * 20, f"nfs-{number}") for number in range(50))
    bad = tuple(
        VolumeStatus("nfs", f"pv-{number}", State.UNHEALTHY, Reason.MOUNT_HUNG, "stuck " * 20) for number in range(60)
    )
    made.update(dataclasses.replace(report(broken), bad_volumes=bad), urgent=True)
    await eventually(lambda: len(wire) == 1)
    seen = wire[0][1]
    assert (len(seen.storages), len(seen.bad_volumes)) == (50, 60)
    assert {one.message for one in (*seen.storages, *seen.bad_volumes)} == {""}
    made.update(report(broken * 5), urgent=True)
    result = {"result": "too_large"}
    await eventually(lambda: publisher.registry.get_sample_value("leadsman_report_publishes_total", result) == 1)


async def test_failures_are_counted_and_the_last_word_can_be_said(server, publisher, wire, eventually):
    """Without NATS publishing fails visibly; a collector that stops may publish regardless of the schedule."""
    made = publisher(heartbeat_s=60)
    assert not await made.publish_now()
    made.update(report(), urgent=True)
    await eventually(lambda: len(wire) == 1)
    assert await made.publish_now()
    await eventually(lambda: len(wire) == 2)
    server.kill()
    await eventually(lambda: not publisher.bus.connected)
    assert not await made.publish_now()
    result = {"result": "failed"}
    assert publisher.registry.get_sample_value("leadsman_report_publishes_total", result) == 1


async def test_a_sidecar_publishes_beside_the_agent_and_every_replica_believes_it(
    server, publisher, replicate, eventually
):
    """The publisher stamps the scope, so that subject and body agree whatever it is given."""
    made = publisher(heartbeat_s=60, scope="nfs.csi.k8s.io")
    made.update(report((storage(State.HEALTHY),)), urgent=True)
    one = replicate(server.url)
    await eventually(lambda: one.replica.reports)
    assert set(one.replica.reports) == {f"{NODE}/nfs.csi.k8s.io"}
    assert one.replica.reports[f"{NODE}/nfs.csi.k8s.io"].scope == "nfs.csi.k8s.io"


def test_a_scope_that_is_no_driver_is_refused_at_once(server):
    """No subject exists for it; the collector must not start and then be heard by nobody."""
    registry = CollectorRegistry()
    bus = Bus(BusSettings((server.url,), "collector/node-1"), registry)
    with pytest.raises(SubjectError, match="is not a CSI driver name"):
        ReportPublisher(bus, NODE, scope="kubernetes.io/nfs", epoch=7, clock=SystemClock(), registry=registry)
