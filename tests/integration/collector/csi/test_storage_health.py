"""What drivers say of their storage by NodeGetStorageHealth: well, badly, not at all, and never coming back."""

import asyncio
import signal

import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman_health_collector.cluster_view import KubeletVerdict
from leadsman_health_collector.csi_client import CallFailedError, PatientCalls
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.plugins import Plugin
from leadsman_health_collector.probes.csi_storage_health import CsiStorageHealthProbe

pytestmark = pytest.mark.integration

NAME = "rbd.csi.ceph.com"
CAN = ["GET_STORAGE_HEALTH"]
METHOD = "NodeGetStorageHealth"


@pytest.fixture
def health(machine) -> CsiStorageHealthProbe:
    """With half a second for an answer."""
    return CsiStorageHealthProbe(machine.csi.plugins, lambda: machine.view, SystemClock(), 0.5)


async def test_a_driver_that_can_tell_is_believed_both_ways(machine, health, look):
    """Unreachable, degraded, and an explicit empty answer."""
    async with machine.driver(NAME, can=CAN) as driver:
        await look(machine.csi)
        driver.says(storage=[{"status": "STORAGE_UNREACHABLE", "reason": "NoMonitors", "message": "0 of 3 answer"}])
        seen = (await look(health))[NAME]
        assert (seen.outcome, seen.reason) == (Outcome.ERROR, Reason.STORAGE_UNREACHABLE)
        assert seen.message == "StorageUnreachable: NoMonitors: 0 of 3 answer"
        driver.says(storage=[{"status": "STORAGE_DEGRADED", "reason": "SlowOps"}])
        seen = (await look(health))[NAME]
        assert (seen.outcome, seen.reason) == (Outcome.IMPAIRED, Reason.STORAGE_DEGRADED)
        driver.says()
        assert (await look(health))[NAME].outcome is Outcome.GOOD


async def test_a_driver_that_cannot_tell_is_never_asked(machine, health, look):
    """Most of them."""
    async with machine.driver(NAME, can=["GET_VOLUME_STATS"]) as driver:
        await look(machine.csi)
        assert await look(health) == {}
        assert driver.asked(METHOD) == 0


async def test_an_error_is_no_word_on_the_storage(machine, health, look):
    """The state of before stands (KEP-1432)."""
    async with machine.driver(NAME, can=CAN) as driver:
        await look(machine.csi)
        driver.says(errors={METHOD: "INTERNAL"})
        seen = (await look(health))[NAME]
    assert (seen.outcome, seen.message) == (Outcome.NOT_RUN, "the call fails with INTERNAL: INTERNAL on request")
    assert (await look(health))[NAME].outcome is Outcome.NOT_RUN, "nor is a driver that has gone"


async def test_a_call_that_hangs_is_the_only_one_until_it_comes_back(machine, health, look, until):
    """A thread of the driver waits for storage; every further call would take another one."""
    async with machine.driver(NAME, can=CAN) as driver:
        await look(machine.csi)
        driver.says(hang=[METHOD])
        assert (await look(health))[NAME].message.startswith("no answer within 0.5 s")
        for _ in range(3):
            assert (await look(health))[NAME].message.startswith("an earlier call has not come back for")
        assert driver.asked(METHOD) == 1
        driver.says(storage=[{"status": "STORAGE_DEGRADED"}])
        await until(health._calls._out[NAME].task.done, "the call comes back")
        assert (await look(health))[NAME].outcome is Outcome.IMPAIRED
        assert driver.asked(METHOD) == 2


async def test_a_frozen_driver_is_asked_once_and_its_successor_at_once(machine, health, look, stage):
    """The call to the frozen process is given up when another one has taken its socket."""
    frozen, _ = await stage.csi_driver(NAME, "--capability", CAN[0], folder="a")
    await look(machine.csi)
    frozen.send(signal.SIGSTOP)
    assert (await look(health))[NAME].outcome is Outcome.NOT_RUN
    async with machine.driver(NAME, can=CAN) as driver:
        await look(machine.csi)
        assert (await look(health))[NAME].outcome is Outcome.GOOD
        assert driver.asked(METHOD) == 1


async def test_what_the_kubelet_heard_counts_as_well(machine, health, look):
    """Until it says nothing more; an API server that is silent takes nothing back."""
    machine.cluster(NAME, storage_health=(KubeletVerdict(NAME, "StorageUnreachable", "NoMonitors", "0 of 3"),))
    source = f"CSINode of {NAME}"
    seen = (await look(health))[source]
    assert (seen.outcome, seen.reason) == (Outcome.ERROR, Reason.STORAGE_UNREACHABLE)
    assert {one.key.driver for one in health.sources().values()} == {NAME}
    machine.view = type(machine.view)()
    assert (await look(health))[source].outcome is Outcome.NOT_RUN
    machine.cluster(NAME)
    assert await look(health) == {}


async def test_the_kubelets_word_on_a_driver_that_is_no_longer_here_is_left_over(machine, health, look):
    """It asks registered drivers only; of one whose plugin is still here it may hear again."""
    verdicts = (KubeletVerdict(NAME, "StorageUnreachable"),)
    machine.cluster(storage_health=verdicts)
    assert await look(health) == {}
    async with machine.driver(NAME):
        await look(machine.csi)
        assert (await look(health))[f"CSINode of {NAME}"].outcome is Outcome.NOT_RUN


async def test_an_answer_that_cannot_be_read_is_no_word_on_the_storage(machine, health, look):
    """It is as if the driver had failed; nothing good is read out of it."""
    async with machine.driver(NAME, can=CAN, garbled=[METHOD]):
        await look(machine.csi)
        seen = (await look(health))[NAME]
    assert (seen.outcome, seen.message) == (Outcome.NOT_RUN, "its answer cannot be read")


async def test_a_call_that_is_given_up_takes_no_other_along(until):
    """Its driver goes and comes back meanwhile: the newer call stays the only one that is out."""
    calls = PatientCalls(SystemClock())
    plugin = Plugin(NAME, "/nowhere/csi.sock")
    never = asyncio.Event()

    async def hang(node) -> object:
        return await never.wait()

    old = asyncio.create_task(calls.call(plugin, hang, 5.0))
    await until(lambda: calls._out, "the first call is out")
    calls.keep(frozenset())
    new = asyncio.create_task(calls.call(plugin, hang, 5.0))
    with pytest.raises(CallFailedError, match="was given up"):
        await old
    with pytest.raises(CallFailedError, match="an earlier call"):
        calls.check(plugin)
    calls.keep(frozenset())
    with pytest.raises(CallFailedError, match="was given up"):
        await new
