"""Real CSI drivers on real sockets: frozen, killed, refusing, slow, starting, gone."""

import shutil
import signal
import socket
import time

import grpc
import pytest

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman.domain.states import State
from leadsman_health_collector.observation import Kind
from leadsman_health_collector.probes.csi_plugin import CsiPluginProbe

pytestmark = pytest.mark.integration

NAME = "nfs.csi.k8s.io"
DRIVER = StorageKey(NAME)
DEADLINE_S = 0.2


def probe(stage, known=None) -> CsiPluginProbe:
    return CsiPluginProbe(stage.kubelet, SystemClock(), DEADLINE_S, known or {})


async def test_a_driver_is_found_under_its_own_name_whatever_its_directory_is_called(stage, watch):
    """The first good look counts at once."""
    async with stage.identity(NAME, "csi-plugin"), watch(probe(stage)).running() as seen:
        await seen.until(DRIVER, State.HEALTHY)
        assert seen.statuses()[DRIVER].latency_s < DEADLINE_S


async def test_a_frozen_driver_turns_unhealthy_and_heals_and_delays_nobody(stage, watch):
    """SIGSTOP: the kernel still accepts, only the answer is missing."""
    frozen, _ = await stage.csi_driver(NAME)
    other = StorageKey("other.csi.example.com")
    async with stage.identity("other.csi.example.com", "other"), watch(probe(stage)).running() as seen:
        await seen.until(DRIVER, State.HEALTHY)
        await seen.until(other, State.HEALTHY)
        frozen.send(signal.SIGSTOP)
        begin = time.monotonic()
        await seen.until(DRIVER, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
        assert time.monotonic() - begin > 2 * 0.3, "three strikes take at least two periods"
        assert "no answer within" in seen.statuses()[DRIVER].message
        assert seen.brief(other) == (State.HEALTHY, None)
        frozen.send(signal.SIGCONT)
        await seen.until(DRIVER, State.HEALTHY)
        assert {brief for key, brief in seen.history if key == other} == {(State.HEALTHY, None)}


async def test_a_killed_driver_is_given_its_grace_and_its_successor_heals(stage, watch, until):
    """The socket file stays behind and refuses. (The node's own state may be held for flapping after that.)"""
    driver, path = await stage.csi_driver(NAME)
    async with watch(probe(stage)).running() as seen:
        await seen.until(DRIVER, State.HEALTHY)
        driver.kill()
        await seen.until(DRIVER, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
        degraded = (DRIVER, (State.DEGRADED, Reason.DRIVER_NOT_RESPONDING))
        assert degraded in seen.history
        await stage.csi_driver(NAME)
        source = seen.book.watched(Kind.PLUGIN)[str(path)]
        await until(lambda: source.health.level.state is State.HEALTHY, "its successor answers")


async def test_a_vanished_socket_is_missing_and_a_vanished_directory_is_not_applicable(stage, watch):
    """Removed with its directory and with no volume in use: uninstalled, not broken."""
    path = stage.kubelet / "plugins" / "a" / "csi.sock"
    async with watch(probe(stage)).running() as seen:
        async with stage.identity(NAME, "a"):
            await seen.until(DRIVER, State.HEALTHY)
        path.unlink(missing_ok=True)
        await seen.until(DRIVER, State.UNHEALTHY, Reason.DRIVER_SOCKET_MISSING)
        shutil.rmtree(path.parent)
        await seen.until(DRIVER, State.NOT_APPLICABLE, Reason.DRIVER_SOCKET_MISSING)


async def test_a_driver_known_from_an_earlier_run_is_missed(stage, watch):
    """It must not be forgotten because the collector was restarted while it was down."""
    path = stage.kubelet / "plugins" / "csi-plugin" / "csi.sock"
    path.parent.mkdir()
    async with watch(probe(stage, {str(path): NAME})).running() as seen:
        await seen.until(DRIVER, State.UNHEALTHY, Reason.DRIVER_SOCKET_MISSING)


async def test_a_socket_that_never_answered_is_nobodys(stage, watch):
    """What an uninstalled driver left behind is shown to people and reported to no one."""
    path = stage.kubelet / "plugins" / "old" / "csi.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    csi = probe(stage)
    async with watch(csi).running() as seen:
        await seen.more_rounds(3)
        assert seen.book.statuses == ()
        assert csi.unidentified == [str(path)]


async def test_a_driver_frozen_from_the_start_is_reported_under_its_registered_name(stage, watch):
    """It never tells its name; and it stays reported when its registrar has gone too."""
    path = stage.kubelet / "plugins" / "csi-plugin" / "csi.sock"
    path.parent.mkdir()
    registration = stage.kubelet / "plugins_registry" / f"{NAME}-reg.sock"
    registration.parent.mkdir()
    registration.touch()
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(str(path))
        frozen.listen()
        async with watch(probe(stage)).running() as seen:
            await seen.until(DRIVER, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
            assert seen.history[0] == (DRIVER, (State.UNKNOWN, Reason.NOT_OBSERVED))
            registration.unlink()
            await seen.more_rounds(2)
            assert seen.brief(DRIVER) == (State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)


async def test_what_a_driver_says_outweighs_what_it_is_registered_as(stage, watch):
    """A registration may be left over from another driver."""
    (stage.kubelet / "plugins_registry").mkdir()
    (stage.kubelet / "plugins_registry" / "left.over.example.com-reg.sock").touch()
    async with stage.identity(NAME, "a"), watch(probe(stage)).running() as seen:
        await seen.until(DRIVER, State.HEALTHY)
        assert {key for key, _ in seen.history} == {DRIVER}


async def test_a_driver_that_says_not_ready_is_starting_and_at_last_unhealthy(stage, watch):
    """`ready: false` is an answer, for a limited time."""
    async with stage.identity(NAME, "a", ready=False), watch(probe(stage)).running() as seen:
        await seen.until(DRIVER, State.DEGRADED, Reason.DRIVER_STARTING)
        await seen.until(DRIVER, State.UNHEALTHY, Reason.DRIVER_STARTING)


async def test_every_answer_but_an_error_is_a_sign_of_life_and_silence_is_none(stage, watch):
    """UNIMPLEMENTED and an empty reply are answers; an error has two strikes, silence three."""
    async with (
        stage.identity("lacks.example.com", "a", error=grpc.StatusCode.UNIMPLEMENTED),
        stage.identity("empty.example.com", "b"),
        stage.identity("ready.example.com", "c", ready=True),
        stage.identity("fails.example.com", "d", error=grpc.StatusCode.FAILED_PRECONDITION),
        stage.identity("slow.example.com", "e", delay_s=1.0),
        watch(probe(stage)).running() as seen,
    ):
        for name in ("fails", "slow"):
            key = StorageKey(f"{name}.example.com")
            await seen.until(key, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
        for name in ("lacks", "empty", "ready"):
            assert seen.brief(StorageKey(f"{name}.example.com")) == (State.HEALTHY, None)
        messages = {key.driver: status.message for key, status in seen.statuses().items()}
        assert "FAILED_PRECONDITION" in messages["fails.example.com"]
        assert "no answer within" in messages["slow.example.com"]


async def test_a_second_look_comes_after_half_a_period(stage, watch):
    """A first definite failure is not left alone for a whole period."""
    async with stage.identity(NAME, "a", error=grpc.StatusCode.INTERNAL), watch(probe(stage)).running() as seen:
        await seen.until(DRIVER, State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
        assert seen.rounds() == 1


async def test_a_name_that_no_driver_may_have_is_not_believed(stage, watch):
    """It would become a metric label and a key of the report."""
    csi = probe(stage)
    async with stage.identity("../../etc", "a"), watch(csi).running() as seen:
        await seen.more_rounds(2)
        assert seen.book.statuses == ()
        assert len(csi.unidentified) == 1


async def test_an_unreadable_plugins_directory_is_no_news_about_drivers(stage, watch):
    """A probe that cannot run makes good unknown and leaves bad as it is."""
    async with stage.identity(NAME, "a"), watch(probe(stage)).running() as seen:
        await seen.until(DRIVER, State.HEALTHY)
        plugins = stage.kubelet / "plugins"
        plugins.rename(stage.kubelet / "elsewhere")
        await seen.until(DRIVER, State.UNKNOWN, Reason.NOT_OBSERVED)
        name = "leadsman_collector_discovery_errors_total"
        assert seen.registry.get_sample_value(name, {"probe": "csi_plugin"}) >= 3
        (stage.kubelet / "elsewhere").rename(plugins)
        await seen.until(DRIVER, State.HEALTHY)
