"""The conversation that a ping has with a server: a few bytes there, a few bytes back, and never more than that.

On the socket itself rather than by transports: those read as much as comes, and uvloop's closes a socket that it was
given and could not use, so that its number may be another one's by the time we do.
"""

from socket import socket
from typing import Protocol

from leadsman.domain.errors import LeadsmanError
from leadsman_health_collector.tcp_connect import readable, writable

MAX_ANSWER = 4 * 1024
"""Bytes that an answer may have; all that we ask for takes less."""


class WrongAnswerError(LeadsmanError):
    """What came back is not what a working server says; the message goes on from the server's address."""


class Exchange:
    """A connection with a server at `host`, which its maker closes. What is read is bounded, whatever is sent.

    Every method raises WrongAnswerError when the server hangs up; waiting is bounded by the caller's timeout.
    """

    def __init__(self, connection: socket, host: str) -> None:
        self.host = host
        self.connection = connection

    async def send(self, data: bytes) -> None:
        """Send `data`."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.connection.send(left) :]
            except BlockingIOError:
                await writable(self.connection)
            except ConnectionError as error:
                raise _hung_up() from error

    async def receive_some(self, most: int) -> bytes:
        """What has come, from one to `most` bytes."""
        while True:
            try:
                data = self.connection.recv(most)
            except BlockingIOError:
                await readable(self.connection)
            except ConnectionError as error:
                raise _hung_up() from error
            else:
                if not data:
                    raise _hung_up()
                return data

    async def receive(self, count: int) -> bytes:
        """Exactly `count` bytes, at most MAX_ANSWER."""
        if count > MAX_ANSWER:
            raise WrongAnswerError(f"announces an answer of {count} bytes")
        data = b""
        while len(data) < count:
            data += await self.receive_some(count - len(data))
        return data

    async def receive_line(self) -> bytes:
        """Bytes up to and with a line feed; what the server sends after it is lost."""
        data = b""
        while b"\n" not in data:
            if len(data) >= MAX_ANSWER:
                raise WrongAnswerError("sends a line without end")
            data += await self.receive_some(MAX_ANSWER - len(data))
        return data[: data.index(b"\n") + 1]


class Ping(Protocol):
    """One protocol."""

    async def ping(self, exchange: Exchange) -> None:
        """Ask a server that has just been connected to whether it answers; return if it does.

        Raises:
            WrongAnswerError: it says something else, or hangs up.
        """
        ...


def _hung_up() -> WrongAnswerError:
    return WrongAnswerError("closes the connection without an answer")
