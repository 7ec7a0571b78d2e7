import asyncio
import itertools
import shutil
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from leadsman.bus.client import ClientHooks, OneConnectionClient, close_client, open_client
from leadsman.bus.connect import Bus, BusSettings
from leadsman.bus.errors import NoAnswerError, NotConnectedError
from leadsman.bus.streams import ensure_streams
from leadsman.bus.subjects import status_subject
from leadsman.testing.nats import NatsServer

pytestmark = pytest.mark.integration

NODES = [f"node-{number}.example" for number in range(200)]
QUICK: dict[str, Any] = {
    "ping_interval_s": 0.05,
    "pong_timeout_s": 0.4,
    "silence_grace_s": 0.2,
    "connect_timeout_s": 0.3,
}


@pytest.mark.parametrize("empty", [False, True], ids=["store kept", "store wiped"])
async def test_a_restart_loses_no_node_and_turns_none_back(server, body, run, replicate, eventually, empty):
    """SIGKILL under 500 reports a second, one second down: the cache keeps everything and moves only forward."""
    writer = Bus(BusSettings((server.url,), "collector/all", reconnect_jitter_s=0.05), CollectorRegistry())
    sent: dict[str, int] = {}

    async def write() -> None:
        for seq in itertools.count(1):
            for node in NODES:
                if await writer.publish(status_subject(node), body(node, seq)):
                    sent[node] = seq
                await asyncio.sleep(0.002)

    run(writer.run())
    await eventually(lambda: writer.connected)
    run(write())
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced and len(one.replica.reports) == len(NODES))
    server.kill()
    await eventually(lambda: one.replica.frozen, within=1.0, what="freezing at once, without the grace")
    before = {node: report.sequence for node, report in one.replica.reports.items()}
    await asyncio.sleep(1.0)
    if empty:
        server.wipe()
    server.start()
    await eventually(lambda: one.bus.connected and not one.replica.frozen)
    assert len(one.replica.reports) == len(NODES)
    if empty:
        await ensure_streams((server.url,))
        kind = {"kind": "recreated"}
        await eventually(lambda: one.count("leadsman_replica_stream_resets_total", **kind) == 1, within=8)
    after = dict(sent)
    await eventually(
        lambda: all(one.replica.reports[node].sequence.seq >= seq for node, seq in after.items()), what="catching up"
    )
    assert all(one.replica.reports[node].sequence >= sequence for node, sequence in before.items())
    assert not one.listener.went_back
    assert one.replica.synced


async def test_a_rolled_back_stream_turns_nothing_back(replicate, eventually, tmp_path):
    """A power loss can undo stored writes; the replica keeps what it knew, says so, and loads again."""
    with NatsServer(directory=tmp_path / "nats") as lossy:
        await ensure_streams((lossy.url,))
        one = replicate(lossy.url)
        await eventually(lambda: one.replica.synced)
        await one.bus.publish(status_subject("node-1"), b'{"v":1,"node":"node-1","epoch":1,"seq":1}')
        await eventually(lambda: "node-1" in one.replica.reports)
        lossy.terminate()
        await eventually(lambda: not one.bus.connected)
        shutil.copytree(tmp_path / "nats" / "store", tmp_path / "old")
        lossy.start()
        await eventually(lambda: one.bus.connected)
        for seq in range(2, 6):
            await one.bus.publish(status_subject("node-1"), b'{"v":1,"node":"node-1","epoch":1,"seq":%d}' % seq)
        await eventually(lambda: one.replica.reports["node-1"].sequence.seq == 5)
        other = replicate(lossy.url)
        await eventually(lambda: other.replica.synced)
        lossy.terminate()
        lossy.wipe()
        shutil.copytree(tmp_path / "old", tmp_path / "nats" / "store")
        lossy.start()
        kind = {"kind": "rolled_back"}
        await eventually(lambda: other.count("leadsman_replica_stream_resets_total", **kind) == 1)
        assert other.replica.reports["node-1"].sequence.seq == 5
        assert not other.listener.went_back


async def test_a_stream_replaced_under_a_live_connection_is_noticed(server, raw, send, replicate, eventually):
    """Nobody disconnects when an operator deletes and creates the stream; the regular look finds it."""
    one = replicate(server.url, watch_every_s=0.1)
    await eventually(lambda: one.replica.synced)
    await raw.jsm().delete_stream("LEADSMAN_STATUS")
    await eventually(lambda: one.count("leadsman_replica_snapshots_total", result="no_stream") >= 1)
    assert one.replica.synced
    assert one.replica.describe()[0]
    fine, words = one.replica.describe_stream()
    assert not fine
    assert words.endswith(f"run: leadsman provision --nats-url {server.url}")
    await ensure_streams((server.url,))
    await send("node-1", 1)
    await eventually(lambda: one.count("leadsman_replica_stream_resets_total", kind="recreated") >= 1)
    await eventually(lambda: one.replica.describe() == (True, "1 nodes"))


async def test_a_frozen_server_is_noticed_and_ages_stand_still(server, send, replicate, eventually):
    """The server hangs with its connections open: ages stop, the connection is given up, and all is well afterwards."""
    one = replicate(server.url, QUICK)
    await eventually(lambda: one.replica.synced)
    await send("node-1", 1)
    await eventually(lambda: (one.replica.age("node-1") or 0) > 0.1)
    server.pause()
    await eventually(lambda: one.replica.frozen, within=1.0)
    stopped = one.replica.age("node-1")
    await eventually(lambda: not one.bus.connected, within=2.0)
    await eventually(lambda: one.replica.frozen_for_s > 0.8)
    assert one.replica.age("node-1") == stopped
    assert one.replica.describe()[0]
    assert "last known states stand" in one.replica.describe()[1]
    server.resume()
    await eventually(lambda: not one.replica.frozen)
    await send("node-1", 2)
    await eventually(lambda: one.replica.reports["node-1"].sequence.seq == 2)
    assert one.replica.frozen_for_s == 0.0


