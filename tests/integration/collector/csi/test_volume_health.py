"""What drivers say of single volumes: by the new call, by the old condition, in turns, and never coming back."""

import asyncio
import hashlib
import json

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.csi_volume_health import MAX_PER_DRIVER, CsiVolumeHealthProbe
from leadsman_health_collector.volumes import VolumeMap

pytestmark = pytest.mark.integration

NAME = "nfs.csi.k8s.io"
NEW = ["GET_VOLUME_HEALTH"]
OLD = ["GET_VOLUME_STATS", "VOLUME_CONDITION"]


class Node:
    """A node whose mountinfo is a file, so that any number of volumes can be mounted."""

    def __init__(self, machine, clock) -> None:
        self._machine = machine
        self._mountinfo = machine.kubelet.parent / "mountinfo"
        self._lines: list[str] = []
        self.probe = CsiVolumeHealthProbe(
            machine.csi.plugins, MountTable(self._mountinfo, VolumeMap(machine.kubelet), clock), clock, 0.5
        )
        self._write()

    def mount(self, volume: str, handle: str, device: str = "0:50", pod: str = "p1") -> str:
        """A pod mounts `volume`; the path that it is published at."""
        place = self._machine.kubelet / "pods" / pod / "volumes" / "kubernetes.io~csi" / volume
        place.mkdir(parents=True)
        told = {"driverName": NAME, "volumeHandle": handle, "specVolID": volume}
        (place / "vol_data.json").write_text(json.dumps(told))
        return self._add(f"{place}/mount", device)

    def stage(self, handle: str, device: str) -> str:
        """The kubelet has staged the volume that its driver calls `handle`."""
        digest = hashlib.sha256(handle.encode()).hexdigest()
        return self._add(f"{self._machine.kubelet}/plugins/kubernetes.io/csi/{NAME}/{digest}/globalmount", device)

    def _add(self, path: str, device: str) -> str:
        number = len(self._lines) + 100
        self._lines.append(f"{number} 1 {device} / {path} rw - nfs4 10.0.0.9:/export rw")
        self._write()
        return path

    def _write(self) -> None:
        self._mountinfo.write_text("".join(f"{line}\n" for line in self._lines))


@pytest.fixture
def node(machine, clock) -> Node:
    """See `Node`."""
    return Node(machine, clock)


async def test_one_bad_volume_is_told_from_its_neighbours(machine, node, look, clock):
    """All are of one backend, even of one superblock."""
    node.mount("pvc-a", "10.0.0.9#export#a")
    path = node.mount("pvc-b", "10.0.0.9#export#b")
    node.mount("pvc-c", "10.0.0.9#export#c")
    async with machine.driver(NAME, can=NEW) as driver:
        driver.says(
            volumes={
                "10.0.0.9#export#b": [{"status": "INACCESSIBLE", "reason": "Gone", "message": "no such share"}],
                "10.0.0.9#export#c": [{"status": "DEGRADED"}],
            }
        )
        await look(machine.csi)
        seen = await look(node.probe)
        bad = seen[f"{NAME}/pvc-b"]
        assert {name: one.outcome for name, one in seen.items()} == {
            f"{NAME}/pvc-a": Outcome.GOOD,
            f"{NAME}/pvc-b": Outcome.ERROR,
            f"{NAME}/pvc-c": Outcome.IMPAIRED,
        }
        assert (bad.reason, bad.message) == (Reason.VOLUME_UNHEALTHY, "inaccessible: Gone: no such share")
        source = node.probe.sources()[f"{NAME}/pvc-b"]
        assert (source.key, source.volumes, source.place) == (StorageKey(NAME, "10.0.0.9"), ("pvc-b",), path)
        driver.says()
        clock.advance(60)
        assert {one.outcome for one in (await look(node.probe)).values()} == {Outcome.GOOD}


async def test_the_driver_is_told_where_the_volume_is_published_and_staged(machine, node, look):
    """As the kubelet tells it."""
    published, staged = node.mount("pvc-a", "a"), node.stage("a", "0:50")
    async with machine.driver(NAME, can=NEW) as driver:
        await look(machine.csi)
        await look(node.probe)
        assert ("NodeGetVolumeHealth", "a", published, staged) in driver.node.calls


