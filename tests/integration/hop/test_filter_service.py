"""leadsman-filter as a process: real NATS on one side, a gateway's real stream on the other."""

import asyncio
import time
from typing import Any

import grpc
import pytest

from leadsman.bus.streams import ensure_streams
from leadsman.bus.subjects import WAKE
from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman.domain.verdicts import FilterAnswer, Rejection
from leadsman.testing.nats import NatsServer
from leadsman.testing.reports import report, status
from leadsman.v1 import filter_pb2
from leadsman.wire.hop import decode_filter_answer
from leadsman.wire.notices import WakeNotice, decode_wake

pytestmark = pytest.mark.integration

SERVING, NOT_SERVING = 1, 2
HUNG = Rejection(Reason.MOUNT_HUNG, "nfs")
BROKEN = report("node-1", status("nfs", State.HEALTHY), status("nfs/a", State.UNHEALTHY))
FINE = report("node-1", status("nfs", State.HEALTHY), status("nfs/a", State.HEALTHY), seq=2)


async def verdict_of(stream: Any, storage: str, node: str) -> Rejection | None:
    return decode_filter_answer(await stream.ask(storage)).verdict(node)


async def test_a_replica_without_a_snapshot_is_not_serving_and_says_no_hello(fleet: Any) -> None:
    """Until the first full snapshot it is unready everywhere: health service, /readyz, stream; then at once ready."""
    await fleet.publish(BROKEN)
    fleet.server.terminate()
    service = await fleet.start("filter")
    stream = service.filter()
    status_code, words = await service.get("/readyz?verbose")
    assert status_code == 503
    assert "[-]cache no snapshot yet" in words
    assert await service.health() == NOT_SERVING
    hello = asyncio.create_task(stream.read())

    fleet.server.start()
    first = await hello
    assert first.WhichOneof("answer") == "hello"
    assert first.hello.instance.startswith("filter-")
    assert first.hello.version
    assert await verdict_of(stream, "nfs/a", "node-1") == HUNG
    await service.ready()

    async def serving() -> bool:
        return bool(await service.health() == SERVING)

    await fleet.eventually(serving, "grpc.health.v1 says SERVING")


async def test_a_verdict_follows_the_reports_and_unchanged_answers_stay_home(fleet: Any) -> None:
    """Reject, then Unchanged while nothing changes, then a new generation without the node; unknown nodes pass."""
    await fleet.publish(BROKEN, report("node-2", status("nfs", State.UNKNOWN)))
    service = await fleet.start("filter")
    await service.ready()
    stream = service.filter()
    await stream.read()

    first = await stream.ask("nfs/a", "nfs/a")
    assert decode_filter_answer(first) == FilterAnswer({"node-1": HUNG})
    assert (first.id, first.frozen) == (1, False)

    await fleet.publish(report("node-2", status("nfs", State.DEGRADED), seq=2))

    async def degraded_came() -> bool:
        return bool((await service.metric("leadsman_cache_changes") or 0) > first.generation)

    await fleet.eventually(degraded_came, "the report is in force")
    again = await stream.ask("nfs/a", known=first.generation)
    assert (again.WhichOneof("answer"), again.id, again.generation) == ("unchanged", 2, first.generation)
    assert (await stream.ask("nfs/a", known=first.generation - 1)).WhichOneof("answer") == "rejected"

    await fleet.publish(FINE)

    async def healed() -> Any:
        reply = await stream.ask("nfs/a", known=first.generation)
        return reply if reply.WhichOneof("answer") == "rejected" else None

    last = await fleet.eventually(healed, "a new generation")
    assert last.generation > first.generation
    assert decode_filter_answer(last) == FilterAnswer({})


