"""Registration with the kubelet: CSINode where there is an API server, registration sockets where there is none."""

import signal
import socket
import time

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.observation import Kind, Outcome
from leadsman_health_collector.probes.csi_plugin import CsiPluginProbe
from leadsman_health_collector.probes.registration import RegistrationProbe
from leadsman_health_collector.registrars import Registrars

from .conftest import leave_behind, rounds

pytestmark = pytest.mark.integration

NAME = "nfs.csi.k8s.io"
DRIVER = StorageKey(NAME)


async def test_a_driver_in_csi_node_is_registered_whatever_its_socket_says(machine, look):
    """And people are told that the socket refuses: a kubelet that restarts would not find the driver."""
    machine.cluster(NAME)
    leave_behind(machine, NAME)
    async with machine.driver(NAME):
        await look(machine.csi)
        seen = (await look(machine.registration))[NAME]
    assert seen.outcome is Outcome.GOOD
    assert seen.message == "registered, but nobody listens on its registration socket"


async def test_a_running_driver_that_is_not_in_csi_node_is_absent(machine, look):
    """Its socket is fine and its registrar answers; the kubelet has refused it or does not know yet."""
    machine.cluster()
    async with machine.driver(NAME) as driver, machine.registrar(NAME, driver.socket):
        await look(machine.csi)
        seen = (await look(machine.registration))[NAME]
        assert (seen.outcome, seen.reason) == (Outcome.ABSENT, Reason.DRIVER_NOT_REGISTERED)
        assert seen.message == "it is not in this node's CSINode; its registration socket answers"
        machine.cluster(NAME)
        assert (await look(machine.registration))[NAME].outcome is Outcome.GOOD


async def test_a_driver_of_the_cluster_that_was_never_here_is_not_meant_for_this_node(machine, look):
    """Nor is one of which only a dead registration socket is left; in-tree drivers are nobody's plugins."""
    machine.cluster(drivers=("ebs.csi.aws.com", "kubernetes.io/nfs"))
    leave_behind(machine, "old.example.com")
    await rounds(machine, 2)
    seen = await look(machine.registration)
    assert {name: one.outcome for name, one in seen.items()} == {
        "ebs.csi.aws.com": Outcome.NOT_RUN,  # it may be restarting as we do
        "old.example.com": Outcome.ABSENT,
    }
    seen = await look(machine.registration)
    assert {name: one.outcome for name, one in seen.items()} == {
        "ebs.csi.aws.com": Outcome.REMOVED,
        "old.example.com": Outcome.REMOVED,
    }


async def test_a_driver_that_was_registered_is_missed_until_it_is_uninstalled_from_the_cluster(machine, look):
    """What was here may come back; what the cluster no longer has will not."""
    machine.cluster(NAME, drivers=(NAME, "other.example.com"))
    await look(machine.registration)
    machine.cluster(drivers=(NAME, "other.example.com"))
    assert (await look(machine.registration))[NAME].outcome is Outcome.ABSENT
    machine.cluster(drivers=("other.example.com",))
    assert (await look(machine.registration))[NAME].outcome is Outcome.ABSENT, "it may yet restart"
    assert (await look(machine.registration))[NAME].outcome is Outcome.REMOVED
    machine.mounted.add(NAME)
    assert (await look(machine.registration))[NAME].outcome is Outcome.ABSENT, "its volumes are still here"


async def test_an_uninstalled_driver_is_gone_for_the_plugin_probe_too(machine, look):
    """Helm leaves the directory of the socket behind."""
    machine.cluster(NAME, drivers=(NAME, "other.example.com"))
    async with machine.driver(NAME) as driver:
        await look(machine.csi)
    driver.socket.unlink(missing_ok=True)
    assert (await look(machine.csi))[str(driver.socket)].outcome is Outcome.ABSENT
    machine.cluster(drivers=("other.example.com",))
    for outcome in (
        Outcome.ABSENT,
        Outcome.ABSENT,
        Outcome.REMOVED,
    ):  # it may be restarting, or its CSIDriver be made anew
        assert (await look(machine.csi))[str(driver.socket)].outcome is outcome


