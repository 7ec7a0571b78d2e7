"""Drivers of which little is here: registered without a socket, mounted only, or with sockets that say nothing."""

import socket

import pytest

from leadsman.domain.reasons import Reason
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.registration import RegistrationProbe

from .conftest import leave_behind, rounds

pytestmark = pytest.mark.integration

NAME = "nfs.csi.k8s.io"


async def test_a_driver_whose_volumes_are_mounted_is_here_although_nothing_else_tells(machine, look):
    """The collector and the driver restart together; what is mounted is proof."""
    machine.cluster(drivers=(NAME,))
    machine.mounted.add(NAME)
    await rounds(machine, 5)
    assert (await look(machine.registration))[NAME].outcome is Outcome.ABSENT


async def test_a_single_pass_waits_for_nothing(machine, look):
    """`check` has one round: what is not here now is not here."""
    machine.cluster("here.example.com", drivers=("here.example.com", NAME))
    (machine.kubelet / "plugins_registry").mkdir()
    await look(machine.csi)
    probe = RegistrationProbe(
        lambda: machine.view,
        machine.csi.plugins,
        machine.registrars,
        api=True,
        sockets_known=lambda: machine.csi.complete,
        patient=False,
    )
    seen = await look(probe)
    assert {name: one.outcome for name, one in seen.items()} == {
        NAME: Outcome.REMOVED,
        "here.example.com": Outcome.ABSENT,
    }


async def test_a_registered_driver_without_any_socket_is_missed_after_two_minutes(machine, look):
    """The entry has survived a reboot, which the driver has not; pods that need it would wait for ever."""
    machine.cluster(NAME, drivers=(NAME,))
    (machine.kubelet / "plugins_registry").mkdir()
    for _ in range(12):
        await look(machine.csi)
        assert (await look(machine.registration))[NAME].outcome is Outcome.NOT_RUN
    seen = (await look(machine.registration))[NAME]
    assert (seen.outcome, seen.reason) == (Outcome.ABSENT, Reason.DRIVER_SOCKET_MISSING)
    assert seen.message == "registered, but no socket of it is here"
    async with machine.driver(NAME):
        await look(machine.csi)
        assert (await look(machine.registration))[NAME].outcome is Outcome.GOOD


async def test_where_sockets_may_be_overlooked_none_is_missed(machine, look):
    """A directory that is not there for us, a socket without a name, a driver that is not to be looked for."""
    machine.cluster(NAME, drivers=(NAME,))
    registry = machine.kubelet / "plugins_registry"
    await rounds(machine, 13)
    assert (await look(machine.registration))[NAME].outcome is Outcome.GOOD, "the registry cannot be read"
    registry.mkdir()
    assert (await look(machine.registration))[NAME].outcome is Outcome.ABSENT
    leave_behind(machine, NAME)
    assert (await look(machine.registration))[NAME].outcome is Outcome.GOOD, "its registration socket is there"
    (registry / f"{NAME}-reg.sock").unlink()
    machine.registration._plugin_probe = lambda driver: driver != NAME
    assert (await look(machine.registration))[NAME].outcome is Outcome.GOOD, "nobody looks for it"
    machine.registration._plugin_probe = lambda _: True
    nameless = machine.kubelet / "plugins" / "x" / "csi.sock"
    nameless.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(nameless))
    await look(machine.csi)
    assert (await look(machine.registration))[NAME].outcome is Outcome.GOOD, "that socket may be its own"


async def test_a_registrar_that_cannot_be_understood_has_not_answered(machine, look):
    """And ends nothing: the collector asks all of them when it starts."""
    async with machine.driver(NAME) as driver, machine.garbled_registrar(NAME):
        await machine.registrars.meet()
        await look(machine.csi)
        seen = (await look(machine.registration))[NAME]
        assert driver.socket.exists()
    assert (seen.outcome, seen.message) == (
        Outcome.ABSENT,
        "its registration socket gives an answer that cannot be read",
    )


async def test_whatever_one_registration_socket_does_the_others_are_met(machine, monkeypatch):
    """A bug in asking one is none in the collector's start."""
    ask = machine.registrars.ask

    async def broken(driver: str, *, anew: bool):
        if driver == "bad.example.com":
            raise ValueError
        return await ask(driver, anew=anew)

    monkeypatch.setattr(machine.registrars, "ask", broken)
    async with machine.registrar("bad.example.com", "/x"), machine.registrar(NAME, "/x") as registration:
        await machine.registrars.meet()
        assert registration.calls == 1