async def test_the_service_preset_notices_a_frozen_server_in_about_two_seconds(server, run, replicate, eventually):
    """The defaults that services use, with the real clock."""
    settings = BusSettings.for_service((server.url,), "filter/test")
    bus = Bus(settings, CollectorRegistry())
    run(bus.run())
    await eventually(lambda: bus.connected and not bus.link.frozen(bus.clock.monotonic()))
    server.pause()
    await eventually(lambda: bus.link.frozen(bus.clock.monotonic()), within=3.0)
    server.resume()
    await eventually(lambda: not bus.link.frozen(bus.clock.monotonic()))


async def test_a_late_pong_does_not_deafen_the_client(server):
    """nats-py's reader dies of the answer to a PING that is no longer waited for; ours goes on."""

    async def ignore(_error: Exception) -> None:
        return None

    client = OneConnectionClient()
    await open_client(client, BusSettings((server.url,), "filter/x"), ClientHooks(ignore, lambda: None))
    server.pause()
    with pytest.raises(TimeoutError):
        await client.rtt(timeout=0.05)  # type: ignore[arg-type]  # annotated int, used as seconds
    server.resume()
    assert await client.rtt(timeout=2) < 2
    await close_client(client, drain_s=1.0)
    assert client.is_closed


USERS = 'authorization { users: [ { user: filter, password: "%s" } ] }'


async def test_a_connection_that_the_server_ends_for_good_is_rebuilt(replicate, eventually, body):
    """Withdrawn credentials close nats-py's client for ever; a new one is built until they are good again."""
    with NatsServer(config=USERS % "old") as server:
        url = server.url.replace("nats://", "nats://filter:old@")
        await ensure_streams((url,))
        one = replicate(url)
        await eventually(lambda: one.replica.synced)
        server.reload(USERS % "new")
        await eventually(lambda: not one.bus.connected)
        await eventually(lambda: one.count("leadsman_bus_errors_total", kind="authorization") >= 2)
        server.reload(USERS % "old")
        await eventually(lambda: one.bus.connected and not one.replica.frozen)
        await one.bus.publish(status_subject("node-1"), body("node-1"))
        await eventually(lambda: "node-1" in one.replica.reports)
        assert one.count("leadsman_bus_connects_total") == 2


async def test_publishing_never_waits_and_never_raises(server, run, eventually):
    """Without a connection, with a full buffer, or with a message NATS refuses, the caller gets False at once."""
    registry = CollectorRegistry()
    bus = Bus(BusSettings((server.url,), "collector/x", pending_bytes=32 * 1024, **QUICK), registry)
    assert not await bus.publish("leadsman.v1.wake", b"x")
    run(bus.run())
    await eventually(lambda: bus.connected)
    assert await bus.publish("leadsman.v1.wake", b"x")
    assert not await bus.publish("not a subject", b"x")
    server.pause()
    results = [await asyncio.wait_for(bus.publish("leadsman.v1.wake", b"x" * 10_000), 0.2) for _ in range(2_000)]
    assert not results[-1]

    def count(result: str) -> float:
        return registry.get_sample_value("leadsman_bus_published_total", {"result": result}) or 0.0

    assert count("not_connected") >= 1
    assert count("refused") == 1
    assert count("buffer_full") > 0
    server.resume()
    await eventually(lambda: bus.connected)


async def test_requests_fail_in_words_and_in_time(server, run, eventually):
    """No connection, nobody there, and a connection lost meanwhile are different errors, none of them late."""
    bus = Bus(BusSettings((server.url,), "filter/x", **QUICK), CollectorRegistry())
    with pytest.raises(NotConnectedError):
        await bus.request("leadsman.nobody")
    run(bus.run())
    await eventually(lambda: bus.connected)
    with pytest.raises(NoAnswerError, match=r"nobody answers on leadsman\.nobody"):
        await bus.request("leadsman.nobody")
    await bus.subscribe("leadsman.silent", _say_nothing)
    with pytest.raises(NoAnswerError, match=r"no answer on leadsman\.silent within 0\.1 s"):
        await bus.request("leadsman.silent", timeout_s=0.1)
    asking = asyncio.ensure_future(bus.request("leadsman.silent", timeout_s=30))
    await asyncio.sleep(0)
    server.kill()
    with pytest.raises(NotConnectedError):
        await asyncio.wait_for(asking, 2)


async def test_close_sends_what_waits_and_makes_no_new_connection(server, run, raw, eventually):
    """At SIGTERM the last messages still leave, and nothing reconnects behind our back."""
    received: list[bytes] = []

    async def keep(msg) -> None:
        received.append(msg.data)

    await raw.subscribe("leadsman.v1.wake", cb=keep)
    bus = Bus(BusSettings((server.url,), "gateway/x", **QUICK), CollectorRegistry())
    run(bus.run())
    await eventually(lambda: bus.connected)
    for number in range(100):
        await bus.publish("leadsman.v1.wake", b"%d" % number)
    await bus.close()
    assert not bus.connected
    await eventually(lambda: len(received) == 100)


async def _say_nothing(_msg) -> None:
    return None