async def test_an_older_driver_tells_the_condition_with_its_statistics(machine, node, look):
    """CSI 1.12: abnormal, normal, and no condition, which is no information."""
    for volume in "abc":
        node.mount(f"pvc-{volume}", volume)
    async with machine.driver(NAME, can=OLD) as driver:
        driver.says(conditions={"a": {"abnormal": True, "message": "stat: timeout"}, "b": {"message": "well"}})
        await look(machine.csi)
        seen = await look(node.probe)
        assert {name[-1]: one.outcome for name, one in seen.items()} == {
            "a": Outcome.ERROR,
            "b": Outcome.GOOD,
            "c": Outcome.NOT_RUN,
        }
        assert seen[f"{NAME}/pvc-a"].message == "abnormal: stat: timeout"
        assert driver.asked("NodeGetVolumeHealth") == 0


@pytest.mark.parametrize("can", [["GET_VOLUME_STATS"], ["VOLUME_CONDITION"], ["GET_STORAGE_HEALTH"], []])
async def test_statistics_alone_are_never_asked_for(machine, node, look, can):
    """They hang where storage does, and tell nothing that a mount worker does not (ceph/ceph-csi#4200)."""
    node.mount("pvc-a", "a")
    async with machine.driver(NAME, can=can) as driver:
        await look(machine.csi)
        assert await look(node.probe) == {}
        assert {call[0] for call in driver.node.calls} == {"NodeGetCapabilities"}


async def test_a_call_that_hangs_is_the_only_one_for_its_driver(machine, node, look, clock, until):
    """However many volumes and rounds there are; when it comes back the others have their turn."""
    for volume in "abc":
        node.mount(f"pvc-{volume}", volume)
    async with machine.driver(NAME, can=NEW) as driver:
        await look(machine.csi)
        driver.says(hang=["NodeGetVolumeHealth"])
        for _ in range(3):
            assert {one.outcome for one in (await look(node.probe)).values()} == {Outcome.NOT_RUN}
            clock.advance(60)
        assert driver.asked("NodeGetVolumeHealth") == 1
        driver.says()
        await until(node.probe._calls._out[NAME].task.done, "the call comes back")
        assert {one.outcome for one in (await look(node.probe)).values()} == {Outcome.GOOD}


async def test_calls_to_one_driver_follow_one_another(machine, node, look):
    """At most one is out at any time, though all volumes are looked at together."""
    for number in range(MAX_PER_DRIVER + 4):
        node.mount(f"pvc-{number}", f"v{number}")
    async with machine.driver(NAME, can=NEW) as driver:
        out = most = 0
        begin = driver.node._begin

        async def count(*arguments):
            nonlocal out, most
            out += 1
            most = max(most, out)
            await asyncio.sleep(0)
            told = await begin(*arguments)
            out -= 1
            return told

        driver.node._begin = count
        await look(machine.csi)
        await look(node.probe)
        assert (most, driver.asked("NodeGetVolumeHealth")) == (1, MAX_PER_DRIVER)


async def test_no_volume_is_asked_about_more_than_once_a_minute_and_none_is_forgotten(machine, node, look, clock):
    """Those that were not asked about for longest come first; bad ones come in every round."""
    for number in range(2 * MAX_PER_DRIVER):
        node.mount(f"pvc-{number:02}", f"v{number}")
    bad = f"{NAME}/pvc-07"
    async with machine.driver(NAME, can=NEW):
        await look(machine.csi)
        first = set(await look(node.probe))
        assert len(first) == MAX_PER_DRIVER
        clock.advance(30)
        second = set(node.probe.choose({bad}))
        assert len(second) == MAX_PER_DRIVER
        assert not first & second, "half a minute is too soon for any of the first, suspect or not"
        clock.advance(30)
        assert node.probe.choose({bad})[0] == bad


async def test_an_error_of_the_driver_is_no_word_on_the_volume(machine, node, look):
    """NOT_FOUND included: the driver may look in the wrong place."""
    node.mount("pvc-a", "a")
    async with machine.driver(NAME, can=NEW) as driver:
        driver.says(errors={"NodeGetVolumeHealth": "NOT_FOUND"})
        await look(machine.csi)
        assert (await look(node.probe))[f"{NAME}/pvc-a"].outcome is Outcome.NOT_RUN


async def test_what_is_no_persistent_volume_is_not_asked_about(machine, node, look):
    """One without a handle, one without a name, and what is only staged."""
    path = node.mount("pvc-a", "a")
    node.mount("pvc-b", "")
    node.mount("No Name", "c")
    node.stage("d", "0:51")
    async with machine.driver(NAME, can=NEW):
        await look(machine.csi)
        await look(node.probe)
    assert {one.place for one in node.probe.sources().values()} == {path}
