"""Where drivers are found: by scan, by what registration sockets say, and by a sidecar's only socket."""

import asyncio
import shutil
import signal
import socket
import subprocess

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.plugin_sockets import find_socket
from leadsman_health_collector.probes.csi_plugin import CsiPluginProbe

pytestmark = pytest.mark.integration

NAME = "nfs.csi.k8s.io"
DRIVER = StorageKey(NAME)


async def test_a_registrar_tells_of_a_socket_that_no_scan_finds(machine, look):
    """Another name and another depth than usual."""
    async with machine.driver(NAME, "plugins/vendor/a/b/endpoint.sock") as driver:
        assert await look(machine.csi) == {}
        async with machine.registrar(NAME, driver.socket):
            await machine.registrars.meet()
            seen = await look(machine.csi)
    assert {path: one.outcome for path, one in seen.items()} == {str(driver.socket): Outcome.GOOD}


async def test_a_registration_socket_may_be_the_drivers_own(machine, look):
    """An empty endpoint says so; the kubelet takes it in the same way."""
    (machine.kubelet / "plugins_registry").mkdir()
    async with machine.registrar(NAME, ""):
        await look(machine.registration)
        await look(machine.csi)
    path = str(machine.kubelet / "plugins_registry" / f"{NAME}-reg.sock")
    assert machine.csi.drivers == {path: NAME}


async def test_a_frozen_driver_gets_the_name_that_its_registrar_tells(machine, stage, look):
    """Not the only name left over, which is another driver's, but the one told for this very socket."""
    (machine.kubelet / "plugins_registry").mkdir()
    (machine.kubelet / "plugins_registry" / "left.over.example.com-reg.sock").touch()
    path = machine.kubelet / "plugins" / "x" / "csi.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(str(path))
        frozen.listen()
        async with machine.registrar(NAME, path, file="odd-reg.sock"):
            await look(machine.registration)
            machine.csi.discover()
    assert machine.csi.drivers == {str(path): NAME}


async def test_a_guessed_name_is_mended_by_what_a_registrar_tells(machine, look):
    """The guess is made while the right registrar has not answered yet."""
    (machine.kubelet / "plugins_registry").mkdir()
    (machine.kubelet / "plugins_registry" / "left.over.example.com-reg.sock").touch()
    path = machine.kubelet / "plugins" / "x" / "csi.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(str(path))
        frozen.listen()
        machine.csi.discover()
        assert machine.csi.drivers == {str(path): "left.over.example.com"}
        async with machine.registrar(NAME, path, file="odd-reg.sock"):
            await look(machine.registration)
            machine.csi.discover()
    assert machine.csi.drivers == {str(path): NAME}


async def test_a_driver_that_is_down_is_missed_if_its_registrar_still_runs(machine, look):
    """The collector was started after the driver had crashed; the registrar is a process of its own."""
    path = machine.kubelet / "plugins" / "a" / "csi.sock"
    path.parent.mkdir()
    async with machine.registrar(NAME, path):
        await look(machine.registration)
        seen = await look(machine.csi)
    assert (seen[str(path)].outcome, seen[str(path)].reason) == (Outcome.ABSENT, Reason.DRIVER_SOCKET_MISSING)


async def test_an_endpoint_that_cannot_be_seen_from_here_is_no_missing_driver(machine, look):
    """It lies outside the kubelet's directory, or in a part of it that our container does not have."""
    for endpoint in ("/run/elsewhere/csi.sock", machine.kubelet / "not-mounted" / "csi.sock"):
        async with machine.registrar(NAME, endpoint):
            await look(machine.registration)
            assert await look(machine.csi) == {}


@pytest.mark.parametrize("folder", ["50%41", "a#b", "a?b", "a b"])
async def test_a_path_is_no_uri(machine, look, folder):
    """gRPC takes it for one."""
    async with machine.driver(NAME, "plugins/a/csi.sock") as driver:
        path = machine.kubelet / "plugins" / folder / "csi.sock"
        path.parent.mkdir()
        driver.socket.rename(path)
        assert {place: one.outcome for place, one in (await look(machine.csi)).items()} == {str(path): Outcome.GOOD}


async def test_two_sockets_of_one_driver_are_one_plugin(machine, look):
    """An upgrade has moved the socket and left the dead one; what answers is what is asked further."""
    old = machine.kubelet / "plugins" / "old" / "csi.sock"
    old.parent.mkdir()
    csi = CsiPluginProbe(machine.kubelet, SystemClock(), 0.5, {str(old): NAME})
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(old))
    async with machine.driver(NAME, "plugins/new/csi.sock") as driver:
        seen = await look(csi)
        assert {path: one.outcome for path, one in seen.items()} == {
            str(driver.socket): Outcome.GOOD,
            str(old): Outcome.ABSENT,
        }
        assert csi.plugins()[NAME].socket == str(driver.socket)


