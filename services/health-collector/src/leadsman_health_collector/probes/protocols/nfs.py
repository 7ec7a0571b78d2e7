"""NFS: the RPC program's NULL procedure, which every server answers without credentials.

Source: RFC 5531 (ONC RPC version 2; section 11: record marking), RFC 7530 section 15.1 and RFC 1813 section 3.3.0.
"""

import secrets
import struct

from leadsman_health_collector.probes.protocols.exchange import MAX_ANSWER, Exchange, WrongAnswerError

PROGRAM = 100003
VERSIONS = (4, 3)
"""Versions of NFS to ask for, one after the other."""

_LAST_FRAGMENT = 0x8000_0000
_MAX_FRAGMENTS = 8

_CALL, _REPLY = 0, 1
_ACCEPTED, _DENIED = 0, 1
_SUCCESS, _PROGRAM_UNAVAILABLE, _PROGRAM_MISMATCH = 0, 1, 2
_AUTH_ERROR = 1
_REFUSALS = {3: "NULL is unknown to it", 4: "it cannot read the call", 5: "system error"}


class NfsPing:
    """Calls NULL of NFSv4, and of NFSv3 from a server that says it has no NFS.

    A server that wants another version, or credentials, is alive.
    """

    async def ping(self, exchange: Exchange) -> None:
        """See `Ping.ping`."""
        for version in VERSIONS:
            if await _call_null(exchange, version):
                return
        raise WrongAnswerError("speaks RPC but does not serve NFS")


async def _call_null(exchange: Exchange, version: int) -> bool:
    """Whether NFS is served there; `version` is only what is asked for."""
    xid = secrets.randbits(32)
    nothing = (0, 0)  # AUTH_NONE, and no bytes of it
    call = struct.pack(">10I", xid, _CALL, 2, PROGRAM, version, 0, *nothing, *nothing)
    await exchange.send(struct.pack(">I", _LAST_FRAGMENT | len(call)) + call)
    return read_reply(await _receive_record(exchange), xid)


async def _receive_record(exchange: Exchange) -> bytes:
    record = b""
    for _ in range(_MAX_FRAGMENTS):
        (mark,) = struct.unpack(">I", await exchange.receive(4))
        length = mark & ~_LAST_FRAGMENT
        if len(record) + length > MAX_ANSWER:
            raise WrongAnswerError("answers with something that is not RPC")
        record += await exchange.receive(length)
        if mark & _LAST_FRAGMENT:
            return record
    raise WrongAnswerError("answers in too many pieces")


def read_reply(record: bytes, xid: int) -> bool:
    """Whether a reply to the call `xid` comes from a server of NFS; False if the program is not there.

    Raises:
        WrongAnswerError: it is no reply to that call, or says that the server is in trouble.
    """
    try:
        reply_xid, kind, status = struct.unpack_from(">3I", record)
        if (reply_xid, kind) != (xid, _REPLY):
            raise WrongAnswerError("answers another call than ours")
        if status == _DENIED:
            return _read_denial(*struct.unpack_from(">I", record, 12))
        if status == _ACCEPTED:
            return _read_acceptance(record)
    except struct.error as error:
        raise WrongAnswerError("sends a reply that is cut short") from error
    raise WrongAnswerError("sends a reply that is not RPC")


def _read_denial(why: int) -> bool:
    if why == _AUTH_ERROR:
        return True  # it wants credentials, so it is there
    raise WrongAnswerError("does not speak version 2 of RPC")


def _read_acceptance(record: bytes) -> bool:
    (length,) = struct.unpack_from(">I", record, 16)
    at = 20 + (length + 3) // 4 * 4  # after the verifier
    (status,) = struct.unpack_from(">I", record, at)
    if status == _PROGRAM_MISMATCH:
        low, high = struct.unpack_from(">2I", record, at + 4)
        if low > high:
            raise WrongAnswerError("sends a reply that is not RPC")
    elif status == _PROGRAM_UNAVAILABLE:
        return False
    elif status != _SUCCESS:
        raise WrongAnswerError(f"refuses the call: {_REFUSALS.get(status, f'status {status}')}")
    return True
