"""A storage server as far as probes ask: `python -m leadsman.testing.tcp_backend --listen HOST:PORT`.

By `--protocol` it is one of these to whoever connects:

* `nfs` (as shipped): answers the RPC NULL call of NFS 3 and 4, and other versions with "program version mismatch";
* `ceph`: sends the banner of a Ceph monitor and keeps the connection;
* `greeting`: sends a line of its own and closes;
* `silent`: accepts and never says anything, like a server that is frozen or cut off behind its load balancer.

With `--delay` it takes so long over everything it says, one client after the other.

SIGUSR1 makes new connects time out: it stops accepting and fills its own accept queue, after which the kernel drops
further SYNs; those who are connected are not served either. SIGUSR2 mends it. SIGSTOP does not: the kernel goes on
completing handshakes for a frozen server until its queue is full (facts: storage-health 0.2). Killed, its port refuses.
It lives until SIGTERM. With port 0 the chosen address is printed.
"""

import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from types import FrameType

import click

GREETING = b"leadsman test backend\n"
CEPH_BANNER = b"ceph v2\n" + struct.pack("<HQQ", 16, 1, 0)
"""What a monitor sends first on its msgr2 port: length, features supported, features required."""

_NFS = 100003
_NFS_VERSIONS = (3, 4)
_LAST_FRAGMENT = 0x8000_0000
_MARK = struct.Struct(">I")
_CALL = struct.Struct(">6I")
_MAX_CALL = 4096

_QUEUE = 1
_FILLERS = 4  # more than the queue takes, so that none is left over
_READ = 4096


def answer_rpc(received: bytes) -> tuple[bytes, bytes] | None:
    """Replies to the whole calls in `received`, and what is left of it; None if it is not RPC (RFC 5531)."""
    replies = b""
    while len(received) >= _MARK.size:
        (mark,) = _MARK.unpack_from(received)
        length = mark & ~_LAST_FRAGMENT
        if not mark & _LAST_FRAGMENT or not _CALL.size <= length <= _MAX_CALL:
            return None
        if len(received) < _MARK.size + length:
            break
        reply = _reply(received[_MARK.size :])
        replies += _MARK.pack(_LAST_FRAGMENT | len(reply)) + reply
        received = received[_MARK.size + length :]
    return replies, received


def _reply(call: bytes) -> bytes:
    xid, _, _, program, version, procedure = _CALL.unpack_from(call)
    accepted = struct.pack(">5I", xid, 1, 0, 0, 0)  # a reply, accepted, with an empty verifier
    if program != _NFS:
        return accepted + struct.pack(">I", 1)  # program unavailable
    if version not in _NFS_VERSIONS:
        return accepted + struct.pack(">3I", 2, _NFS_VERSIONS[0], _NFS_VERSIONS[-1])  # version mismatch
    return accepted + struct.pack(">I", 3 if procedure else 0)  # nothing but NULL is available


class Connection:
    """One client, with what it has sent and has not been answered; `say` takes `delay_s` seconds."""

    def __init__(self, client: socket.socket, delay_s: float) -> None:
        self.socket = client
        self.pending = b""
        self._delay_s = delay_s

    def say(self, data: bytes) -> None:
        """Send `data` to the client."""
        time.sleep(self._delay_s)
        self.socket.sendall(data)


Serve = Callable[[Connection], bool]
"""Called with a new connection, and whenever it can be read; False to close it."""


def serve_nfs(connection: Connection) -> bool:
    """Answer RPC calls; whoever sends anything else is hung up on."""
    data = _received(connection)
    if data is None:
        return True
    answered = answer_rpc(connection.pending + data) if data else None
    if answered is None:
        return False
    replies, connection.pending = answered
    if replies:
        connection.say(replies)
    return True


def serve_silence(connection: Connection) -> bool:
    """Read and say nothing."""
    return _received(connection) != b""


def serve_ceph(connection: Connection) -> bool:
    """Send the banner first of all."""
    if not connection.pending:
        connection.say(CEPH_BANNER)
        connection.pending = CEPH_BANNER
    return serve_silence(connection)


def serve_greeting(connection: Connection) -> bool:
    """Greet and close."""
    connection.say(GREETING)
    return False


PROTOCOLS: dict[str, Serve] = {
    "nfs": serve_nfs,
    "ceph": serve_ceph,
    "greeting": serve_greeting,
    "silent": serve_silence,
}


def _received(connection: Connection) -> bytes | None:
    """What has come; empty at the end of the connection, None if nothing has come yet."""
    try:
        return connection.socket.recv(_READ)
    except BlockingIOError:
        return None


class Backend:
    """One listening socket and its clients, served by `run` in the calling thread."""

    def __init__(self, host: str, port: int, serve: Serve = serve_nfs, delay_s: float = 0.0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, port))
        self._listener.settimeout(0)
        self._listener.listen(128)
        self._serve = serve
        self._delay_s = delay_s
        self._clients: dict[socket.socket, Connection] = {}
        self._fillers: list[socket.socket] = []
        self._signals: list[int] = []

    @property
    def port(self) -> int:
        """The real port, also when 0 was asked for."""
        return int(self._listener.getsockname()[1])

    def run(self) -> None:
        """Accept and serve until SIGTERM or SIGINT."""
        wake, woken = socket.socketpair()
        woken.settimeout(0)
        signal.set_wakeup_fd(woken.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._on_signal)
        while self._obey():
            heard = [wake] if self._fillers else [wake, self._listener, *self._clients]
            ready = select.select(heard, [], [])[0]
            if wake in ready:
                wake.recv(64)
            elif not self._signals:  # else it is to do first what they say; `wake` may tell of them a moment later
                for one in ready:
                    self._accept() if one is self._listener else self._attend(self._clients[one])
        self._listener.close()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # the client went away; servers live with that
            return
        client.settimeout(0)
        self._clients[client] = Connection(client, self._delay_s)
        self._attend(self._clients[client])

    def _attend(self, connection: Connection) -> None:
        try:
            stays = self._serve(connection)
        except OSError:
            stays = False
        if not stays:
            del self._clients[connection.socket]
            connection.socket.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signals.append(number)

    def _obey(self) -> bool:
        """Do what the signals said; False if that is to stop."""
        while self._signals:
            match self._signals.pop(0):
                case signal.SIGUSR1:
                    self._fall_silent()
                case signal.SIGUSR2:
                    self._speak_again()
                case _:
                    return False
        return True

    def _speak_again(self) -> None:
        self._listener.listen(128)
        while self._fillers:
            self._fillers.pop().close()

    def _fall_silent(self) -> None:
        self._listener.listen(_QUEUE)
        for _ in range(_FILLERS):
            filler = socket.socket(self._listener.family)
            filler.settimeout(0)
            filler.connect_ex(self._listener.getsockname())
            self._fillers.append(filler)


@click.command()
@click.option("--listen", required=True, help="HOST:PORT to listen on; port 0 for a free one.")
@click.option(
    "--protocol", type=click.Choice(list(PROTOCOLS)), default="nfs", show_default=True, help="What it speaks."
)
@click.option("--delay", type=click.FloatRange(0), default=0.0, help="Seconds before everything it says.")
def main(*, listen: str, protocol: str, delay: float) -> None:
    """Serve TCP connections, or on SIGUSR1 let them time out."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise click.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    backend = Backend(host.strip("[]"), int(port), PROTOCOLS[protocol], delay)
    click.echo(f"listening on {host}:{backend.port}")
    backend.run()


if __name__ == "__main__":
    main()