async def test_a_driver_that_has_moved_leaves_nothing_to_be_missed(machine, look):
    """Some have a new directory for every start; only while the new place does not answer is the old one missed."""
    async with machine.driver(NAME, "plugins/first/csi.sock") as driver:
        await look(machine.csi)
    shutil.rmtree(driver.socket.parent)
    assert (await look(machine.csi))[str(driver.socket)].outcome is Outcome.REMOVED
    async with machine.driver(NAME, "plugins/second/csi.sock") as successor:
        await look(machine.csi)
        await look(machine.csi)
        assert machine.csi.drivers == {str(successor.socket): NAME}


async def test_a_sidecar_watches_its_socket_and_no_other(machine, look):
    """It learns the driver's name from the driver."""
    async with machine.driver(NAME) as driver, machine.driver("other.example.com", "plugins/b/csi.sock"):
        csi = CsiPluginProbe(machine.kubelet / "absent", SystemClock(), 0.5, {}, only_socket=driver.socket)
        assert {path: one.outcome for path, one in (await look(csi)).items()} == {str(driver.socket): Outcome.GOOD}
        assert csi.drivers == {str(driver.socket): NAME}


async def test_a_sidecars_driver_that_has_gone_is_absent_and_never_removed(machine, look):
    """They live and die together, so a missing socket is a restart or a crash."""
    async with machine.driver(NAME) as driver:
        csi = CsiPluginProbe(machine.kubelet, SystemClock(), 0.5, {}, only_socket=driver.socket)
        await look(csi)
    driver.socket.unlink(missing_ok=True)
    assert (await look(csi))[str(driver.socket)].outcome is Outcome.ABSENT


async def test_a_sidecar_forgets_what_another_one_left(machine, look):
    """A state file of another driver's sidecar names other sockets."""
    async with machine.driver(NAME) as driver:
        csi = CsiPluginProbe(machine.kubelet, SystemClock(), 0.5, {"/old/csi.sock": "x.io"}, only_socket=driver.socket)
        assert set(await look(csi)) == {str(driver.socket)}


async def test_a_sidecar_without_its_directory_cannot_tell(machine):
    """The pod is not put together as it should be."""
    csi = CsiPluginProbe(machine.kubelet, SystemClock(), 0.5, {}, only_socket=machine.kubelet / "absent" / "csi.sock")
    with pytest.raises(FileNotFoundError):
        csi.discover()


def test_links_are_not_followed(tmp_path):
    """Neither as a socket nor on the way to one: a link may lead onto a volume that hangs."""
    (tmp_path / "plugins" / "real").mkdir(parents=True)
    (tmp_path / "plugins" / "real" / "csi.sock").touch()
    (tmp_path / "plugins" / "real" / "link.sock").symlink_to("csi.sock")
    (tmp_path / "plugins" / "link").symlink_to("real")
    assert find_socket(tmp_path, f"{tmp_path}/plugins/real/csi.sock").sockets == {f"{tmp_path}/plugins/real/csi.sock"}
    assert not find_socket(tmp_path, f"{tmp_path}/plugins/real/link.sock").sockets
    assert not find_socket(tmp_path, f"{tmp_path}/plugins/link/csi.sock").sockets


@pytest.mark.usefixtures("can_mount")
async def test_an_endpoint_on_a_hung_mount_is_not_touched(machine, stage):
    """To look there would hang the collector for ever, so a failure of this test may well be a hang."""
    for place in ("plugins/trap", "pods/1/volumes/trap"):
        await stage.fuse_mount(machine.kubelet / place, "10.0.0.9:/a", "--hung")
        path = f"{machine.kubelet}/{place}/csi.sock"
        found = await asyncio.wait_for(asyncio.to_thread(find_socket, machine.kubelet, path), 5)
        assert not found.sockets


@pytest.mark.usefixtures("can_mount")
def test_the_kubelets_own_directories_may_be_mounted_one_by_one(machine):
    """A container that is given `plugins` alone has it as a mount of its own."""
    plugins = machine.kubelet / "plugins"
    subprocess.run(["mount", "-t", "tmpfs", "none", str(plugins)], check=True)
    (plugins / "a").mkdir()
    (plugins / "a" / "x.sock").touch()
    assert find_socket(machine.kubelet, f"{plugins}/a/x.sock").sockets == {f"{plugins}/a/x.sock"}


async def test_a_rolling_update_within_the_grace_never_turns_unhealthy(stage, machine, watch):
    """The old pod removes its sockets, the new one binds its own."""
    driver, path = await stage.csi_driver(NAME)
    async with watch(machine.csi).running() as seen:
        await seen.until(DRIVER, State.HEALTHY)
        driver.send(signal.SIGTERM)
        await seen.until(DRIVER, State.DEGRADED, Reason.DRIVER_SOCKET_MISSING)
        async with machine.driver(NAME, "plugins/csi-plugin/csi.sock"):
            await seen.until(DRIVER, State.HEALTHY)
        assert State.UNHEALTHY not in {brief[0] for _, brief in seen.history}
        assert not path.exists()
