import asyncio
import time

import pytest

from leadsman.bus.streams import ensure_streams
from leadsman.bus.subjects import status_subject
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman.wire.report import encode_report

from .conftest import EPOCH

pytestmark = pytest.mark.integration


async def test_reports_arrive_live_and_from_the_snapshot_with_dotted_names(server, stored, send, replicate, eventually):
    """A name with dots is stored, read back and received like any other."""
    await send("a.b.example", 1)
    await stored(1)
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)
    assert set(one.replica.reports) == {"a.b.example"}
    await send("c.d", 1)
    await eventually(lambda: set(one.replica.reports) == {"a.b.example", "c.d"})
    assert one.count("leadsman_replica_reports_total", path="snapshot") == 1
    assert one.count("leadsman_replica_reports_total", path="live") == 1


async def test_snapshots_are_complete_while_everybody_writes(server, raw, body, run, replicate, eventually):
    """In twenty loads of 500 nodes under constant writes, no synced replica lacks a node."""
    nodes = [f"node-{number}" for number in range(500)]

    async def write() -> None:
        seq = 0
        while True:
            seq += 1
            for position, node in enumerate(nodes):
                await raw.publish(status_subject(node), body(node, seq))
                if position % 10 == 9:
                    await asyncio.sleep(0.002)

    run(write())
    watcher = replicate(server.url)
    await eventually(lambda: len(watcher.replica.reports) == 500)
    for _ in range(20):
        one = replicate(server.url)
        await eventually(lambda one=one: one.replica.synced)
        assert len(one.replica.reports) == 500
        assert one.count("leadsman_replica_reports_total", path="snapshot") > 300
        assert not one.listener.went_back
        await one.stop()


async def test_a_snapshot_of_many_pages_is_whole(server, raw, stored, body, replicate, eventually, monkeypatch):
    """Pages end by rows or by bytes; the next one goes on where the last one ended."""
    for number in range(100):
        await raw.publish(status_subject(f"node-{number}"), body(f"node-{number}"))
    await stored(100)
    for limit, value in (("PAGE_ROWS", 7), ("PAGE_BYTES", 500)):
        monkeypatch.setattr(f"leadsman.bus.snapshot.{limit}", value)
        one = replicate(server.url)
        await eventually(lambda one=one: one.replica.synced)
        assert one.count("leadsman_replica_snapshot_rows") == len(one.replica.reports) == 100


async def test_five_thousand_nodes_load_in_two_seconds(server, raw, stored, body, replicate, eventually, capsys):
    """A new replica of a large cluster is ready within the budget, connecting included."""
    storages = tuple(
        StorageStatus(StorageKey("nfs.csi.k8s.io", f"nfs-{number}.example"), State.HEALTHY) for number in range(8)
    )
    for number in range(5_000):
        await raw.publish(status_subject(f"node-{number}"), body(f"node-{number}", storages=storages))
    await stored(5_000)
    size = len(body("node-0", storages=storages))
    started, worked = time.perf_counter(), time.process_time()
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced, within=10)
    took, work = time.perf_counter() - started, time.process_time() - worked
    with capsys.disabled():
        print(f"\n5,000 nodes ({size} bytes each): synced after {took:.2f} s, of them {work:.2f} s CPU")
    assert len(one.replica.reports) == 5_000
    assert one.count("leadsman_replica_snapshot_rows") == 5_000
    # The budget is two seconds; a machine that others keep busy must not decide whether we are within it.
    assert min(took, 2 * work) < 2.0


async def test_ages_of_a_snapshot_come_from_the_server(server, stored, send, replicate, eventually):
    """A report that lay in the stream for half a second is as old, whatever the node's clock says."""
    await send("early", 1, sent=time.time() + 9_999)
    await stored(1)
    await asyncio.sleep(0.5)
    await send("late", 1, sent=0.0)
    await stored(2)
    one = replicate(server.url)
    await eventually(lambda: len(one.replica.reports) == 2)
    assert 0.5 <= one.replica.age("early") < 2.0
    assert one.replica.age("late") < 0.45
    assert one.replica.age("nobody") is None
    assert {node: age for node, _, age in one.listener.news}["early"] >= 0.5
    assert set(one.replica.ages()) == {"early", "late"}


async def test_a_missing_stream_is_waited_for(bare_server, replicate, eventually):
    """A service may start before the provisioner: it says what is missing and goes on when it appears."""
    one = replicate(bare_server.url)
    await eventually(lambda: one.count("leadsman_replica_snapshots_total", result="no_stream") >= 1)
    assert not one.replica.synced
    missing = "no snapshot yet: NATS has no stream behind $JS.API.STREAM.INFO.LEADSMAN_STATUS; "
    assert one.replica.describe() == (False, f"{missing}run: leadsman provision --nats-url {bare_server.url}")
    await ensure_streams((bare_server.url,))
    await eventually(lambda: one.replica.synced, within=8)
    assert one.replica.describe() == (True, "0 nodes")
    assert one.replica.describe_stream() == (True, "read")


