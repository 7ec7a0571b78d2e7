"""An NFS server as far as ONC RPC NULL can tell, as a process that can be frozen: `rpc_responder.py HOST PORT`.

Standard library only, so that it starts at once. It answers every call of program 100003, versions 3 and 4 (RFC 5531;
NULL has no arguments, and nobody calls anything else), until SIGTERM.
"""

import asyncio
import struct
import sys

PROGRAM = 100003
VERSIONS = range(3, 5)
_CALL, _REPLY, _ACCEPTED = 0, 1, 0
_SUCCESS, _PROGRAM_UNAVAILABLE, _VERSION_MISMATCH = 0, 1, 2
_LAST_FRAGMENT = 0x8000_0000
_LONGEST = 64 * 1024


def reply_to(call: bytes) -> bytes:
    """The reply to one call, both without record marks; empty if it is no call that can be answered."""
    if len(call) < 24:
        return b""
    xid, kind, _, program, version, _ = struct.unpack_from(">6I", call)
    if kind != _CALL:
        return b""
    head = struct.pack(">5I", xid, _REPLY, _ACCEPTED, 0, 0)
    if program != PROGRAM:
        return head + struct.pack(">I", _PROGRAM_UNAVAILABLE)
    if version not in VERSIONS:
        return head + struct.pack(">3I", _VERSION_MISMATCH, VERSIONS[0], VERSIONS[-1])
    return head + struct.pack(">I", _SUCCESS)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one client until it goes."""
    try:
        while True:
            (mark,) = struct.unpack(">I", await reader.readexactly(4))
            if (length := mark & ~_LAST_FRAGMENT) > _LONGEST:
                break
            reply = reply_to(await reader.readexactly(length))
            if reply:
                writer.write(struct.pack(">I", _LAST_FRAGMENT | len(reply)) + reply)
                await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):  # the last: the whole program ends
        return
    finally:
        writer.close()


async def main(host: str, port: int) -> None:
    """Listen until killed."""
    async with await asyncio.start_server(serve, host, port) as server:
        print("listening", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
