"""Answers leave in one piece, nothing is kept or kept open for ever, and a scope tells when its body is complete."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest

from leadsman.runtime import http_protocol
from leadsman.runtime.http import KEEP_ALIVE_S, HttpServer, Receive, Scope, Send, respond
from leadsman.runtime.http_protocol import BODY_COMPLETE, WholeAnswers

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


class Wire:
    """Notes what reaches the socket, one entry for each system call."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.calls.append(b"".join(parts))

    def close(self) -> None:
        self.calls.append(b"closed")


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body's size and whether it was known to be complete, or as the path says."""
    known = BODY_COMPLETE in scope
    if scope["path"] == "/late":
        await asyncio.sleep(0.05)  # a slow service, not a condition
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    if scope["path"] == "/empty":
        await respond(send, 200, b"")
    else:
        await respond(send, 200, f"{len(body)} {known}".encode())


@pytest.fixture
def bad() -> list[str]:
    """Why connections were ended below the app."""
    return []


@pytest.fixture
def host() -> str:
    """Where the server listens."""
    return "127.0.0.1"


@pytest.fixture
async def port(bad: list[str], host: str) -> AsyncIterator[int]:
    """The port of a server with `app`."""
    server = HttpServer(app, host, 0, on_bad=bad.append)
    await server.listen()
    running = asyncio.create_task(server.run_forever())
    yield server.port
    running.cancel()
    await asyncio.wait({running})


