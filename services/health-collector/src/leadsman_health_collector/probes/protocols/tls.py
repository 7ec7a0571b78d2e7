"""The same conversation, encrypted.

Whose certificate it is does not matter: nothing secret is said, and the clients of the storage judge it themselves.
What we ask is whether anybody answers.
"""

import ssl
from collections.abc import Callable
from typing import TypeVar

from leadsman_health_collector.probes.protocols.exchange import Exchange, WrongAnswerError

T = TypeVar("T")

_RECORD = 16 * 1024
"""Bytes that one record of TLS may have (RFC 8446 5.1)."""


class TlsExchange(Exchange):
    """What goes through `plain` is encrypted; `start` comes first."""

    def __init__(self, plain: Exchange) -> None:
        super().__init__(plain.connection, plain.host)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = plain.host.partition("%")[0]
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)

    async def start(self) -> None:
        """Shake hands; raises WrongAnswerError if the server does not speak TLS."""
        await self._do(self._tls.do_handshake)

    async def send(self, data: bytes) -> None:
        """See `Exchange.send`."""
        await self._do(lambda: self._tls.write(data))

    async def receive_some(self, most: int) -> bytes:
        """See `Exchange.receive_some`."""
        return await self._do(lambda: self._tls.read(most))

    async def _do(self, operation: Callable[[], T]) -> T:
        """The result of `operation`, for which bytes go to and fro until it is done."""
        while True:
            try:
                result = operation()
            except ssl.SSLWantReadError:
                await self._flush()
                self._incoming.write(await self._plain.receive_some(_RECORD))
            except ssl.SSLError as error:
                raise WrongAnswerError(f"does not speak TLS with us: {error.reason or error}") from error
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        await self._plain.send(self._outgoing.read())
