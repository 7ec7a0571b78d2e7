"""A collector beside a single CSI driver, in that driver's own pod."""

import asyncio
import signal
import subprocess
import sys

import pytest

from leadsman.bus.subjects import status_subject
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman.wire.report import decode_report

pytestmark = pytest.mark.integration

NFS, SMB = "nfs.csi.k8s.io", "smb.csi.k8s.io"


async def test_a_sidecar_speaks_of_its_driver_only_and_on_a_subject_of_its_own(stage, bus, collector_on):
    """Another driver on the node, its volumes and the node's facts are the agent's business."""
    server, client, agent = bus
    own = []

    async def hear(msg) -> None:
        own.append(decode_report(msg.data))

    await client.subscribe(status_subject("worker-1.example.com", NFS), cb=hear)
    await client.flush()
    driver, socket = await stage.csi_driver(NFS, folder="nfs")
    async with stage.identity(SMB, "smb"):
        node = collector_on(server.url)
        collector = node.start("--csi-socket", str(socket), "--driver-name", NFS)
        await collector.until(lambda: bool(own), "the sidecar reports")
        assert [status.key for status in own[-1].storages] == [StorageKey(NFS)]
        assert own[-1].scope == NFS
        assert own[-1].facts == {}
        driver.send(signal.SIGSTOP)
        frozen = (State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
        await collector.until(lambda: own[-1].storages[0][1:3] == frozen, "the frozen driver is told")
        driver.send(signal.SIGCONT)
        await collector.until(lambda: own[-1].storages[0].state is State.HEALTHY, "its recovery is told")
        collector.send(signal.SIGTERM)
        assert await asyncio.to_thread(collector.process.wait, 5) == 0
    assert agent.reports == []


async def test_a_driver_that_calls_itself_otherwise_is_told_and_not_reported(stage, collector_on):
    """Whoever deploys a sidecar must see that its name is wrong."""
    async with stage.identity(NFS, "nfs"):
        socket = stage.kubelet / "plugins" / "nfs" / "csi.sock"
        node = collector_on("nats://127.0.0.1:1")
        collector = node.start("--csi-socket", str(socket), "--driver-name", SMB)
        await collector.until(lambda: "mend --driver-name" in node.check("drivers-identified"), "it is told")
        assert node.metric("leadsman_collector_storage_state{") == -1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--csi-socket", "/csi/csi.sock"), "belong together"),
        (("--driver-name", NFS), "belong together"),
        (("--csi-socket", "/csi/csi.sock", "--driver-name", "no/driver"), "is not the name of a CSI driver"),
    ],
)
def test_half_a_sidecar_is_refused_with_a_sentence(options, words):
    """Its subject on the bus must be known before it can say anything."""
    command = [sys.executable, "-m", "leadsman_health_collector", "run", "--node-name", "n", *options]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 2
    assert words in ended.stderr
