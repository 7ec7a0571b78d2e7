"""A storage server as far as a TCP connect can tell: `python -m leadsman.testing.tcp_backend --listen HOST:PORT`.

It accepts, greets and closes. SIGUSR1 makes new connects time out: it stops accepting and fills its own accept queue,
after which the kernel drops further SYNs. SIGUSR2 mends it. SIGSTOP does not: the kernel goes on completing
handshakes for a frozen server until its queue is full (facts: storage-health 0.2). Killed, its port refuses. It lives
until SIGTERM. With port 0 the chosen address is printed.
"""

import select
import signal
import socket
from types import FrameType

import click

GREETING = b"leadsman test backend\n"
_QUEUE = 1
_FILLERS = 4  # more than the queue takes, so that none is left over


class Backend:
    """One listening socket, served by `run` in the calling thread."""

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, port))
        self._listener.settimeout(0)
        self._listener.listen(128)
        self._fillers: list[socket.socket] = []
        self._signals: list[int] = []

    @property
    def port(self) -> int:
        """The real port, also when 0 was asked for."""
        return int(self._listener.getsockname()[1])

    def run(self) -> None:
        """Accept until SIGTERM or SIGINT."""
        wake, woken = socket.socketpair()
        woken.settimeout(0)
        signal.set_wakeup_fd(woken.fileno())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._on_signal)
        while self._obey():
            heard = [wake] if self._fillers else [wake, self._listener]
            for ready in select.select(heard, [], [])[0]:
                wake.recv(64) if ready is wake else self._accept()
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
            with connection:
                connection.sendall(GREETING)
        except OSError:  # the client went away; servers live with that
            return

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
def main(*, listen: str) -> None:
    """Accept TCP connections, or on SIGUSR1 let them time out."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise click.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    backend = Backend(host.strip("[]"), int(port))
    click.echo(f"listening on {host}:{backend.port}")
    backend.run()


if __name__ == "__main__":
    main()
