"""Reading a request body: bounded in size and time, with a plain reason when it cannot be had."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from leadsman.runtime.http import Receive, Scope
from leadsman.runtime.http_protocol import BODY_COMPLETE

READ_S = 10.0
"""Time a body may take; kube-scheduler itself gives up after its httpTimeout (5 s by default)."""

_LINGER_S = 1.0
"""Time given to a client to finish sending what is not wanted, so that it reads the answer instead of a reset."""


class RefusedError(Exception):
    """The request is refused with an HTTP status; `reason` is a short code for metrics."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class ClientGoneError(Exception):
    """The client closed the connection before its body was complete; nobody is left to answer."""


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body, at most `limit` bytes.

    Raises:
        RefusedError: too large (413), compressed (415), or not complete in time (408).
        ClientGoneError: the connection was closed midway.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > limit:
            raise _too_large(int(value), limit)
        if name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            raise RefusedError(
                415, "content_encoding", "compressed bodies are not accepted; kube-scheduler does not send them"
            )
    if BODY_COMPLETE in scope:  # the usual case: nothing to wait for, and a timer costs more than the reading
        return await _read(receive, limit)
    try:
        async with asyncio.timeout(READ_S):
            return await _read(receive, limit)
    except TimeoutError as error:
        raise RefusedError(408, "timeout", f"the body was not complete after {READ_S:.0f} s") from error


async def _read(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await _next(receive)
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(size, limit)
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _next(receive: Receive) -> MutableMapping[str, Any]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message


def _too_large(size: int, limit: int) -> RefusedError:
    return RefusedError(
        413,
        "too_large",
        f"the body has {size} bytes or more and the limit is {limit}; set nodeCacheCapable: true for this extender "
        "in kube-scheduler's configuration, or raise --max-body",
    )


async def discard(receive: Receive) -> None:
    """Read what the client still sends, for a short time, and forget it."""
    try:
        async with asyncio.timeout(_LINGER_S):
            while (await _next(receive)).get("more_body"):
                pass
    except (TimeoutError, ClientGoneError):
        return
