import asyncio
import time
from datetime import UTC, datetime

import pytest

from leadsman.bus import screening
from leadsman.bus.snapshot import StatusStream
from leadsman.bus.streams import StreamApi, ensure_streams
from leadsman.bus.subjects import status_subject
from leadsman.domain.report import NodeReport
from leadsman.domain.states import State
from leadsman.testing.nats import NatsServer
from leadsman.testing.reports import status
from leadsman.wire.report import decode_report

pytestmark = pytest.mark.integration


async def test_forged_and_broken_messages_are_dropped_and_counted(
    server, raw, stored, body, send, replicate, eventually
):
    """Each kind has its reason, live and from the snapshot, and honest nodes are not disturbed."""
    far = int((time.time() + 3_600) * 1000)
    bad = {
        "subject_mismatch": ("victim", body("attacker")),
        "future_epoch": ("eager", body("eager", epoch=far)),
        "foreign_driver": ("foreign", body("foreign", scope="nfs", storages=(status("smb", State.UNHEALTHY),))),
        "malformed": ("broken", b'{"v":1'),
    }
    live = replicate(server.url)
    await eventually(lambda: live.replica.synced)
    for node, content in bad.values():
        await raw.publish(status_subject(node, "nfs" if node == "foreign" else ""), content)
    await raw.publish(status_subject("huge"), b" " * 20_000)
    await raw.publish(status_subject("copied"), body("copied"), headers={"Nats-Stream": "LEADSMAN_STATUS"})
    await send("honest", 1)
    await eventually(lambda: set(live.replica.reports) == {"honest"})
    await stored(6)
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


HOSTILE_HEADERS = {
    "no-responders": b"NATS/1.0\r\nStatus: 503\r\n\r\n",
    "inline-503": b"NATS/1.0 503\r\n\r\n",
    "inline-204": b"NATS/1.0 204 EOB\r\n\r\n",
    "end-of-page": b"NATS/1.0\r\nStatus: 204\r\nNats-Last-Sequence: 999\r\nNats-Num-Pending: 0\r\n\r\n",
    "no-message": b"NATS/1.0\r\nStatus: 404\r\n\r\n",
    "refused": b"NATS/1.0\r\nStatus: 408\r\nDescription: no\r\n\r\n",
    "sequence": b"NATS/1.0\r\nNats-Sequence: no number\r\n\r\n",
    "time": b"NATS/1.0\r\nNats-Time-Stamp: yesterday\r\nNats-Subject: leadsman.v1.status.honest-1\r\n\r\n",
    "open-end": b"NATS/1.0\r\nA: b",
    "early-end": b"NATS/1.0\r\n\r\nNats-Sequence: 1\r\n\r\n",
    "no-version": b"Nats-Sequence: x\r\n\r\n",
    "no-text": b"NATS/1.0\r\n\xff: \xfe\r\n\r\n",
}

HOSTILE_BODIES = {
    "endless-epoch": b'{"v":1,"node":"endless-epoch","epoch":%s,"seq":1}' % (b"9" * 400),
    "endless-seq": b'{"v":1,"node":"endless-seq","epoch":1,"seq":%s}' % (b"9" * 400),
    "negative": b'{"v":1,"node":"negative","epoch":-%s,"seq":1}' % (b"9" * 18),
}


@pytest.mark.parametrize("empty", [True, False], ids=["empty", "report"])
async def test_no_stored_row_keeps_a_starting_replica_from_being_ready(
    server, stored, body, send, replicate, eventually, empty
):
    """A node may store what it likes about itself; headers like the server's and endless numbers change nothing."""
    await send("honest-1", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    for node, header in HOSTILE_HEADERS.items():
        content = b"" if empty else body(node)
        sizes = b"%d %d" % (len(header), len(header) + len(content))
        writer.write(b"HPUB %s %s\r\n%s\r\n" % (status_subject(node).encode(), sizes, header + content))
    for node, content in HOSTILE_BODIES.items():
        writer.write(b"PUB %s %d\r\n%s\r\n" % (status_subject(node).encode(), len(content), content))
    writer.write(b"PING\r\n")
    await reader.readuntil(b"PONG")
    writer.close()
    await writer.wait_closed()
    await send("honest-2", 1)
    await stored(2 + len(HOSTILE_HEADERS) + len(HOSTILE_BODIES))
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)
    assert {"honest-1", "honest-2"} <= set(one.replica.reports) <= {"honest-1", "honest-2", *HOSTILE_HEADERS}
    assert one.replica.age("honest-1") < 60
    assert one.count("leadsman_replica_internal_errors_total") == 0
    assert one.count("leadsman_replica_snapshots_total", result="failed") == 0
    assert one.dropped("malformed") >= len(HOSTILE_BODIES)


