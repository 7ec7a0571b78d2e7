"""SMB: a NEGOTIATE request, the first of every connection, for which no account is needed.

Source: MS-SMB2 2.2.1.2 (header), 2.2.3 and 2.2.4 (NEGOTIATE), 2.1 (length before each message on TCP).
"""

import secrets
import struct

from leadsman_health_collector.probes.protocols.exchange import MAX_ANSWER, Exchange, WrongAnswerError

_MAGIC = b"\xfeSMB"
_HEADER_SIZE = 64
_NEGOTIATE = 0
_RESPONSE = 0x1
_SIGNING_ENABLED = 0x1
_DIALECTS = (0x0202, 0x0210, 0x0300, 0x0302)  # 3.1.1 would need negotiation contexts
_NOT_SUPPORTED = 0xC00000BB
"""STATUS_NOT_SUPPORTED: the server insists on a dialect that we did not offer, so it is there."""


class SmbPing:
    """Offers dialects; a server that likes none of them is alive too."""

    async def ping(self, exchange: Exchange) -> None:
        """See `Ping.ping`."""
        request = _negotiate_request()
        await exchange.send(struct.pack(">I", len(request)) + request)
        (length,) = struct.unpack(">I", await exchange.receive(4))
        if not _HEADER_SIZE <= length <= MAX_ANSWER:
            raise WrongAnswerError("answers with something that is not SMB")
        read_header(await exchange.receive(_HEADER_SIZE))


def read_header(header: bytes) -> None:
    """Check that the header of an answer is one to our request.

    Raises:
        WrongAnswerError: it is not, or the server is in trouble.
    """
    magic, status, command, flags = struct.unpack_from("<4s4xIH2xI", header)
    if magic != _MAGIC or command != _NEGOTIATE or not flags & _RESPONSE:
        raise WrongAnswerError("answers with something that is not SMB")
    if status not in {0, _NOT_SUPPORTED}:
        raise WrongAnswerError(f"refuses to negotiate: NT status {status:#010x}")


def _negotiate_request() -> bytes:
    credits_wanted = 1
    header = struct.pack("<4sHHIHHIIQIIQ16x", _MAGIC, _HEADER_SIZE, 0, 0, _NEGOTIATE, credits_wanted, 0, 0, 0, 0, 0, 0)
    client = secrets.token_bytes(16)
    body = struct.pack("<HHHHI16sQ", 36, len(_DIALECTS), _SIGNING_ENABLED, 0, 0, client, 0)
    return header + body + struct.pack(f"<{len(_DIALECTS)}H", *_DIALECTS)
