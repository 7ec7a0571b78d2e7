"""One process of ours that may get stuck on storage: it does one job at a time and is never waited for.

It is started by exec (a fork would copy the threads of gRPC). Jobs and answers are whole messages on a socket, so none
is ever seen in part, and whoever survives the other finds the end of it: a worker whose collector has gone ends itself.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence

MAX_ANSWER_BYTES = 16 * 1024
"""What is longer is cut, and then not understood."""


class WorkerProcess:
    """A process that reads jobs from its stdin, a socket, and writes one answer to each into it.

    `on_exit` is called once it has ended and has been reaped. It needs a running event loop, and takes two
    descriptors until then.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], on_exit: Callable[["WorkerProcess"], None]) -> None:
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self._done.set()
        self.gone = asyncio.Event()
        """Set once it has ended; then nothing of it is left."""
        self.killed = False
        self.answer = ""
        """To the latest job; empty as long as there is none, or if it ended instead."""
        with contextlib.ExitStack() as undo:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(self._channel.close)
            with theirs:
                self._process = _start(command, theirs)
            try:
                self._handle = os.pidfd_open(self._process.pid)
            except OSError:
                self._process.kill()
                self._process.wait()  # it has had no job, so there is nothing that it could hang on
                raise
            undo.pop_all()
        self._channel.settimeout(0)
        self._loop.add_reader(self._handle, self._exited)
        self._loop.add_reader(self._channel.fileno(), self._heard)

    def give(self, job: str) -> None:
        """Hand it a job, which is ASCII; it must have none.

        Raises:
            OSError: it has ended, or does not take it.
        """
        self.answer = ""
        self._done.clear()
        self._channel.send(job.encode("ascii"))

    async def done_within(self, seconds: float) -> bool:
        """Whether its job is done, well or by its end, after `seconds` at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._done.wait()
        except TimeoutError:
            self._heard()  # the answer may be there, and only we were late to look
        return self._done.is_set()

    def kill(self) -> None:
        """Send SIGKILL, once; whether it obeys is for the kernel to say."""
        if not self.killed and not self.gone.is_set():
            self.killed = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)

    def abandon(self) -> None:
        """Let go of a process that does not obey, at the end of our own."""
        if not self.gone.is_set():
            self._process.returncode = -signal.SIGKILL  # else Popen complains at exit about what we know
            self._let_go()

    def _heard(self) -> None:
        if self.gone.is_set():
            return
        try:
            message = self._channel.recv(MAX_ANSWER_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._loop.remove_reader(self._channel.fileno())  # it is about to end, which the handle will tell
        elif self._done.is_set():
            self.kill()  # nobody asked
        else:
            self.answer = message.decode("ascii", "replace")
            self._done.set()

    def _exited(self) -> None:
        self._process.poll()  # reaps it; it has ended, so this does not wait
        self._heard()
        self._let_go()
        self._on_exit(self)

    def _let_go(self) -> None:
        self._loop.remove_reader(self._handle)
        self._loop.remove_reader(self._channel.fileno())
        self._channel.close()
        os.close(self._handle)
        self.gone.set()
        self._done.set()


def _start(command: Sequence[str], channel: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own file, no shell
        command,
        stdin=channel.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
