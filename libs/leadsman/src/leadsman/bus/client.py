"""One nats-py client for one connection: it never reconnects by itself and survives messages it cannot parse.

nats-py's own reconnecting is switched off on purpose. After a server-sent error such as an expired credential it
closes for good whatever the settings say (nats.py issue 1019), its reconnect task dies silently when reading a
credentials file fails, and its delay hook retries only the first server of the pool. `leadsman.bus.connect` builds
a new client instead after every loss, whatever the cause, which leaves one path to test.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from leadsman.bus.settings import BusSettings

_ATTEMPTS_PER_SERVER = 2
_NO_RESPONDERS = "503"

_left_behind: set[asyncio.Future[None]] = set()
"""Steps of closing whose time was up; without a reference the event loop may drop them half-way."""


class UnreadableMessageError(nats.errors.Error):
    """A message whose subject or header block nats-py cannot decode; it has been dropped."""


@dataclass(frozen=True, slots=True)
class ClientHooks:
    """What the client reports: an error, and the end of the connection."""

    on_error: Callable[[Exception], Awaitable[None]]
    on_end: Callable[[], None]


class OneConnectionClient(Client):
    """A nats-py client whose reading task outlives two things that end it without a word in nats-py 2.16.

    A message whose subject or header is not text: the server stores and delivers it (checked with 2.15.1), so it would
    end the reader again at each snapshot. And a PONG for a PING that is no longer waited for.
    """

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        try:
            await super()._process_msg(sid, subject, reply, data, headers)
        except (UnicodeDecodeError, IndexError) as error:
            await self._error_cb(UnreadableMessageError(f"message of {len(data)} bytes on {subject[:80]!r}: {error}"))

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """What nats-py's own does in a Python loop over the characters of every name: a fifth of reading a snapshot."""
        found: dict[str, str] = {}
        for line in raw.split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if colon and name.isascii() and len(words := name.split()) == 1:
                found[words[0].decode()] = value.strip().decode("utf-8", "replace")
        return found

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs.pop(0)
            return
        await super()._process_pong()


async def open_client(client: Client, settings: BusSettings, hooks: ClientHooks) -> None:
    """Connect `client` to any of the servers.

    Raises:
        nats.errors.Error, OSError, TimeoutError: no server could be used; the caller closes the client.
    """

    async def ended() -> None:
        hooks.on_end()

    async def error(error: Exception) -> None:
        await hooks.on_error(error)

    limit = settings.connect_timeout_s * (len(settings.urls) * _ATTEMPTS_PER_SERVER + 1)
    async with asyncio.timeout(limit):
        await client.connect(
            servers=list(settings.urls),
            name=settings.name,
            user_credentials=settings.creds_file,
            inbox_prefix=settings.inbox_prefix,
            error_cb=error,
            disconnected_cb=ended,
            closed_cb=ended,
            allow_reconnect=False,
            max_reconnect_attempts=_ATTEMPTS_PER_SERVER - 1,
            reconnect_time_wait=0,
            connect_timeout=settings.connect_timeout_s,  # type: ignore[arg-type]  # annotated int, used as seconds
            ping_interval=24 * 3600,  # the bus pings by itself, see `Bus`
            pending_size=settings.pending_bytes,
            flush_timeout=settings.pong_timeout_s,
            drain_timeout=5,
        )


async def close_client(client: Client, *, drain_s: float, close_s: float = 1.0) -> None:
    """Send what waits, let callbacks finish (for `drain_s` at most; 0: not at all), and close. Never raises or hangs.

    nats-py swallows cancellation while draining and waits without limit for a peer that does not read, so both steps
    run in tasks that are left behind when their time is up.
    """
    if drain_s > 0 and client.is_connected and await _within(drain_s, client.drain()):
        return
    await _within(close_s, client.close())


def nobody_answers(msg: Msg) -> bool:
    """Whether the server says so, and not a stored message that a node gave a status header to make it seem so."""
    headers = msg.headers or {}
    return not msg.data and headers.get("Status") == _NO_RESPONDERS and "Nats-Sequence" not in headers


def kind_of(error: Exception) -> str:
    """The metric label for what nats-py told its error callback."""
    if isinstance(error, nats.errors.SlowConsumerError):
        return "slow_consumer"
    if isinstance(error, UnreadableMessageError):
        return "unreadable"
    text = str(error).lower()
    if "permissions violation" in text:
        return "permission"
    return "authorization" if "authorization" in text or "authentication" in text else "connection"


async def _within(seconds: float, step: Awaitable[None]) -> bool:
    task = asyncio.ensure_future(step)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        _left_behind.add(task)
        task.add_done_callback(_forget)
        task.cancel()
        return False
    with contextlib.suppress(asyncio.CancelledError):
        return task.exception() is None
    return False


def _forget(task: asyncio.Future[None]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, or asyncio complains; the connection it belonged to is gone anyway
