"""The collector as it runs on a node: a process, a real nats-server, real storage doubles."""

import asyncio
import signal
import subprocess
import sys
import time

import pytest

from leadsman.bus.subjects import BACKENDS
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman.wire.notices import Backend, BackendList, encode_notice

pytestmark = pytest.mark.integration

NAME = "nfs.csi.k8s.io"
DRIVER = StorageKey(NAME)
BACKEND = StorageKey(NAME, "10.0.0.9")


async def test_the_life_of_a_collector(stage, bus, collector_on):
    """Reports on change and as heartbeat, endpoints from the bus, restart without forgetting, a clean end."""
    server, client, heard = bus
    driver, _ = await stage.csi_driver(NAME)
    backend, port = await stage.tcp_backend()
    node = collector_on(server.url)
    collector = node.start()
    await collector.until(lambda: heard.brief(DRIVER) == (State.HEALTHY, None), "the driver is reported")
    assert heard.brief(BACKEND) is None
    assert node.get("/readyz")[0] == node.get("/livez")[0] == 200

    listed = BackendList([Backend(NAME, "10.0.0.9", [f"127.0.0.1:{port}"])])
    await client.publish(BACKENDS, encode_notice(listed))
    await collector.until(lambda: heard.brief(BACKEND) == (State.HEALTHY, None), "the announced backend is reported")

    before = len(heard.reports)
    await collector.until(lambda: len(heard.reports) > before, "heartbeats come without a change")
    sequences = [report.sequence for report in heard.reports]
    assert sequences == sorted(set(sequences))

    backend.kill()
    driver.send(signal.SIGSTOP)
    refused = (State.UNHEALTHY, Reason.ENDPOINT_REFUSED)
    frozen = (State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    await collector.until(
        lambda: (heard.brief(BACKEND), heard.brief(DRIVER)) == (refused, frozen), "both faults are reported"
    )
    assert node.metric('leadsman_collector_probe_results_total{outcome="timeout",probe="csi_plugin"}') >= 3

    since = {status.key: status.since_epoch_s for status in heard.reports[-1].storages}
    last = heard.reports[-1].sequence
    collector.send(signal.SIGTERM)
    assert await asyncio.to_thread(collector.process.wait, 5) == 0, collector.log.read_text()
    await client.flush()  # it says goodbye with a report
    seen = len(heard.reports)
    collector = node.start()
    await collector.until(lambda: len(heard.reports) > seen + 1, "the next run reports")
    later = heard.reports[seen:]
    states = {(status.key, status.state) for report in later for status in report.storages}
    assert states == {(DRIVER, State.UNHEALTHY), (BACKEND, State.UNHEALTHY)}, (
        "a restart makes nothing better or unknown"
    )
    assert {status.key: status.since_epoch_s for status in later[-1].storages} == since
    assert later[0].sequence.epoch > last.epoch

    driver.send(signal.SIGCONT)
    await stage.tcp_backend(port)
    well = (State.HEALTHY, None)
    await collector.until(lambda: heard.brief(BACKEND) == heard.brief(DRIVER) == well, "both are healed")
    collector.send(signal.SIGTERM)
    assert await asyncio.to_thread(collector.process.wait, 5) == 0
    assert "Traceback" not in collector.log.read_text()


@pytest.mark.usefixtures("can_mount")
async def test_a_hung_mount_leaves_the_process_responsive_and_able_to_end(stage, bus, collector_on):
    """Under uvloop, with a worker that cannot be killed: answers at once, ends at once, and remembers it."""
    server, _, heard = bus
    folder = stage.kubelet / "pods" / "0f0e" / "volumes" / "kubernetes.io~nfs"
    mount = await stage.fuse_mount(folder / "data", "10.0.0.9:/export")
    key = StorageKey("kubernetes.io/nfs", "10.0.0.9")
    node = collector_on(server.url)
    collector = node.start()
    await collector.until(lambda: heard.brief(key) == (State.HEALTHY, None), "the mount is healthy")
    assert heard.brief(StorageKey("kubernetes.io/nfs")) == (State.HEALTHY, None)
    mount.send(signal.SIGUSR1)
    hung = (State.UNHEALTHY, Reason.MOUNT_HUNG)
    await collector.until(lambda: heard.brief(key) == hung, "the mount is hung")
    begin = time.monotonic()
    assert node.get("/livez") == (200, "ok")
    assert node.metric("leadsman_collector_stuck_workers") == 1
    assert time.monotonic() - begin < 1
    collector.send(signal.SIGTERM)
    assert await asyncio.to_thread(collector.process.wait, 5) == 0, collector.log.read_text()

    seen = len(heard.reports)
    collector = node.start()
    await collector.until(lambda: node.metric("leadsman_collector_stuck_workers") == 1, "the orphan is counted")
    await collector.until(lambda: len(heard.reports) > seen + 1, "the next run reports")
    assert heard.brief(key) == hung
    mount.send(signal.SIGUSR2)
    await collector.until(lambda: heard.brief(key) == (State.HEALTHY, None), "the mount is healed")
    assert node.metric("leadsman_collector_stuck_workers") == 0


async def test_a_collector_without_nats_looks_and_is_ready_but_says_so(stage, collector_on):
    """Losing the bus is not losing the node."""
    async with stage.identity(NAME, "a"):
        node = collector_on("nats://127.0.0.1:1")
        collector = node.start()
        await collector.until(lambda: node.get("/readyz")[0] == 200, "it is ready")
        assert "[-]bus" in node.get("/readyz?verbose")[1]
        assert node.metric(f'leadsman_collector_storage_state{{backend="",driver="{NAME}",state="HEALTHY"}}') == 1
        collector.send(signal.SIGTERM)
        assert await asyncio.to_thread(collector.process.wait, 5) == 0


def test_a_file_that_cannot_be_used_ends_the_process_with_one_sentence():
    """No traceback for a user's mistake."""
    command = [sys.executable, "-m", "leadsman_health_collector", "run", "--node-name", "n", "--config", "/no.yaml"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: /no.yaml: cannot be read: No such file or directory")
    assert "Traceback" not in ended.stderr