async def test_what_an_uninstalled_driver_left_after_a_reboot_is_gone_and_not_bad(machine, look):
    """Both sockets are there and refuse (kubernetes-csi/node-driver-registrar#206); the cluster knows other drivers."""
    machine.cluster(drivers=("other.example.com",))
    leave_behind(machine, "old.example.com")
    path = machine.kubelet / "plugins" / "old.example.com" / "csi.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    await rounds(machine)
    assert (await look(machine.csi))[str(path)].outcome is Outcome.REMOVED
    assert (await look(machine.registration))["old.example.com"].outcome is Outcome.REMOVED
    machine.cluster(drivers=("old.example.com",))
    assert (await look(machine.csi))[str(path)].outcome is Outcome.ABSENT
    assert (await look(machine.registration))["old.example.com"].outcome is Outcome.ABSENT


async def test_without_an_api_server_the_registration_socket_decides(machine, look):
    """It answers, refuses, and is gone, while the driver itself works."""
    async with machine.driver(NAME) as driver:
        async with machine.registrar(NAME, driver.socket):
            await look(machine.csi)
            assert (await look(machine.registration))[NAME].outcome is Outcome.GOOD
        leave_behind(machine, NAME)
        seen = (await look(machine.registration))[NAME]
        assert (seen.outcome, seen.message) == (Outcome.ABSENT, "nobody listens on its registration socket")
        (machine.kubelet / "plugins_registry" / f"{NAME}-reg.sock").unlink()
        seen = (await look(machine.registration))[NAME]
        assert (seen.outcome, seen.message) == (Outcome.ABSENT, "its registration socket has vanished")


async def test_a_leftover_alone_is_no_source_without_an_api_server(machine, look):
    """Gone, not bad: nothing of the driver is here, and nothing ever was."""
    leave_behind(machine, NAME)
    await look(machine.csi)
    assert await look(machine.registration) == {}


async def test_a_registrar_that_has_gone_together_with_its_driver_is_gone(machine, look):
    """Its leftover is no accusation."""
    async with machine.driver(NAME) as driver, machine.registrar(NAME, driver.socket):
        await look(machine.csi)
        assert (await look(machine.registration))[NAME].outcome is Outcome.GOOD
    driver.socket.unlink(missing_ok=True)
    leave_behind(machine, NAME)
    await look(machine.csi)
    seen = (await look(machine.registration))[NAME]
    assert (seen.outcome, seen.message) == (Outcome.REMOVED, "nothing of it is here any more")


async def test_a_driver_without_any_registration_socket_is_not_judged_without_an_api_server(machine, look):
    """It may register itself in a way that is not seen here."""
    async with machine.driver(NAME):
        await look(machine.csi)
        assert await look(machine.registration) == {}


async def test_while_a_known_api_server_is_silent_nothing_is_said(machine, look):
    """The registration socket answers although the kubelet has refused the driver: silence must not heal that."""
    machine.cluster()
    async with machine.driver(NAME) as driver, machine.registrar(NAME, driver.socket):
        await look(machine.csi)
        assert (await look(machine.registration))[NAME].outcome is Outcome.ABSENT
        machine.view = type(machine.view)()
        assert (await look(machine.registration))[NAME].outcome is Outcome.NOT_RUN


async def test_an_api_server_that_has_yet_to_speak_is_waited_for(machine, look):
    """After a restart of the collector a refused driver must not look well for its first rounds."""
    probe = RegistrationProbe(lambda: machine.view, machine.csi.plugins, machine.registrars, api=True)
    async with machine.driver(NAME) as driver, machine.registrar(NAME, driver.socket):
        await look(machine.csi)
        assert (await look(probe))[NAME].outcome is Outcome.NOT_RUN
        machine.cluster(NAME)
        assert (await look(probe))[NAME].outcome is Outcome.GOOD


async def test_a_socket_that_is_offered_under_another_name_is_pointed_out(machine, look):
    """The kubelet registers what the registrar says, which is not what pods ask for."""
    machine.cluster()
    async with machine.driver(NAME) as driver, machine.registrar("nfs.example.com", driver.socket):
        await look(machine.csi)
        await look(machine.registration)
        seen = (await look(machine.registration))[NAME]
    assert seen.outcome is Outcome.ABSENT
    assert seen.message.endswith("its socket is offered to the kubelet as nfs.example.com")


async def test_other_plugins_than_csi_drivers_are_none_of_ours(machine, look):
    """Device plugins and DRA drivers register in the same directory."""
    machine.cluster()
    async with machine.registrar("gpu.example.com", "/x", kind="DRAPlugin"):
        await look(machine.registration)
        assert await look(machine.registration) == {}