async def test_a_wake_notice_is_published_after_the_smaller_set_is_in_force(fleet: Any) -> None:
    """Whoever hears the notice and asks at once gets the verdict without the healed node; bad news wakes nobody."""
    notices: asyncio.Queue[WakeNotice] = asyncio.Queue()
    client = await fleet.client()

    async def heard(msg: Any) -> None:
        notices.put_nowait(decode_wake(msg.data))

    await client.subscribe(WAKE, cb=heard)
    await client.flush()
    await fleet.publish(FINE)
    service = await fleet.start("filter")
    stream = service.filter()
    hello = (await stream.read()).hello
    async with asyncio.timeout(10):
        start = await notices.get()
    assert (start.instance, start.storages) == (hello.instance, [])

    await fleet.publish(report("node-1", status("nfs/a", State.UNHEALTHY), status("nfs", State.UNHEALTHY), seq=3))

    async def broken() -> bool:
        return await verdict_of(stream, "nfs/a", "node-1") == HUNG

    await fleet.eventually(broken, "the node is rejected")
    await fleet.publish(report("node-1", status("nfs/a", State.HEALTHY), status("nfs", State.HEALTHY), seq=4))
    async with asyncio.timeout(10):
        notice = await notices.get()
    assert await verdict_of(stream, "nfs/a", "node-1") is None
    assert notice.storages == ["nfs", "nfs/a"]
    assert notice.generation > start.generation
    assert notices.empty()


async def test_without_nats_the_last_known_states_stand_and_answers_say_frozen(fleet: Any) -> None:
    """Ready stays ready, /readyz?verbose and metrics show the degradation, nothing ages, and it heals by itself."""
    service = await fleet.start("filter", "--policy", str(fleet.policy(staleAfter="4s", holdUnhealthy="0s")))
    await service.ready()
    stream = service.filter()
    await stream.read()
    await fleet.publish(BROKEN)
    silent_since = time.monotonic()

    async def rejected() -> bool:
        return await verdict_of(stream, "nfs/a", "node-1") == HUNG

    await fleet.eventually(rejected, "the node is rejected")
    fleet.server.pause()

    async def frozen() -> bool:
        return bool((await stream.ask("nfs/a")).frozen)

    await fleet.eventually(frozen, "frozen")
    while time.monotonic() < silent_since + 6:  # well beyond staleAfter
        assert await rejected()
        await asyncio.sleep(0.1)
    assert await frozen()
    code, words = await service.get("/readyz?verbose")
    assert code == 200
    assert "[-]bus NATS out of reach" in words
    assert "(degraded)" in words
    assert await service.metric("leadsman_replica_frozen") == 1
    assert await service.metric('leadsman_filter_nodes_rejected{reason="MountHung"}') == 1

    fleet.server.resume()

    async def thawed() -> bool:
        return not await frozen()

    await fleet.eventually(thawed, "not frozen")

    async def aged() -> bool:
        return not await rejected()

    await fleet.eventually(aged, "the silent node is unknown, so it passes")


async def test_silent_nodes_are_visible_everywhere(fleet: Any) -> None:
    """A metric, one log line and a degraded check that leaves the service ready; the wake is not called a recovery."""
    service = await fleet.start("filter", "--policy", str(fleet.policy(staleAfter="1s", holdUnhealthy="1s")))
    await service.ready()
    stream = service.filter()
    await stream.read()
    assert "[+]nodes all 0 report" in (await service.get("/readyz?verbose"))[1]
    await fleet.publish(BROKEN, report("node-2", status("nfs", State.HEALTHY)))

    async def both_silent() -> bool:
        return bool(await service.metric("leadsman_cache_stale_nodes") == 2)

    await fleet.eventually(both_silent, "both nodes are stale")
    code, words = await service.get("/readyz?verbose")
    assert code == 200
    assert "[-]nodes 2 of 2 nodes silent" in words
    assert '"silent": 2' in service.log.read_text() or '"silent":2' in service.log.read_text()

    async def hold_is_over() -> bool:
        return 'rejects_fewer_nodes":["nfs/a' in service.log.read_text().replace(" ", "")

    await fleet.eventually(hold_is_over, "the wake at the end of the hold is logged")
    assert "recover" not in service.log.read_text()


