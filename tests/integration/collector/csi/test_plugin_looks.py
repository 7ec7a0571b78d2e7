"""How a driver is asked: what is learnt once per process, and what a slow or odd one does to its state."""

import grpc.aio
import pytest

from leadsman.csi.v1 import csi_pb2
from leadsman.domain.reasons import Reason
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.csi_plugin import CsiPluginProbe

pytestmark = pytest.mark.integration

NAME = "nfs.csi.k8s.io"
Rpc = csi_pb2.NodeServiceCapability.RPC


async def test_a_process_is_asked_for_its_name_and_abilities_once(machine, look):
    """And every time whether it is alive."""
    async with machine.driver(NAME, can=["GET_STORAGE_HEALTH", "GET_VOLUME_STATS"]) as driver:
        for _ in range(3):
            await look(machine.csi)
        assert driver.identity.calls == {"GetPluginInfo": 1, "Probe": 3}
        assert driver.asked("NodeGetCapabilities") == 1
    plugin = machine.csi.plugins()[NAME]
    assert plugin.capabilities == {Rpc.GET_STORAGE_HEALTH, Rpc.GET_VOLUME_STATS}
    assert (plugin.version, plugin.answers) == ("test", True)


async def test_the_next_process_on_the_same_path_is_asked_anew(machine, look):
    """Another driver may have taken the place, and an upgrade may have learnt something."""
    async with machine.driver(NAME):
        await look(machine.csi)
    async with machine.driver("other.example.com", can=["GET_VOLUME_HEALTH"]) as driver:
        await look(machine.csi)
    assert machine.csi.drivers == {str(driver.socket): "other.example.com"}
    assert machine.csi.plugins()["other.example.com"].can(Rpc.GET_VOLUME_HEALTH)


async def test_a_driver_that_is_slow_to_tell_its_name_is_not_taken_for_a_silent_one(machine, look):
    """Its probe answers, which is what counts; the name is the registered one meanwhile."""
    async with (
        machine.driver(NAME, name_delay_s=5.0) as driver,
        machine.registrar(NAME, driver.socket),
    ):
        await look(machine.registration)
        assert (await look(machine.csi))[str(driver.socket)].outcome is Outcome.GOOD


async def test_a_driver_that_is_slow_to_answer_its_probe_still_gets_its_name(machine, look):
    """So that its silence can be reported under it."""
    async with machine.driver(NAME, delay_s=5.0) as driver:
        seen = (await look(machine.csi))[str(driver.socket)]
    assert (seen.outcome, seen.reason) == (Outcome.TIMEOUT, Reason.DRIVER_NOT_RESPONDING)


async def test_abilities_that_could_not_be_told_are_asked_for_again_after_a_minute(machine, look, clock):
    """Not at every look: a call that hangs in the driver takes one of its threads."""
    csi = CsiPluginProbe(machine.kubelet, clock, 0.5, {})
    async with machine.driver(NAME, can=["GET_STORAGE_HEALTH"]) as driver:
        driver.says(errors={"NodeGetCapabilities": "INTERNAL"})
        for _ in range(3):
            assert (await look(csi))[str(driver.socket)].outcome is Outcome.GOOD
        assert driver.asked("NodeGetCapabilities") == 1
        assert csi.plugins()[NAME].capabilities is None
        driver.says()
        clock.advance(61)
        await look(csi)
    assert csi.plugins()[NAME].can(Rpc.GET_STORAGE_HEALTH)


async def test_a_driver_without_a_node_service_can_do_nothing_and_is_well(stage, machine, look):
    """Some serve their controller on a socket of the same kind."""
    async with stage.identity(NAME, "a"):
        seen = await look(machine.csi)
    assert {one.outcome for one in seen.values()} == {Outcome.GOOD}
    assert machine.csi.plugins()[NAME].capabilities == frozenset()


async def test_garbage_is_neither_health_nor_a_crash(machine, look):
    """Something answers gRPC on the socket in words that no driver uses."""

    async def answer(request: bytes, context: object) -> bytes:
        del request, context
        return b"\xff" * 70_000

    handlers: dict[str, grpc.RpcMethodHandler] = {
        name: grpc.unary_unary_rpc_method_handler(answer) for name in ("GetPluginInfo", "Probe")
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("csi.v1.Identity", handlers)])
    path = machine.kubelet / "plugins" / "a" / "csi.sock"
    path.parent.mkdir()
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        machine.csi.discover()
        assert (await machine.csi.look(str(path))).outcome is Outcome.ERROR
        assert machine.csi.unidentified == [str(path)]
    finally:
        await server.stop(grace=0)


async def test_a_driver_whose_answers_cannot_be_read_does_not_respond(machine, look):
    """It is no driver, or a broken one; what else it was asked with the probe does not matter."""
    methods = ["Probe", "GetPluginInfo", "NodeGetCapabilities"]
    async with machine.driver("x.example.com", garbled=methods) as driver, machine.registrar(NAME, driver.socket):
        await machine.registrars.meet()
        seen = (await look(machine.csi))[str(driver.socket)]
    assert (seen.outcome, seen.reason) == (Outcome.ERROR, Reason.DRIVER_NOT_RESPONDING)
    assert seen.message == "its answer cannot be read"


async def test_what_else_a_driver_says_that_cannot_be_read_is_as_if_it_had_not_said_it(machine, look):
    """It is ready, has the name it is registered under, and can do nothing that we know of."""
    methods = ["GetPluginInfo", "NodeGetCapabilities"]
    async with machine.driver("x.example.com", garbled=methods) as driver, machine.registrar(NAME, driver.socket):
        await machine.registrars.meet()
        assert (await look(machine.csi))[str(driver.socket)].outcome is Outcome.GOOD
    assert machine.csi.plugins()[NAME].capabilities is None
