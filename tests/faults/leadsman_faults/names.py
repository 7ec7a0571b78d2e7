"""A DNS server for the zone of the suite; which names it forgets can be changed while it runs (RFC 1035)."""

import asyncio
import socket
import struct

ZONE = "faults.test"
_TYPE_A = 1
_ANSWER = 0x8180  # a response, recursion desired and available, no error
_NAME_ERROR = 0x8183


class Names(asyncio.DatagramProtocol):
    """Answers with the address of each known name."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        """Address by full name."""
        self._transport: asyncio.DatagramTransport | None = None

    async def open(self, bound: socket.socket) -> None:
        """Answer what arrives on `bound`."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, sock=bound)

    def close(self) -> None:
        """Stop answering."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        """See `asyncio.DatagramProtocol`."""
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """See `asyncio.DatagramProtocol`."""
        if self._transport is not None and len(data) > 16:
            self._transport.sendto(self.answer(data), addr)

    def answer(self, query: bytes) -> bytes:
        """The answer to `query`, which has one question."""
        name, end = _name(query, 12)
        question = query[12 : end + 4]
        wanted = struct.unpack_from(">H", query, end)[0]
        address = self.addresses.get(name)
        count = int(address is not None and wanted == _TYPE_A)
        head = query[:2] + struct.pack(">5H", _NAME_ERROR if address is None else _ANSWER, 1, count, 0, 0)
        if address is None or not count:
            return head + question
        # 0xc00c points to the name in the question; class IN, no caching.
        return head + question + struct.pack(">HHHIH", 0xC00C, _TYPE_A, 1, 0, 4) + socket.inet_aton(address)


def _name(message: bytes, at: int) -> tuple[str, int]:
    """The name at offset `at` of `message`, and the offset behind it."""
    labels = []
    while length := message[at]:
        labels.append(message[at + 1 : at + 1 + length].decode("ascii", "replace").lower())
        at += 1 + length
    return ".".join(labels), at + 1


def label_rule(label: str, verdict: str) -> str:
    """The nftables rule that applies `verdict` to questions about names whose first label is `label` (7 letters).

    The length byte and the seven letters follow the 8 bytes of UDP's header and the 12 of DNS's.
    """
    wanted = bytes([len(label)]) + label.encode("ascii")
    return f"input udp dport 53 @th,160,{len(wanted) * 8} 0x{wanted.hex()} counter {verdict}"