async def test_a_row_that_makes_our_own_code_fail_is_dropped_alone(
    server, raw, stored, body, send, replicate, eventually, monkeypatch
):
    """Whatever we did not think of costs one row, and is counted."""
    honest = decode_report

    def fails_for_one(content: bytes) -> NodeReport:
        if b"odd" in content:
            raise OverflowError("not thought of")
        return honest(content)

    monkeypatch.setattr(screening, "decode_report", fails_for_one)
    for node in ("a", "odd", "z"):
        await send(node, 1)
    await stored(3)
    one = replicate(server.url)
    await eventually(lambda: one.replica.synced)
    await send("odd", 2)
    await eventually(lambda: one.dropped("unforeseen") == 2)
    assert set(one.replica.reports) == {"a", "z"}
    assert one.count("leadsman_replica_internal_errors_total") == 2


ACCOUNTS = """
accounts {
  STATUS {
    jetstream: enabled
    users: [
      { user: provisioner, password: p }
      { user: node-1, password: p, permissions: { publish: "leadsman.v1.status.node-1", subscribe: { deny: ">" } } }
      { user: sidecar, password: p, permissions: {
          publish: "leadsman.v1.status.node-1.nfs_csi_k8s_io", subscribe: { deny: ">" } } }
    ]
    exports: [
      { stream: "leadsman.v1.status.>", accounts: [READERS] }
      { service: "$JS.API.DIRECT.GET.LEADSMAN_STATUS", response_type: stream, accounts: [READERS] }
      { service: "$JS.API.STREAM.INFO.LEADSMAN_STATUS", accounts: [READERS] }
    ]
  }
  READERS {
    users: [ { user: filter, password: p, permissions: {
      publish: { allow: ["leadsmanapi.get", "leadsmanapi.info"] }
      subscribe: { allow: ["leadsman.v1.status.>", "_INBOX_filter.>"] } } } ]
    imports: [
      { stream: { account: STATUS, subject: "leadsman.v1.status.>" } }
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


async def test_a_sidecar_can_speak_only_for_its_driver_on_its_node(replicate, eventually, body):
    """The server refuses every other subject, so the agent's word and that of other sidecars cannot be forged."""
    driver = "nfs.csi.k8s.io"
    with NatsServer(config=ACCOUNTS) as server:
        address = server.url.removeprefix("nats://")
        await ensure_streams((f"nats://provisioner:p@{address}",))
        sidecar = replicate(f"nats://sidecar:p@{address}")
        reader = replicate(
            f"nats://filter:p@{address}", api=StreamApi(info="leadsmanapi.info", direct_get="leadsmanapi.get")
        )
        await eventually(lambda: reader.replica.synced and sidecar.bus.connected)
        before = sidecar.count("leadsman_bus_errors_total", kind="permission")
        for node, scope in (("node-1", ""), ("node-1", "smb.csi.k8s.io"), ("node-2", driver)):
            await sidecar.bus.publish(status_subject(node, scope), body(node, scope=scope))
        await eventually(lambda: sidecar.count("leadsman_bus_errors_total", kind="permission") >= before + 3)
        await sidecar.bus.publish(status_subject("node-1", driver), body("node-1", scope=driver))
        await eventually(lambda: reader.replica.reports)
        assert set(reader.replica.reports) == {f"node-1/{driver}"}


async def test_an_answer_that_is_no_stream_information_is_only_a_failed_snapshot(server, raw, replicate, eventually):
    """Whoever answers with nonsense cannot end the replica."""

    async def nonsense(msg) -> None:
        await msg.respond(b'{"created": 7}')

    await raw.subscribe("fake.info", cb=nonsense)
    one = replicate(server.url, api=StreamApi(info="fake.info"))
    await eventually(lambda: one.count("leadsman_replica_snapshots_total", result="failed") >= 2)
    assert not one.replica.synced
    assert isinstance(StatusStream(one.bus, StreamApi()), StatusStream)


async def test_a_row_with_unreadable_server_headers_is_dropped_alone(server, raw, body, replicate, eventually):
    """A server of another version may write them in another way; the other rows of the page still count."""

    async def page(msg) -> None:
        good = {"Nats-Sequence": "2", "Nats-Time-Stamp": datetime.now(UTC).isoformat()}
        for node, changed in (("a", {"Nats-Time-Stamp": "yesterday"}), ("b", {"Nats-Sequence": "two"}), ("c", {})):
            subject = status_subject(node)
            await raw.publish(msg.reply, body(node), headers={**good, "Nats-Subject": subject, **changed})
        await raw.publish(msg.reply, b"", headers={"Status": "204", "Nats-Last-Sequence": "2"})

    await raw.subscribe("fake.get", cb=page)
    await raw.publish(status_subject("c"), body("c"))
    one = replicate(server.url, api=StreamApi(direct_get="fake.get"))
    await eventually(lambda: one.replica.synced)
    assert set(one.replica.reports) == {"c"}
    assert one.dropped("malformed") >= 2
    assert one.count("leadsman_replica_snapshots_total", result="failed") == 0