async def talk(port: int, *parts: bytes, until: bytes) -> bytes:
    """Send `parts`, each after an answer to the one before where it asks for one; everything up to `until`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = b""
    async with asyncio.timeout(5):
        for part in parts:
            writer.write(part)
            if b"100-continue" in part:
                heard += await reader.readuntil(b"\r\n\r\n")
        heard += await reader.readuntil(until)
    writer.close()
    return heard


def test_head_and_body_are_one_write() -> None:
    """The client is not woken by a head whose body is still to come."""
    wire = Wire()
    answers = WholeAnswers(cast("asyncio.Transport", wire))
    answers.write(HEAD)
    assert wire.calls == []

    answers.write(b"body")
    answers.write(b"more")
    assert wire.calls == [HEAD + b"body", b"more"]


@pytest.mark.parametrize(("end", "last"), [(WholeAnswers.flush, []), (WholeAnswers.close, [b"closed"])])
def test_head_without_a_body_leaves_at_the_end(end: Callable[[WholeAnswers], None], last: list[bytes]) -> None:
    """At the end of the answer or of the connection."""
    wire = Wire()
    answers = WholeAnswers(cast("asyncio.Transport", wire))
    answers.write(HEAD)
    end(answers)

    assert wire.calls == [HEAD, *last]


async def test_answers_without_a_body_are_not_kept_back(port: int) -> None:
    """A HEAD request and an empty body, then another call on the same connection."""
    head, empty = b"HEAD / HTTP/1.1\r\n\r\n", b"GET /empty HTTP/1.1\r\n\r\n"

    assert (await talk(port, head, until=b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
    assert (await talk(port, empty, until=b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
    assert (await talk(port, head, empty, b"GET / HTTP/1.1\r\n\r\n", until=b"0 True")).count(b"200 OK") == 3


async def test_client_that_waits_for_100_continue_gets_it(port: int) -> None:
    """It would wait for ever if the interim answer were kept back like a head."""
    head = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"

    assert (await talk(port, head, b"hi", until=b"2 False")).startswith(b"HTTP/1.1 100 Continue")


async def test_scope_says_that_the_body_has_arrived_whole(port: int) -> None:
    """Only then may an application do without a time limit."""
    head = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n"

    assert await talk(port, head + b"\r\nhi", until=b"2 True")
    assert await talk(port, head + b"Expect: 100-continue\r\n\r\n", b"hi", until=b"2 False")


POST = b"POST / HTTP/1.1\r\n"
LAST = b"GET / HTTP/1.1\r\n\r\n"


async def hear_out(port: int, *parts: bytes, host: str = "127.0.0.1", then_eof: bool = False) -> bytes:
    """Send `parts`; everything that comes until the server closes the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    for part in parts:
        writer.write(part)
        await writer.drain()
    if then_eof:
        writer.write_eof()
    async with asyncio.timeout(5):
        heard = await reader.read()
    writer.close()
    return heard


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        POST + b"Content-Length: many\r\n\r\n",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_not_http_is_refused_counted_and_not_logged(
    sent: bytes, port: int, bad: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """TLS and broken framing: one sentence, one count, and no line that a flood could repeat."""
    heard = await hear_out(port, sent)

    assert heard.startswith(b"HTTP/1.1 400 ")
    assert b"plain HTTP, no TLS" in heard
    assert bad == ["not_http"]
    assert caplog.records == []


async def test_unwanted_upgrade_is_answered_without_a_log_line(port: int, caplog: pytest.LogCaptureFixture) -> None:
    """The request counts, not the wish for another protocol."""
    head = b"GET /empty HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"

    assert b"200 OK" in await talk(port, head, until=b"\r\n\r\n")
    assert caplog.records == []


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("head", [b"P", b"\r\n", POST + b"Host: g\r\nX-Half"])
async def test_head_that_does_not_end_is_given_up(
    before: int, head: bytes, port: int, bad: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a new connection and on a used one."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(5):
        for _ in range(before):
            writer.write(LAST)
            await reader.readuntil(b"0 True")
        writer.write(head)
        assert await reader.read() == b""
    writer.close()

    assert bad == ["head_timeout"]


async def test_trickling_head_is_given_up_too(port: int, bad: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes do not prolong the limit."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.2)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(POST + b"X-Trickle: ")
    async with asyncio.timeout(5):
        while not bad:
            writer.write(b"a")
            await asyncio.sleep(0.02)  # the pace of the trickle, not a condition
    writer.close()

    assert bad == ["head_timeout"]


async def test_slow_body_and_slow_next_request_are_no_slow_head(
    port: int, bad: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is over with the head, and does not run while a connection is idle."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in (b"", POST, b"Content-Length: 2\r\n\r\n", b"h", b"", b"i", b"", b"", LAST):
        writer.write(part)
        await asyncio.sleep(0.08)  # a slow client, not a condition
    async with asyncio.timeout(5):
        heard = await reader.readuntil(b"0 True")
    writer.close()

    assert heard.count(b"200 OK") == 2
    assert bad == []


async def test_connection_that_never_says_anything_is_closed() -> None:
    """As late as an idle one: clients open connections in advance."""
    assert KEEP_ALIVE_S > 90
    server = HttpServer(app, "127.0.0.1", 0)
    server.config.timeout_keep_alive = 0
    await server.listen()
    running = asyncio.create_task(server.run_forever())

    assert await hear_out(server.port) == b""
    running.cancel()
    await asyncio.wait({running})


async def test_half_a_body_and_no_more_is_told_so(port: int) -> None:
    """The client has closed its side only, and still reads."""
    heard = await hear_out(port, POST + b"Content-Length: 100\r\n\r\nhalf", then_eof=True)

    assert heard.startswith(b"HTTP/1.1 400 ")
    assert b"before the body was complete" in heard


async def test_client_that_closes_its_side_after_a_whole_request_is_answered(port: int) -> None:
    """As `nc -N` does; the connection ends after the answer."""
    heard = await hear_out(port, b"POST /late HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", then_eof=True)

    assert heard.endswith(b"2 True")


@pytest.mark.parametrize("host", ["::"])
@pytest.mark.parametrize("client", ["127.0.0.1", "::1"])
async def test_every_address_means_both_families(port: int, client: str) -> None:
    """A Service may be of either."""
    assert b"0 True" in await hear_out(port, LAST, host=client, then_eof=True)