async def test_a_new_stream_is_complete_only_when_every_node_has_had_time_to_report(
    server, send, stored, replicate, eventually
):
    """After a wipe the first rows are not the cluster: a starting replica says so and waits, and learns meanwhile."""
    await send("node-1", 1)
    await stored(1)
    one = replicate(server.url, stream_settle_s=1.5)
    await eventually(lambda: one.count("leadsman_replica_snapshots_total", result="young") == 1)
    assert "node-1" in one.replica.reports
    fine, words = one.replica.describe()
    assert not fine
    assert words.startswith("no snapshot yet: the stream is new (created 20")
    await send("node-2", 1)
    await eventually(lambda: one.replica.synced)
    assert set(one.replica.reports) == {"node-1", "node-2"}
    started = time.monotonic()
    late = replicate(server.url, stream_settle_s=1.5)
    await eventually(lambda: late.replica.synced)
    assert time.monotonic() - started < 1.0
    assert late.count("leadsman_replica_snapshots_total", result="young") == 0


async def test_a_node_whose_clock_went_back_is_followed(server, raw, replicate, eventually):
    """Rebooted with the clock of last year it is heard at once, counted apart from repeated reports, and goes on."""
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)

    async def say(epoch: int, seq: int, boot_id: str) -> None:
        content = encode_report(NodeReport("node-1", Sequence(epoch, seq), 10.0, (), boot_id=boot_id))
        await raw.publish(status_subject("node-1"), content)

    await say(EPOCH, 7, "a")
    await say(EPOCH - 10**10, 1, "b")
    await say(EPOCH - 10**10, 2, "b")
    await eventually(lambda: one.listener.newest.get("node-1") == (EPOCH - 10**10, 2))
    assert one.count("leadsman_replica_clock_steps_back_total") == 1
    assert one.dropped("old") == 0
    await say(EPOCH - 10**10, 2, "b")
    await eventually(lambda: one.dropped("old") == 1)


async def test_a_service_that_starts_before_nats_becomes_synced(bare_server, replicate, eventually):
    """No order of start-up is needed."""
    bare_server.kill()
    one = replicate(bare_server.url)
    await eventually(lambda: one.count("leadsman_bus_failed_connects_total") >= 2)
    assert one.replica.frozen
    bare_server.start()
    await ensure_streams((bare_server.url,))
    await eventually(lambda: one.replica.synced and not one.replica.frozen, within=8)


async def test_silent_nodes_leave_and_their_old_rows_do_not_return(
    server, raw, send, replicate, eventually, monkeypatch
):
    """Expiry is the replica's own job, and a row older than the limit is not read back in."""
    monkeypatch.setattr("leadsman.bus.replica.EXPIRE_EVERY_S", 0.05)
    forgotten: list[str] = []
    one = replicate(server.url, expire_after_s=0.5, on_forget=forgotten.append)
    await eventually(lambda: one.replica.synced)
    await send("node-1", 1)
    await eventually(lambda: forgotten == ["node-1"])
    other = replicate(server.url, expire_after_s=0.5)
    await eventually(lambda: other.replica.synced)
    assert not other.replica.reports
    assert other.dropped("expired") == 1
    await send("node-1", 2)
    await eventually(lambda: set(one.replica.reports) == {"node-1"})


async def test_a_listener_that_fails_stops_nothing(server, send, replicate, eventually):
    """A bug in the index is counted and the next report is still delivered."""
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)
    healthy = one.listener.on_report
    one.listener.on_report = None
    await send("node-1", 1)
    await eventually(lambda: one.count("leadsman_replica_internal_errors_total") == 1)
    one.listener.on_report = healthy
    await send("node-1", 2)
    await eventually(lambda: "node-1" in one.listener.newest)


async def test_a_forgotten_node_is_told_once(server, send, replicate, eventually):
    """`forget` is for nodes that the cluster no longer has."""
    forgotten: list[str] = []
    one = replicate(server.url, on_forget=forgotten.append)
    await eventually(lambda: one.replica.synced)
    await send("node-1", 1)
    await eventually(lambda: "node-1" in one.replica.reports)
    one.replica.forget("node-1")
    one.replica.forget("node-1")
    assert forgotten == ["node-1"]
    assert not one.replica.reports
