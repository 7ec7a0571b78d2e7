"""What servers may answer to a ping, and what of it counts as alive."""

import asyncio
import socket
import struct

import pytest

from leadsman_health_collector.probes.protocols.ceph import CephPing
from leadsman_health_collector.probes.protocols.exchange import MAX_ANSWER, Exchange, Ping, WrongAnswerError
from leadsman_health_collector.probes.protocols.http import HttpPing
from leadsman_health_collector.probes.protocols.nfs import NfsPing, read_reply
from leadsman_health_collector.probes.protocols.smb import SmbPing, read_header

XID = 7
ACCEPTED = struct.pack(">5I", XID, 1, 0, 0, 0)
SMB_HEADER = struct.Struct("<4sHHIHHIIQIIQ16x")


class Server:
    """The other end of an exchange: it has sent its answers and sends no more."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def exchange(self, *answers: bytes, host: str = "server") -> Exchange:
        """A new exchange."""
        ours, theirs = socket.socketpair()
        self._sockets += [ours, theirs]
        ours.settimeout(0)
        theirs.settimeout(0)
        for answer in answers:
            theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)
        return Exchange(ours, host)

    def received(self) -> bytes:
        """What the latest exchange was sent."""
        return self._sockets[-1].recv(65536)

    async def is_wrong_for(self, ping: Ping, *answers: bytes) -> str:
        """What `ping` makes of answers that no working server gives."""
        with pytest.raises(WrongAnswerError) as caught:
            async with asyncio.timeout(5):
                await ping.ping(self.exchange(*answers))
        return str(caught.value)

    def close(self) -> None:
        """End all exchanges."""
        for one in self._sockets:
            one.close()


@pytest.fixture
def server():
    """Ends its exchanges with the test."""
    server = Server()
    yield server
    server.close()


def accepted(status: int, rest: bytes = b"") -> bytes:
    return ACCEPTED + struct.pack(">I", status) + rest


@pytest.mark.parametrize(
    ("record", "served"),
    [
        (accepted(0), True),
        (accepted(2, struct.pack(">2I", 3, 4)), True),
        (accepted(1), False),
        (struct.pack(">4I", XID, 1, 1, 1) + struct.pack(">I", 5), True),
        (struct.pack(">6I", XID, 1, 0, 6, 5, 0) + bytes(4) + struct.pack(">I", 1), False),
    ],
)
def test_what_a_server_of_nfs_replies(record, served):
    """Success, another version, no such program, credentials wanted, and a verifier that needs padding."""
    assert read_reply(record, XID) is served


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (b"", "cut short"),
        (ACCEPTED, "cut short"),
        (accepted(2), "cut short"),
        (struct.pack(">5I", XID, 1, 0, 0, 0xFFFFFFFF) + bytes(8), "cut short"),
        (struct.pack(">6I", XID + 1, 1, 0, 0, 0, 0), "another call"),
        (struct.pack(">6I", XID, 0, 0, 0, 0, 0), "another call"),
        (struct.pack(">6I", XID, 1, 2, 0, 0, 0), "not RPC"),
        (accepted(2, struct.pack(">2I", 4, 3)), "not RPC"),
        (struct.pack(">4I", XID, 1, 1, 0) + struct.pack(">2I", 3, 3), "version 2 of RPC"),
        (accepted(5), "system error"),
        (accepted(99), "status 99"),
    ],
)
def test_what_is_no_reply_of_a_server_of_nfs(record, words):
    """Garbage never reads as alive."""
    with pytest.raises(WrongAnswerError, match=words):
        read_reply(record, XID)


@pytest.fixture
def fixed_xid(monkeypatch):
    """Replies can be prepared."""
    monkeypatch.setattr("leadsman_health_collector.probes.protocols.nfs.secrets.randbits", lambda _: XID)


def fragment(data: bytes, *, last: bool = True) -> bytes:
    return struct.pack(">I", len(data) | (0x8000_0000 if last else 0)) + data


@pytest.mark.usefixtures("fixed_xid")
async def test_nfs_asks_for_version_4_and_for_3_where_there_is_none(server):
    """Some servers say of a version that is switched off that the program is not there."""
    talk = server.exchange(fragment(accepted(1)), fragment(accepted(0)))
    await NfsPing().ping(talk)
    sent = struct.unpack(">11I11I", server.received())
    assert sent[:11] == (0x8000_0028, XID, 0, 2, 100003, 4, 0, 0, 0, 0, 0)
    assert sent[11:] == (0x8000_0028, XID, 0, 2, 100003, 3, 0, 0, 0, 0, 0)
    assert await server.is_wrong_for(NfsPing(), fragment(accepted(1)) * 2) == "speaks RPC but does not serve NFS"


@pytest.mark.usefixtures("fixed_xid")
async def test_a_reply_in_pieces_is_put_together(server):
    """Record marking allows it."""
    reply = accepted(0)
    await NfsPing().ping(
        server.exchange(fragment(reply[:5], last=False), fragment(b"", last=False), fragment(reply[5:]))
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "closes the connection without an answer"),
        (b"\x80\x00", "closes the connection without an answer"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not RPC"),
        (struct.pack(">I", 0xFFFF_FFFF) + b"x" * 100, "not RPC"),
        (fragment(b"", last=False) * 100, "too many pieces"),
        (fragment(b"x" * 1000, last=False) * 100, "not RPC"),
        (fragment(b"x" * 24), "another call"),
    ],
)
async def test_a_server_that_is_none_cannot_make_nfs_read_for_ever(server, answer, words):
    """Nor take up memory, nor crash anything."""
    assert words in await server.is_wrong_for(NfsPing(), answer)


@pytest.mark.parametrize("banner", [b"ceph v2\n\x10\x00" + bytes(16), b"ceph v027" + bytes(272)])
async def test_a_ceph_monitor_is_known_by_its_banner(server, banner):
    """Both versions of the messenger."""
    await CephPing().ping(server.exchange(banner))


@pytest.mark.parametrize("answer", [b"", b"ceph", b"ceph v1\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 5000])
async def test_what_is_no_ceph_monitor(server, answer):
    """Something else listens on that port, or a proxy in front of nothing."""
    await server.is_wrong_for(CephPing(), answer)


def negotiated(status: int = 0, *, magic: bytes = b"\xfeSMB", command: int = 0, flags: int = 1) -> bytes:
    return SMB_HEADER.pack(magic, 64, 0, status, command, 1, flags, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("status", [0, 0xC00000BB])
async def test_a_server_of_smb_negotiates_or_wants_another_dialect(server, status):
    """Either way it is there."""
    read_header(negotiated(status))
    talk = server.exchange(struct.pack(">I", 128), negotiated(status), bytes(64))
    await SmbPing().ping(talk)
    sent = server.received()
    assert struct.unpack(">I", sent[:4]) == (len(sent) - 4,)
    assert SMB_HEADER.unpack(sent[4:68])[:2] == (b"\xfeSMB", 64)
    assert struct.unpack("<HH", sent[68:72]) == (36, 4)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0\0\x10" + bytes(16),
        b"\0\xff\xff\xff" + bytes(64),
        b"\x83\0\0\x01\x8f",
        struct.pack(">I", 64) + negotiated(magic=b"\xffSMB"),
        struct.pack(">I", 64) + negotiated(command=1),
        struct.pack(">I", 64) + negotiated(flags=0),
        struct.pack(">I", 64) + negotiated(0xC0000001),
        struct.pack(">I", 64) + negotiated()[:60],
    ],
)
async def test_what_is_no_server_of_smb(server, answer):
    """Only a response to our request counts."""
    await server.is_wrong_for(SmbPing(), answer)


@pytest.mark.parametrize("line", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 403\r\n", b"HTTP/1.1 501 Not Implemented\n"])
async def test_a_server_of_http_may_say_anything_but_that_it_is_broken(server, line):
    """An object store wants credentials for its root."""
    talk = server.exchange(line + b"Server: x\r\n\r\n", host="fd00::9")
    await HttpPing(tls=False).ping(talk)
    sent = server.received()
    assert sent.startswith(b"HEAD / HTTP/1.1\r\nHost: [fd00::9]\r\n")
    assert sent.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK", b"HTTP/1.1 503 Busy\r\n", b"HTTP/1.1 999 x\r\n", b"220 smtp\r\n", b"x" * 10_000],
)
async def test_what_is_no_working_server_of_http(server, answer):
    """A gateway whose storage is gone answers 502 or 503."""
    await server.is_wrong_for(HttpPing(tls=False), answer)


async def test_no_answer_is_longer_than_the_limit(server):
    """Whatever a server announces."""
    with pytest.raises(WrongAnswerError, match="announces an answer of 4097 bytes"):
        await server.exchange(b"x" * 5000).receive(MAX_ANSWER + 1)
