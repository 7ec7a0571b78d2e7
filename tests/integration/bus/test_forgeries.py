import asyncio
import time

import pytest

from leadsman.bus.snapshot import StatusStream
from leadsman.bus.streams import StreamApi, ensure_streams
from leadsman.bus.subjects import status_subject
from leadsman.testing.nats import NatsServer

pytestmark = pytest.mark.integration


async def test_forged_and_broken_messages_are_dropped_and_counted(
    server, raw, stored, body, send, replicate, eventually
):
    """Each kind has its reason, live and from the snapshot, and honest nodes are not disturbed."""
    far = int((time.time() + 3_600) * 1000)
    bad = {
        "subject_mismatch": ("victim", body("attacker")),
        "future_epoch": ("eager", body("eager", epoch=far)),
        "malformed": ("broken", b'{"v":1'),
    }
    live = replicate(server.url)
    await eventually(lambda: live.replica.synced)
    for node, content in bad.values():
        await raw.publish(status_subject(node), content)
    await raw.publish(status_subject("huge"), b" " * 20_000)
    await raw.publish(status_subject("copied"), body("copied"), headers={"Nats-Stream": "LEADSMAN_STATUS"})
    await send("honest", 1)
    await eventually(lambda: set(live.replica.reports) == {"honest"})
    await stored(5)
    late = replicate(server.url)
    await eventually(lambda: late.replica.synced)
    # The stream refused the oversized one; a stored copy carries server headers anyway and is judged by its body.
    assert set(late.replica.reports) == {"honest", "copied"}
    for reason in bad:
        assert (live.dropped(reason), late.dropped(reason)) == (1, 1), reason
    assert (live.dropped("oversized"), live.dropped("reflected")) == (1, 1)


async def test_a_repeated_or_older_report_changes_nothing(server, send, replicate, eventually):
    """Duplicates and late messages are counted as old."""
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)
    for seq in (5, 5, 4):
        await send("node-1", seq)
    await eventually(lambda: one.dropped("old") == 2)
    assert one.replica.reports["node-1"].sequence.seq == 5


async def test_invented_nodes_cannot_fill_memory(server, send, replicate, eventually):
    """Beyond the bound new nodes are refused and known ones still served."""
    one = replicate(server.url, max_nodes=2)
    await eventually(lambda: one.replica.synced)
    for node in ("a", "b", "c"):
        await send(node, 1)
    await send("a", 2)
    await eventually(lambda: one.dropped("too_many_nodes") == 1)
    await eventually(lambda: one.replica.reports["a"].sequence.seq == 2)


async def test_subjects_and_headers_that_are_no_text_do_not_deafen_a_replica(
    server, stored, send, replicate, eventually
):
    """nats-py's reader would die of them, live and again at each snapshot; the connection must not even break."""
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    header = b"NATS/1.0 \xff\xfe\xff\r\n\r\n"
    writer.write(
        b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
        b"PUB leadsman.v1.status.\xff\xfe 2\r\nhi\r\n"
        b"HPUB leadsman.v1.status.h %d %d\r\n%shi\r\nPING\r\n" % (len(header), len(header) + 2, header)
    )
    await reader.readuntil(b"PONG")
    writer.close()
    await writer.wait_closed()
    await send("node-1", 1)
    await stored(3)
    late = replicate(server.url)
    for each in (one, late):
        await eventually(lambda each=each: "node-1" in each.replica.reports and each.replica.synced)
        assert each.count("leadsman_bus_errors_total", kind="unreadable") + each.dropped("malformed") == 2
        assert each.count("leadsman_bus_disconnects_total") == 0


ACCOUNTS = """
accounts {
  STATUS {
    jetstream: enabled
    users: [
      { user: provisioner, password: p }
      { user: node-1, password: p, permissions: { publish: "leadsman.v1.status.node-1", subscribe: { deny: ">" } } }
    ]
    exports: [
      { stream: "leadsman.v1.status.*", accounts: [READERS] }
      { service: "$JS.API.DIRECT.GET.LEADSMAN_STATUS", response_type: stream, accounts: [READERS] }
      { service: "$JS.API.STREAM.INFO.LEADSMAN_STATUS", accounts: [READERS] }
    ]
  }
  READERS {
    users: [ { user: filter, password: p, permissions: {
      publish: { allow: ["leadsmanapi.get", "leadsmanapi.info"] }
      subscribe: { allow: ["leadsman.v1.status.*", "_INBOX_filter.>"] } } } ]
    imports: [
      { stream: { account: STATUS, subject: "leadsman.v1.status.*" } }
      { service: { account: STATUS, subject: "$JS.API.DIRECT.GET.LEADSMAN_STATUS" }, to: "leadsmanapi.get" }
      { service: { account: STATUS, subject: "$JS.API.STREAM.INFO.LEADSMAN_STATUS" }, to: "leadsmanapi.info" }
    ]
  }
}
"""


async def test_a_reader_in_its_own_account_needs_three_imports(replicate, eventually, body):
    """The replica works with the permissions that keep a reader from writing anything, under renamed subjects."""
    with NatsServer(config=ACCOUNTS) as server:
        address = server.url.removeprefix("nats://")
        await ensure_streams((f"nats://provisioner:p@{address}",))
        collector = replicate(f"nats://node-1:p@{address}")
        reader = replicate(
            f"nats://filter:p@{address}", api=StreamApi(info="leadsmanapi.info", direct_get="leadsmanapi.get")
        )
        await eventually(lambda: reader.replica.synced and collector.bus.connected)
        await collector.bus.publish(status_subject("node-1"), body("node-1"))
        await eventually(lambda: "node-1" in reader.replica.reports)
        late = replicate(
            f"nats://filter:p@{address}", api=StreamApi(info="leadsmanapi.info", direct_get="leadsmanapi.get")
        )
        await eventually(lambda: late.count("leadsman_replica_reports_total", path="snapshot") == 1)
        # And a collector can neither speak for another node nor read: the server says so, and it is counted.
        await collector.bus.publish(status_subject("node-2"), body("node-2"))
        await eventually(lambda: collector.count("leadsman_bus_errors_total", kind="permission") >= 2)
        assert set(reader.replica.reports) == {"node-1"}


async def test_an_answer_that_is_no_stream_information_is_only_a_failed_snapshot(server, raw, replicate, eventually):
    """Whoever answers with nonsense cannot end the replica."""

    async def nonsense(msg) -> None:
        await msg.respond(b'{"created": 7}')

    await raw.subscribe("fake.info", cb=nonsense)
    one = replicate(server.url, api=StreamApi(info="fake.info"))
    await eventually(lambda: one.count("leadsman_replica_snapshots_total", result="failed") >= 2)
    assert not one.replica.synced
    assert isinstance(StatusStream(one.bus, StreamApi()), StatusStream)
