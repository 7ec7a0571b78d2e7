import asyncio

import nats
import pytest

from leadsman.bus.errors import StreamSetupError
from leadsman.bus.streams import ensure_streams
from leadsman.testing.nats import NatsServer

pytestmark = pytest.mark.integration


async def test_the_provisioner_creates_both_streams_and_may_run_again(server, raw):
    """Settings are what the security of the bus rests on, so they are checked one by one."""
    assert await ensure_streams((server.url,)) == {"LEADSMAN_STATUS": "unchanged", "LEADSMAN_DECISIONS": "unchanged"}
    status = (await raw.jsm().stream_info("LEADSMAN_STATUS")).config
    assert status.subjects == ["leadsman.v1.status.>"]
    assert (status.max_msgs_per_subject, status.max_age, status.max_msg_size) == (1, 900, 16 * 1024)
    assert (status.storage, status.discard, status.num_replicas) == ("file", "old", 1)
    decisions = (await raw.jsm().stream_info("LEADSMAN_DECISIONS")).config
    assert decisions.subjects == ["leadsman.v1.decision.>"]
    for config in (status, decisions):
        assert config.allow_direct
        assert config.deny_delete
        assert config.deny_purge
        assert config.no_ack
        assert not config.allow_rollup_hdrs
        assert config.max_bytes > 0
        assert config.max_age > 0
    assert decisions.max_msgs == 100_000


async def test_one_collector_cannot_wipe_the_others_with_a_roll_up(server, raw, stored, send, replicate, eventually):
    """The attack that empties a KV bucket is refused by the plain stream."""
    await send("node-1", 1)
    await send("node-2", 1)
    await raw.publish("leadsman.v1.status.node-1", b"x", headers={"Nats-Rollup": "all"})
    await send("node-3", 1)
    await stored(3)
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)
    assert set(one.replica.reports) == {"node-1", "node-2", "node-3"}


async def test_an_older_stream_is_brought_up_to_date(bare_server, raw_bare):
    """An upgrade of Leadsman changes an existing stream in place."""
    await raw_bare.jetstream().add_stream(name="LEADSMAN_STATUS", subjects=["leadsman.v1.status.*"], max_age=60)
    done = await ensure_streams((bare_server.url,))
    assert done == {"LEADSMAN_STATUS": "updated", "LEADSMAN_DECISIONS": "created"}
    config = (await raw_bare.jsm().stream_info("LEADSMAN_STATUS")).config
    assert (config.max_age, config.deny_purge, config.no_ack) == (900, True, True)


async def test_a_stream_from_before_sidecars_keeps_its_rows_and_takes_theirs(
    bare_server, raw_bare, body, stored_bare, replicate, eventually
):
    """The upgrade widens the subjects in place; until it is run, replicas hear sidecars but cannot read them back."""
    await raw_bare.jetstream().add_stream(
        name="LEADSMAN_STATUS", subjects=["leadsman.v1.status.*"], max_msgs_per_subject=1, allow_direct=True
    )
    early = replicate(bare_server.url)
    await raw_bare.publish("leadsman.v1.status.node-1", body("node-1"))
    await stored_bare(1)
    await eventually(lambda: early.replica.synced)
    await raw_bare.publish("leadsman.v1.status.node-1.nfs", body("node-1", scope="nfs"))
    await eventually(lambda: set(early.replica.reports) == {"node-1", "node-1/nfs"})

    assert (await ensure_streams((bare_server.url,)))["LEADSMAN_STATUS"] == "updated"
    await stored_bare(1)
    await raw_bare.publish("leadsman.v1.status.node-1.nfs", body("node-1", 2, scope="nfs"))
    await stored_bare(2)
    late = replicate(bare_server.url)
    await eventually(lambda: late.replica.synced)
    assert set(late.replica.reports) == {"node-1", "node-1/nfs"}
    assert late.count("leadsman_replica_reports_total", path="snapshot") == 2
    assert early.count("leadsman_replica_stream_resets_total", kind="recreated") == 0


async def test_a_stream_that_cannot_be_changed_is_an_error_with_advice(bare_server, raw_bare):
    """NATS cannot move a stream from memory to disk."""
    await raw_bare.jetstream().add_stream(name="LEADSMAN_STATUS", subjects=["leadsman.v1.status.*"], storage="memory")
    with pytest.raises(StreamSetupError, match=r"NATS refuses stream LEADSMAN_STATUS: .* delete the stream"):
        await ensure_streams((bare_server.url,))


async def test_an_unreachable_server_is_named(bare_server):
    """The error says where, without credentials, and what to check."""
    bare_server.kill()
    url = bare_server.url.replace("//", "//user:secret@")
    with pytest.raises(StreamSetupError, match=f"cannot reach NATS at {bare_server.url}: .*is it running") as caught:
        await ensure_streams((url,))
    assert "secret" not in str(caught.value)


async def test_more_replicas_than_servers_are_refused(bare_server):
    """A single server cannot keep three copies."""
    with pytest.raises(StreamSetupError, match="replicas"):
        await ensure_streams((bare_server.url,), replicas=3)


@pytest.fixture
def stored_bare(raw_bare):
    """Wait until the stream on the bare server holds so many reports."""

    async def wait(reports: int) -> None:
        async with asyncio.timeout(10):
            while True:
                if (await raw_bare.jsm().stream_info("LEADSMAN_STATUS")).state.messages == reports:
                    return
                await asyncio.sleep(0.005)

    return wait


@pytest.fixture
async def raw_bare(bare_server: NatsServer):
    async with await nats.connect(bare_server.url, allow_reconnect=False) as client:
        yield client
