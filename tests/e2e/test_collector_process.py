"""A whole collector with a real API server, NATS and CSI driver: what the cluster says reaches the report, and back."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from leadsman.bus.subjects import status_subject
from leadsman.domain.durations import parse_duration
from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, StorageKey
from leadsman.domain.states import State
from leadsman.testing.nats import NatsServer
from leadsman.testing.pages import page
from leadsman.testing.process import Process, stop_all
from leadsman.testing.waiting import eventually
from leadsman.wire.report import decode_report
from leadsman_e2e.api import Api
from leadsman_e2e.collector import NFS, NODES, counts, register, storage_ready
from leadsman_e2e.plane import ControlPlane
from leadsman_e2e.rights import COLLECTOR, NAMESPACE
from leadsman_e2e.storage_node import PROBE_DEADLINE, PROBE_PERIOD
from leadsman_e2e.timings import Timings
from leadsman_e2e.tokens import pod_kubeconfig

pytestmark = pytest.mark.e2e

NODE = NODES[1]
KEY = StorageKey(NFS)
GRACE_S = 3 * parse_duration(PROBE_PERIOD)
"""How long a driver may be absent from the CSINode before it counts as not registered; 30 s as shipped."""


@pytest.fixture(scope="module")
def bus() -> Iterator[str]:
    """The URL of a NATS server."""
    with NatsServer() as server:
        yield server.url


@pytest.fixture(scope="module")
def admin_port(plane: ControlPlane, nodes: None, bus: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A collector on the node, with a driver that works; its admin port."""
    folder = tmp_path_factory.mktemp("c")
    socket, ports = folder / "plugins" / "nfs" / "csi.sock", folder / "ports.json"
    socket.parent.mkdir(parents=True)
    kubeconfig = pod_kubeconfig(plane, folder / "kubeconfig", NAMESPACE, COLLECTOR, NODE)
    driver = start(folder, "leadsman.testing.csi_driver", "--socket", str(socket), "--name", NFS)
    driver.wait_for("the driver serves", socket.exists)
    collector = start(
        folder,
        "leadsman_health_collector",
        "run",
        *("--node-name", NODE, "--kubelet-dir", str(folder), "--state-file", str(folder / "state.json")),
        *("--period", PROBE_PERIOD, "--probe-deadline", PROBE_DEADLINE, "--heartbeat", "1s"),
        *("--kubeconfig", str(kubeconfig), "--node-condition", "--nats-url", bus),
        *("--admin-listen", "127.0.0.1:0", "--port-file", str(ports)),
    )
    yield collector.ports(ports)["admin"]
    stop_all([collector, driver])


def start(folder: Path, module: str, *arguments: str) -> Process:
    """Start `python -m module`."""
    return Process.start(module, [sys.executable, "-m", module, *arguments], folder / f"{module}.log")


class Reports:
    """The node's reports as they come in."""

    def __init__(self) -> None:
        self.latest: NodeReport | None = None

    async def hear(self, message: Msg) -> None:
        """Take one."""
        self.latest = decode_report(message.data)

    def label(self, key: str) -> str | None:
        """The node's label in the latest report."""
        return self.latest.labels.get(key) if self.latest else None

    def brief(self) -> tuple[State, Reason | None] | None:
        """State and reason of the driver in the latest report."""
        storages = self.latest.storages if self.latest else ()
        return next(((one.state, one.reason) for one in storages if one.key == KEY), None)


async def equals(what: str, observe: Callable[[], object], wanted: object, within_s: float = 15.0) -> None:
    """Wait until `observe()` is `wanted`."""
    await eventually(what, observe, lambda seen: seen == wanted, within_s=within_s)


@pytest.fixture
async def reports(bus: str, admin_port: int) -> AsyncIterator[Reports]:
    """Hears the node, whose driver is healthy at first."""
    heard = Reports()
    client = await nats.connect(bus)
    await client.subscribe(status_subject(NODE), cb=heard.hear)
    try:
        await equals("the driver is healthy", heard.brief, (State.HEALTHY, None), within_s=30)
        yield heard
    finally:
        await client.close()


async def test_node_label_reaches_the_report_within_two_seconds(
    api: Api, reports: Reports, admin_port: int, timings: Timings
) -> None:
    """Rules about labels see a change at once, and the report has the Node's UID."""
    await equals("the label is in the report", lambda: reports.label("zone"), "a")
    assert reports.latest is not None
    assert reports.latest.node_uid == api.get("Node", NODE)["metadata"]["uid"]
    started = time.monotonic()
    api.patch("Node", NODE, {"metadata": {"labels": {"zone": "c"}}})
    await equals("the new one is in the report", lambda: reports.label("zone"), "c", within_s=2)
    timings.note("a changed Node label reaches the report", time.monotonic() - started)
    _, text = await asyncio.to_thread(page, admin_port, "/readyz?verbose")
    for check in ("cluster-view", "events", "node-condition"):
        assert f"[+]{check} " in text


async def test_unregistered_driver_is_reported_told_and_taken_back(
    api: Api, reports: Reports, timings: Timings
) -> None:
    """Out of CSINode: after the grace UNHEALTHY, with an Event and a condition; back in it: all is well again."""
    await equals("the condition is True", lambda: storage_ready(api, NODE).get("status"), "True")
    register(api, NODE)
    started = time.monotonic()
    try:
        gone = (State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED)
        await equals("the driver is not registered", reports.brief, gone, within_s=GRACE_S + 10)
        took = time.monotonic() - started
        assert took >= GRACE_S, "a restart of the driver would look like an outage"
        timings.note("a driver gone from CSINode is UNHEALTHY", took)
        await equals("the condition is False", lambda: storage_ready(api, NODE).get("status"), "False")
        assert storage_ready(api, NODE)["reason"] == "DriverNotRegistered"
        await eventually("an event tells", lambda: "DriverNotRegistered" in counts(api, NODE, NFS))
    finally:
        register(api, NODE, NFS)
    await equals("the driver is healthy", reports.brief, (State.HEALTHY, None), within_s=15)
    await equals("the condition is True", lambda: storage_ready(api, NODE)["status"], "True")
    await eventually("an event tells", lambda: "StorageHealthy" in counts(api, NODE, NFS))