async def test_a_missing_stream_is_a_degradation_that_names_the_command(fleet: Any) -> None:
    """A service that was ready stays ready, and says what to run."""
    service = await fleet.start("filter")
    await service.ready()
    manager = (await fleet.client()).jsm()
    await manager.delete_stream("LEADSMAN_STATUS")
    fleet.server.restart()

    async def shown() -> bool:
        code, words = await service.get("/readyz?verbose")
        assert code == 200
        return "[-]stream NATS has no stream behind" in words

    await fleet.eventually(shown, "the missing stream is shown")
    _, words = await service.get("/readyz?verbose")
    assert f"run: leadsman provision --nats-url {fleet.server.url} (degraded)" in words
    assert "[+]cache 0 nodes\n" in words


async def test_a_shipped_service_waits_for_a_new_stream_to_settle(fleet: Any) -> None:
    """Without a flag it is unready on a stream that was just made, and says why."""
    service = await fleet.start("filter", "--stream-settle", "20s")

    async def waits() -> bool:
        code, words = await service.get("/readyz?verbose")
        assert code == 503
        return "[-]cache no snapshot yet: the stream is new" in words

    await fleet.eventually(waits, "it says what it waits for")
    assert await service.health() == NOT_SERVING


async def test_a_malformed_request_ends_neither_stream_nor_process(fleet: Any) -> None:
    """What has an id is answered without a verdict, what has none is counted, and the next question is served."""
    service = await fleet.start("filter")
    await service.ready()
    raw = service.channel().stream_stream("/leadsman.v1.FilterService/Filter")()
    await raw.read()
    await raw.write(b"\xff\xff not protobuf")
    await raw.write(filter_pb2.FilterRequest(id=5, requirements=[{"backend": "no driver"}]).SerializeToString())
    await raw.write(filter_pb2.FilterRequest(id=6).SerializeToString())

    replies = [filter_pb2.FilterResponse.FromString(await raw.read()) for _ in range(2)]
    assert [(reply.id, reply.WhichOneof("answer")) for reply in replies] == [(5, None), (6, "rejected")]
    assert await service.metric('leadsman_filter_requests_total{outcome="malformed"}') == 2
    raw.cancel()


async def test_sigterm_answers_what_is_open_and_ends_with_0(fleet: Any) -> None:
    """Health watchers hear NOT_SERVING and streams end, so that gateways turn to another replica; nothing hangs."""
    service = await fleet.start("filter")
    await service.ready()
    stream = service.filter()
    await stream.read()
    await stream.ask("nfs/a")
    watch = service.watch_health()
    assert await watch.read() in (SERVING, NOT_SERVING)

    started = time.monotonic()
    assert await service.end() == 0, service.log.read_text()
    assert time.monotonic() - started < 4
    assert await stream.call.read() is grpc.aio.EOF
    assert await watch.last() == NOT_SERVING
    assert "Traceback" not in service.log.read_text()
    assert "stopping" in service.log.read_text()


async def test_sigterm_before_the_first_sync_ends_with_0(nats_server: NatsServer, fleet: Any) -> None:
    """A replica that never found NATS stops as cleanly, with a gateway waiting for its Hello."""
    nats_server.kill()
    service = await fleet.start("filter")
    stream = service.filter()

    async def waiting() -> bool:
        return bool(await service.metric("leadsman_filter_streams"))

    await fleet.eventually(waiting, "the stream is open")
    assert await service.end() == 0, service.log.read_text()
    assert await stream.call.read() is grpc.aio.EOF
    nats_server.start()
    await ensure_streams((nats_server.url,))


async def test_a_taken_port_is_said_in_one_sentence(fleet: Any) -> None:
    """No traceback, no silent sharing of the port."""
    service = await fleet.start("filter")
    taken = f"127.0.0.1:{service.ports['grpc']}"
    with pytest.raises(AssertionError, match=f"error: cannot listen on {taken}"):
        await fleet.start("filter", "--listen", taken)
