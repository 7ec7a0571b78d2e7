"""What cannot be answered gets a 4xx with one sentence and a counter; the process goes on and says nothing else."""

import asyncio
import json
import logging
from typing import Any

import pytest

from leadsman_gateway import body as body_module

pytestmark = pytest.mark.integration

LIMIT = 4096
BAD_BODIES = [
    ("filter", b"", "empty_body", "empty"),
    ("prioritize", b"", "empty_body", "empty"),
    ("preempt", b"", "empty_body", "empty"),
    ("filter", b"hello", "not_json", "not JSON"),
    ("filter", b'{"Pod":{},"NodeNames":["a"', "not_json", "not JSON"),
    ("filter", b'{"Pod":{},"NodeNames":["\xff"]}', "not_json", "not JSON"),
    ("filter", b"[" * 3000, "wrong_type", "shape"),
    ("filter", b'{"Pod":{"spec":{"a":' + b"[" * 3000, "not_json", "not JSON"),
    ("filter", b"[]", "wrong_type", "shape"),
    ("filter", b'"text"', "wrong_type", "shape"),
    ("filter", b"{}", "missing_pod", "no Pod"),
    ("filter", b'{"Pod":null,"NodeNames":["a"]}', "missing_pod", "no Pod"),
    ("filter", b'{"Pod":[],"NodeNames":["a"]}', "wrong_type", "Pod has a wrong type"),
    ("filter", b'{"Pod":{"spec":{"volumes":7}}}', "wrong_type", "Pod has a wrong type"),
    ("filter", b'{"Pod":{},"NodeNames":[1]}', "wrong_type", "NodeNames has a wrong type"),
    ("filter", b'{"Pod":{},"NodeNames":{"a":1}}', "wrong_type", "NodeNames has a wrong type"),
    ("filter", b'{"Pod":{},"Nodes":[]}', "wrong_type", "Nodes has a wrong type"),
    ("filter", b'{"Pod":{},"Nodes":{"items":[{"metadata":{}}]}}', "wrong_type", "Nodes.items[0]"),
    ("filter", b'{"Pod":{},"Nodes":{"items":[null]}}', "wrong_type", "Nodes.items[0]"),
    ("prioritize", b'{"Pod":{},"Nodes":{"items":[{"metadata":{}}]}}', "wrong_type", "Nodes has a wrong type"),
    ("preempt", b'{"Pod":{},"NodeNameToMetaVictims":[]}', "wrong_type", "NodeNameToMetaVictims"),
    ("preempt", b'{"Pod":{},"NodeNameToMetaVictims":{"n":{"Pods":[7]}}}', "wrong_type", "NodeNameToMetaVictims"),
    ("preempt", b'{"Pod":{},"NodeNameToVictims":{"n":{"Pods":"x"}}}', "wrong_type", "NodeNameToVictims"),
]


@pytest.fixture
async def running(gateway: Any, caplog: Any) -> Any:
    """A gateway that takes at most LIMIT bytes; it must have logged no error at the end."""
    one = await gateway(max_body=LIMIT)
    yield one
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def counted(running: Any, verb: str, reason: str) -> Any:
    return running.value("leadsman_gateway_bad_requests_total", verb=verb, reason=reason)


@pytest.mark.parametrize(("verb", "body", "reason", "words"), BAD_BODIES)
async def test_bad_body_gets_one_sentence(verb: Any, body: Any, reason: Any, words: Any, running: Any) -> None:
    """400 with a sentence that names the place, and one more in the counter; the connection serves the next call."""
    client = await running.connect()
    reply = await client.post(f"/{verb}", body)

    assert (reply.status, list(reply.json)) == (400, ["error"])
    assert words in reply.json["error"]
    assert "\n" not in reply.json["error"]
    assert counted(running, verb, reason) == 1
    assert (await client.post("/filter", b'{"Pod":{},"NodeNames":["a"]}')).json["NodeNames"] == ["a"]


@pytest.mark.parametrize("path", ["/bind", "/", "/filter/more", "/v1/filter", "/Filter"])
async def test_unknown_verb_is_told_the_known_ones(path: Any, running: Any) -> None:
    """404 whose sentence lists the verbs with their paths."""
    reply = await running.post(path, b"{}")

    assert reply.status == 404
    assert "/filter, /prioritize, /preempt" in reply.json["error"]
    assert counted(running, "unknown", "unknown_verb") == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_wrong_method_is_told_the_right_one(method: Any, running: Any) -> None:
    """405 with an Allow header."""
    client = await running.connect()
    await client.send(f"{method} /filter HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n\r\n".encode())
    reply = await client.answer()

    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert counted(running, "filter", "method") == 1


