"""uvicorn's HTTP protocol with three changes: whole answers, known-complete requests, and no connection for ever."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from leadsman.telemetry.logs import get_logger

log = get_logger("runtime.http")

BODY_COMPLETE = "leadsman.body_complete"
"""Key that a request's scope has (True) once its body has arrived whole: nothing will be waited for then."""

HEAD_S = 10.0
"""Time from the first byte of a request to the end of its head; a well client needs a millisecond."""

BadHttp = Literal["not_http", "head_timeout"]
"""Why a connection was ended below the application."""

_NOT_HTTP = "these bytes are no HTTP/1.1 request; this port speaks plain HTTP, no TLS"
_HALF_A_BODY = "the connection was closed for sending before the body was complete"


def ignore(reason: BadHttp) -> None:
    """Do nothing; for servers that nobody counts for."""


class WholeAnswers:
    """A transport that keeps the head of an answer back until its body is written, and sends both at once.

    uvicorn writes head and body in two system calls. The first one wakes the client, which then competes with us for
    the processor while it waits for the rest.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:
        """Send `data` and what was kept back, or keep it back if it is a head; interim answers (1xx) have no body."""
        if self._head:
            self._transport.writelines((self._head, data))
            self._head = b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self._head = data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        """Send what is kept back: the answer has no body."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Send what is kept back, and close."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all else is the transport's own
        return getattr(self._transport, name)


class WholeAnswersProtocol(HttpToolsProtocol):
    """One connection: answers leave in one piece, scopes tell when a body is complete, and no connection is for ever.

    `on_bad` is called with a reason whenever a connection is ended before the application could see a request.
    """

    def __init__(self, *arguments: Any, on_bad: Callable[[BadHttp], None] = ignore, **named: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*arguments, **named)
        self._on_bad = on_bad
        self._head_limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin to serve; see `asyncio.Protocol`."""
        self._answers = WholeAnswers(transport)
        super().connection_made(cast("asyncio.Transport", self._answers))
        # A client may open a connection in advance, so it may stay idle as long as one that has been used.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._unset_keepalive_if_required()  # uvicorn does so after a clean end only
        self._stop_waiting_for_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come; unlike uvicorn's, this counts what is not HTTP and writes no line for each."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # answered as if no upgrade had been asked for
        except httptools.HttpParserError as error:
            self._on_bad("not_http")
            log.debug("not HTTP", error=str(error))
            self.send_400_response(_NOT_HTTP)
            return
        if self._head_limit is None and self._unanswered() is None:
            self._head_limit = self.loop.call_later(HEAD_S, self._give_up_head)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's contract, which uvicorn's narrows
        """The client sends no more: half a body is refused, a whole request still answered; True while one is."""
        cycle = self._unanswered()
        if cycle is None or self.pipeline:
            return False
        if cycle.more_body and not cycle.response_started:
            self.send_400_response(_HALF_A_BODY)
            return False
        cycle.keep_alive = False
        return not cycle.more_body

    def on_headers_complete(self) -> None:
        """The parser has seen the whole head of a request."""
        self._stop_waiting_for_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The parser has seen the end of a request."""
        super().on_message_complete()
        self.scope[BODY_COMPLETE] = True  # type: ignore[literal-required]  # ours, not one of ASGI's

    def on_response_complete(self) -> None:
        """The application has ended its answer."""
        self._answers.flush()
        super().on_response_complete()

    def _unanswered(self) -> RequestResponseCycle | None:
        """The last request whose head is complete, unless it is answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return None if cycle is None or cycle.response_complete else cycle

    def _stop_waiting_for_head(self) -> None:
        if self._head_limit is not None:
            self._head_limit.cancel()
            self._head_limit = None

    def _give_up_head(self) -> None:
        self._on_bad("head_timeout")
        self.transport.close()
