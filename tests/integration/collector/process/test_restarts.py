"""A collector that comes or goes at the worst moment, and one that cannot see: neither makes a bad node good."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman_health_collector.boot import read_boot_id
from leadsman_health_collector.metrics import CollectorMetrics
from leadsman_health_collector.state_file import Remembered, StateFile

pytestmark = pytest.mark.integration

NAME = "nfs.csi.k8s.io"
DRIVER = StorageKey(NAME)
FROZEN = (State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)


async def stopped(collector, client) -> None:
    """Stop `collector` and wait for the last that it has published."""
    collector.send(signal.SIGTERM)
    assert await asyncio.to_thread(collector.process.wait, 5) == 0, collector.log.read_text()
    await client.flush()


@contextlib.contextmanager
def frozen_driver(stage, folder: str) -> Iterator[Path]:
    """A socket on which the kernel accepts connections and nobody answers, as of a stopped process."""
    path = stage.kubelet / "plugins" / folder / "csi.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        yield path


async def test_a_frozen_driver_is_found_by_its_registration_when_the_state_file_is_lost(stage, bus, collector_on):
    """It cannot tell its name any more, and nobody remembers it."""
    server, _, heard = bus
    registry = stage.kubelet / "plugins_registry"
    registry.mkdir()
    (registry / f"{NAME}-reg.sock").touch()
    node = collector_on(server.url)
    node.state_file.write_bytes(b'{"v": 1, "node": "wor')
    with frozen_driver(stage, "csi-nfsplugin"):
        collector = node.start()
        await collector.until(lambda: heard.brief(DRIVER) == FROZEN, "it is found frozen")
    states = [{status.key: status.state for status in report.storages}.get(DRIVER) for report in heard.reports]
    assert set(states) <= {State.UNKNOWN, State.UNHEALTHY}
    assert node.metric('leadsman_collector_state_file_errors_total{operation="read"}') == 1


async def test_what_was_bad_stays_so_while_the_next_run_cannot_read_the_list_of_mounts(stage, bus, collector_on):
    """Rounds in which nothing could be looked at refute nothing."""
    server, _, heard = bus
    key = StorageKey("kubernetes.io/nfs", "10.0.0.9")
    hung = (State.UNHEALTHY, Reason.MOUNT_HUNG)
    node = collector_on(server.url)
    earlier = StateFile(
        node.state_file, node.name, read_boot_id(Path("/proc")), SystemClock(), CollectorMetrics(CollectorRegistry())
    )
    status = StorageStatus(key, *hung, since_epoch_s=5.0)
    earlier.save(Remembered(NodeReport(node.name, Sequence(1, 1), 10.0, (status,))))
    collector = node.start("--mountinfo", str(stage.directory / "absent"))
    series = 'leadsman_collector_probe_rounds_total{probe="mount_liveness"}'
    await collector.until(lambda: node.metric(series) >= 4 and len(heard.reports) > 1, "four blind rounds are over")
    assert heard.brief(key) == hung
    trouble = node.check("discovery")
    assert trouble.startswith("[-]discovery ")
    assert "mount_liveness" in trouble
    assert "cannot tell what to look at" in trouble


async def test_a_collector_that_never_finds_the_plugins_directory_says_so_and_publishes_nothing(
    stage, bus, collector_on
):
    """An empty report would claim that the node has no storage."""
    server, client, heard = bus
    node = collector_on(server.url)
    collector = node.start("--kubelet-dir", str(stage.directory / "absent"))
    series = 'leadsman_collector_discovery_errors_total{probe="csi_plugin"}'
    await collector.until(lambda: node.metric(series) >= 3, "three blind rounds are over")
    assert node.check("discovery").startswith("[-]discovery csi_plugin: cannot tell what to look at")
    assert "nothing is published" in node.check("discovery")
    assert node.check("drivers-identified").startswith("[-]drivers-identified")
    assert node.get("/readyz")[0] == 200
    await stopped(collector, client)
    assert heard.reports == []


async def test_a_state_file_that_cannot_be_written_and_a_nameless_driver_are_shown(stage, bus, collector_on):
    """The collector works on, and people can see what a restart would cost."""
    server, _, heard = bus
    (stage.directory / "file").touch()
    node = collector_on(server.url)
    with frozen_driver(stage, "b") as silent:
        collector = node.start("--state-file", str(stage.directory / "file" / "state.json"))
        await collector.until(lambda: heard.reports != [], "it reports")
        assert node.get("/readyz")[0] == 200
        assert node.check("state-file").startswith(f"[-]state-file {stage.directory}/file/state.json cannot be written")
        nameless = f"[-]drivers-identified never answered, so not reported: {silent}; "
        assert node.check("drivers-identified").startswith(nameless)
        assert node.check("discovery").startswith("[+]discovery")
        assert "Traceback" not in collector.log.read_text()


async def test_a_change_just_before_the_stop_is_published(stage, bus, collector_on):
    """It would have waited for the gap between two reports, and nobody speaks for the node until the next start."""
    server, client, heard = bus
    driver, _ = await stage.csi_driver(NAME)
    node = collector_on(server.url)
    collector = node.start("--heartbeat", "60s")
    await collector.until(lambda: heard.brief(DRIVER) == (State.HEALTHY, None), "the driver is reported")
    driver.kill()
    series = f'leadsman_collector_storage_state{{backend="",driver="{NAME}",state="UNHEALTHY"}}'
    await collector.until(lambda: node.metric(series) == 1, "its plugin is down")
    await stopped(collector, client)
    assert heard.brief(DRIVER) == FROZEN