async def test_a_sidecar_judges_its_own_driver_only(machine, look):
    """The rest of the cluster is for the collector that watches the whole node."""
    machine.cluster(NAME, "other.example.com", drivers=(NAME, "third.example.com"))
    async with machine.driver(NAME) as driver:
        csi = CsiPluginProbe(machine.kubelet, SystemClock(), 0.5, {}, only_socket=driver.socket)
        await look(csi)
        probe = RegistrationProbe(lambda: machine.view, csi.plugins, None, api=True)
        assert {name: one.outcome for name, one in (await look(probe)).items()} == {NAME: Outcome.GOOD}


async def test_the_kubelets_word_is_never_taken_out_of_its_mouth(machine, look):
    """A registrar that has told once is only connected to; NotifyRegistrationStatus is not even generated."""
    machine.cluster(NAME)
    async with machine.driver(NAME) as driver, machine.registrar(NAME, driver.socket) as registration:
        await look(machine.csi)
        for _ in range(3):
            await look(machine.registration)
        assert registration.calls == 1


async def test_a_registrar_that_has_been_replaced_is_asked_anew(machine, look):
    """The next one on the same path may offer another driver."""
    machine.cluster()
    for name in (NAME, "other.example.com"):
        async with machine.registrar(name, "/x", file="a-reg.sock"):
            await look(machine.registration)
            assert set(await look(machine.registration)) == {name}


async def test_a_frozen_registrar_is_waited_for_by_nobody_else(machine, look, stage, until):
    """Its second of silence costs the others nothing."""
    path = machine.kubelet / "plugins_registry" / "frozen.example.com-reg.sock"
    frozen, _ = await stage.csi_driver("frozen.example.com", "--registration-socket", str(path), folder="frozen")
    await until(path.exists, "the registrar serves")
    async with machine.driver(NAME) as driver, machine.registrar(NAME, driver.socket):
        await look(machine.csi)
        assert (await look(machine.registration))["frozen.example.com"].outcome is Outcome.GOOD
        frozen.send(signal.SIGSTOP)
        begin = time.monotonic()
        seen = await look(machine.registration)
        assert time.monotonic() - begin < 1.0
    assert seen[NAME].outcome is Outcome.GOOD
    assert seen["frozen.example.com"].outcome is not Outcome.GOOD


async def test_a_missing_registration_turns_unhealthy_after_its_grace_and_heals_at_once(machine, watch):
    """30 s with the shipped period; the entry that comes back needs no confirmation."""
    machine.cluster()
    async with machine.driver(NAME), watch(machine.csi).running() as plugin:
        await plugin.until(DRIVER, State.HEALTHY)
        async with watch(machine.registration).running() as seen:
            await seen.until(DRIVER, State.UNHEALTHY, Reason.DRIVER_NOT_REGISTERED)
            assert (DRIVER, (State.DEGRADED, Reason.DRIVER_NOT_REGISTERED)) in seen.history
            machine.cluster(NAME)
            await seen.more_rounds(2)
            assert seen.book.watched(Kind.REGISTRATION)[NAME].health.level.state is State.HEALTHY


async def test_an_entry_that_vanishes_for_a_moment_is_no_outage(machine, watch, until):
    """kubernetes/kubernetes#126921: a driver's update takes its entry away for seconds."""
    machine.cluster(NAME)
    async with watch(machine.registration).running() as seen:

        def level() -> State | None:
            source = seen.book.watched(Kind.REGISTRATION).get(NAME)
            return source.health.level.state if source and source.health.level else None

        await until(lambda: level() is State.HEALTHY, "it is registered")
        machine.cluster(drivers=(NAME,))
        await until(lambda: level() is State.DEGRADED, "it is missed")
        machine.cluster(NAME)
        await until(lambda: level() is State.HEALTHY, "it is back")
        assert State.UNHEALTHY not in {brief[0] for _, brief in seen.history}


def test_endpoints_outside_the_kubelets_directory_are_not_followed(tmp_path):
    """Other names of it on the host are; nothing that climbs out of it is."""
    registrars = Registrars(tmp_path / "real", [tmp_path / "link"])
    assert registrars._ours(f"{tmp_path}/link/plugins/a/csi.sock") == f"{tmp_path}/real/plugins/a/csi.sock"
    assert registrars._ours(f"{tmp_path}/real/plugins/a/csi.sock") == f"{tmp_path}/real/plugins/a/csi.sock"
    for crooked in ("/etc/passwd", f"{tmp_path}/real/../x.sock", f"{tmp_path}/realm/x.sock", "plugins/a/csi.sock", "/"):
        assert registrars._ours(crooked) == ""