async def test_trailing_slash_and_prefix_are_no_redirect(gateway: Any) -> None:
    """A redirect would lose the body; the administrative paths have no prefix."""
    running = await gateway(url_prefix="/leadsman/v1/")
    client = await running.connect()

    for path in ("/leadsman/v1/filter", "/leadsman/v1/filter/"):
        assert (await client.post(path, b'{"Pod":{},"NodeNames":["a"]}')).status == 200
    assert (await client.get("/livez")).status == 200
    assert "/leadsman/v1/preempt" in (await client.post("/filter", b"{}")).json["error"]


async def test_announced_large_body_is_refused_before_it_is_sent(running: Any) -> None:
    """413 by Content-Length alone; the sentence says what to set."""
    client = await running.connect()
    await client.send(f"POST /filter HTTP/1.1\r\nHost: g\r\nContent-Length: {1 << 40}\r\n\r\n".encode())
    reply = await client.answer()

    assert reply.status == 413
    assert "nodeCacheCapable: true" in reply.json["error"]
    assert counted(running, "filter", "too_large") == 1


async def test_large_body_without_length_is_refused_while_it_comes(running: Any) -> None:
    """A chunked body is counted as it arrives; its end is not waited for."""
    client = await running.connect()
    await client.send(b"POST /filter HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"%x\r\n%s\r\n" % (1024, b" " * 1024)
    await client.send(chunk * 64)

    assert (await client.answer()).status == 413
    assert counted(running, "filter", "too_large") == 1


async def test_client_that_sends_a_large_body_to_its_end_reads_the_answer(running: Any) -> None:
    """Closing at once would reset the connection, and the client would see that instead of the sentence."""
    reply = await running.post("/filter", b" " * (8 << 20))

    assert (reply.status, reply.headers["connection"]) == (413, "close")


async def test_chunked_body_is_read(running: Any) -> None:
    """Not what Go sends for a body of known length, but legal."""
    client = await running.connect()
    await client.send(b"POST /filter HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in (b'{"Pod":{},', b'"NodeNames":', b'["a"]}'):
        await client.send(b"%x\r\n%s\r\n" % (len(part), part))
    await client.send(b"0\r\n\r\n")

    assert (await client.answer()).json["NodeNames"] == ["a"]


async def test_client_that_stops_in_the_middle_of_a_body_is_told_and_counted(running: Any, until: Any) -> None:
    """It has closed its side only: it still hears why it gets no answer."""
    client = await running.connect()
    await client.send(b'POST /filter HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\n{"Pod":')
    client.writer.write_eof()

    assert (await client.answer()).status == 400
    await until(lambda: counted(running, "filter", "client_gone") == 1)


async def test_half_a_body_of_a_client_that_left_is_counted(running: Any, until: Any) -> None:
    """Nobody is left to answer; the next client is served."""
    client = await running.connect()
    await client.send(b'POST /filter HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\n{"Pod":')
    client.writer.close()
    await until(lambda: counted(running, "filter", "client_gone") == 1)

    assert (await running.post("/filter", b'{"Pod":{}}')).status == 200


@pytest.mark.parametrize("sent", [b'{"Pod":', b""])
async def test_body_that_stalls_is_given_up(sent: bytes, running: Any, monkeypatch: Any) -> None:
    """408 after the read deadline, and the connection is closed; also if nothing but the head came."""
    monkeypatch.setattr(body_module, "READ_S", 0.1)
    client = await running.connect()
    await client.send(b"POST /filter HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\n" + sent)
    async with asyncio.timeout(5):
        reply = await client.answer()

    assert (reply.status, reply.headers["connection"]) == (408, "close")
    assert counted(running, "filter", "timeout") == 1


async def test_compressed_body_is_refused(running: Any) -> None:
    """kube-scheduler never compresses; a clear 415 beats 'not JSON'."""
    reply = await running.post("/filter", b"\x1f\x8b", "Content-Encoding: gzip")

    assert reply.status == 415
    assert counted(running, "filter", "content_encoding") == 1


async def test_bytes_that_are_no_http_leave_the_server_up(running: Any) -> None:
    """The connection is refused; the next one is served."""
    client = await running.connect()
    await client.send(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
    assert (await client.reader.read(64)).startswith(b"HTTP/1.1 400")
    assert counted(running, "none", "not_http") == 1

    assert json.loads((await running.post("/filter", b'{"Pod":{}}')).body)["NodeNames"] == []
