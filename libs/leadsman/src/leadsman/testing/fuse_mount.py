"""A network filesystem that can hang: a FUSE server in pure Python, `python -m leadsman.testing.fuse_mount`.

It needs root and /dev/fuse, and shows in mountinfo as `fuse.nfs4` with the given source. It answers what stat,
statvfs and ls ask of an empty directory (facts: storage-health 6.1).

SIGUSR1  hang: every request is read and left unanswered, interrupts are ignored, so the waiter cannot be killed
SIGHUP   answer every request with the error of --error (ESTALE unless given)
SIGUSR2  be well again: answer, also what is still open
SIGRTMIN be slow: answer statvfs only after --delay seconds
SIGRTMAX be full: statvfs says that next to nothing is left
SIGTERM  unmount and exit; waiters get ECONNABORTED
SIGSTOP  freezes it before it reads: the waiter hangs but can be killed; SIGCONT mends it
SIGKILL  leaves the mount behind, every access gives ENOTCONN; `umount -l` removes it

With --killable it honours interrupts, as a killable NFS wait does. With --through it asks the storage server at that
address before it answers anything, again and again until the server replies, so that whatever is done to the way there
hangs the mount as well. It lives until SIGTERM, or as long as its parent with --end-with-parent.
"""

import ctypes
import errno
import os
import select
import signal
import socket
import stat
import struct
import time
from pathlib import Path
from types import FrameType

import click

# From linux/fuse.h, protocol 7.31.
_IN_HEADER = struct.Struct("<IIQQIIII")
_OUT_HEADER = struct.Struct("<IiQ")
_INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
_ATTR_OUT = struct.Struct("<QIIQQQQQQIIIIIIIIII")
_STATFS_OUT = struct.Struct("<QQQQQIIII24x")
_OPEN_OUT = struct.Struct("<QII")
_GETATTR, _STATFS, _INIT, _OPENDIR, _READDIR, _RELEASEDIR, _DESTROY, _LOOKUP = 3, 17, 26, 27, 28, 29, 38, 1
_INTERRUPT = 36
_WITHOUT_REPLY = frozenset({2, _INTERRUPT, 42})  # FORGET, INTERRUPT, BATCH_FORGET
_BUFFER = 1 << 20
_MODES: dict[int, str] = {
    signal.SIGUSR1: "hung",
    signal.SIGUSR2: "well",
    signal.SIGHUP: "failing",
    signal.SIGRTMIN: "slow",
    signal.SIGRTMAX: "full",
}
_ATTEMPT_S = 1.0
_NULL_CALL = struct.pack(">11I", 0x8000_0028, 1, 0, 2, 100003, 3, 0, 0, 0, 0, 0)
"""A record-marked ONC RPC call of the NFS program's procedure 0 without credentials (RFC 5531)."""

_MS_NOSUID, _MS_NODEV = 2, 4
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


class FuseMount:
    """One mounted filesystem; `run` serves it in the calling thread.

    `error` is the errno of mode `failing`, `delay_s` the wait of mode `slow`, `through` the server that is asked first.
    """

    def __init__(
        self,
        mountpoint: Path,
        source: str,
        error: int,
        *,
        delay_s: float = 0.0,
        through: tuple[str, int] | None = None,
        killable: bool = False,
    ) -> None:
        self._mountpoint = os.fsencode(mountpoint)
        self._device = os.open("/dev/fuse", os.O_RDWR)
        self._error = error
        self._delay_s = delay_s
        self._through = through
        self._killable = killable
        self._mode = "well"
        self._open: list[tuple[int, int]] = []
        self._signals: list[int] = []
        options = f"fd={self._device},rootmode=40755,user_id=0,group_id=0,allow_other"
        flags = _MS_NOSUID | _MS_NODEV
        if _libc.mount(source.encode(), self._mountpoint, b"fuse.nfs4", flags, options.encode()):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(mountpoint))

    def run(self) -> None:
        """Answer until SIGTERM or SIGINT, then unmount."""
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken)
        for number in (signal.SIGTERM, signal.SIGINT, *_MODES):
            signal.signal(number, self._on_signal)
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(self._device, select.POLLIN)
        while self._obey():
            for descriptor, _ in poll.poll():
                if descriptor == wake:
                    os.read(wake, 64)
                elif not self._serve_one():
                    return
        _libc.umount2(self._mountpoint, _MNT_DETACH)
        os.close(self._device)  # frees whoever still waits

    def be(self, mode: str) -> None:
        """Turn `well`, `hung`, `failing`, `slow` or `full`; once well, what is still open is answered."""
        self._mode = mode
        while mode == "well" and self._open:
            self._answer(*self._open.pop())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signals.append(number)

    def _obey(self) -> bool:
        """Do what the signals said; False if that is to stop."""
        while self._signals:
            mode = _MODES.get(self._signals.pop(0))
            if mode is None:
                return False
            self.be(mode)
        return True

    def _serve_one(self) -> bool:
        """Read one request and answer it, or not; False once the filesystem has been unmounted."""
        try:
            request = os.read(self._device, _BUFFER)
        except OSError as error:
            return error.errno != errno.ENODEV
        _, opcode, unique, *_ = _IN_HEADER.unpack_from(request)
        if opcode == _INTERRUPT and self._killable:
            self._interrupt(struct.unpack_from("<Q", request, _IN_HEADER.size)[0])
        if opcode in _WITHOUT_REPLY:
            return True
        if self._mode == "hung" and opcode != _INIT:
            self._open.append((opcode, unique))
        else:
            self._consult(opcode)
            self._answer(opcode, unique)
        return True

    def _interrupt(self, unique: int) -> None:
        """The waiter for `unique` has been told to die."""
        for request in [one for one in self._open if one[1] == unique]:
            self._open.remove(request)
            self._reply(unique, error=errno.EINTR)

    def _consult(self, opcode: int) -> None:
        """Do what takes time before an answer: be slow, ask the server."""
        if self._mode == "slow" and opcode == _STATFS:
            time.sleep(self._delay_s)
        while self._through and opcode != _INIT and not _replies(self._through):
            if self._signals:  # they are obeyed before the next request
                return

    def _answer(self, opcode: int, unique: int) -> None:
        if self._mode == "failing" and opcode != _INIT:
            return self._reply(unique, error=self._error)
        body = _FULL if opcode == _STATFS and self._mode == "full" else _ANSWERS.get(opcode)
        if opcode == _LOOKUP:
            return self._reply(unique, error=errno.ENOENT)
        return self._reply(unique, error=errno.ENOSYS) if body is None else self._reply(unique, body)

    def _reply(self, unique: int, body: bytes = b"", *, error: int = 0) -> None:
        try:
            os.write(self._device, _OUT_HEADER.pack(_OUT_HEADER.size + len(body), -error, unique) + body)
        except OSError as failure:
            if failure.errno not in {errno.ENOENT, errno.ENODEV}:  # the waiter has gone
                raise


def _replies(server: tuple[str, int]) -> bool:
    """Whether `server` answers one call; takes _ATTEMPT_S at the most, or as little as a refused connection."""
    deadline = time.monotonic() + _ATTEMPT_S
    try:
        with socket.create_connection(server, timeout=_ATTEMPT_S) as connection:
            connection.sendall(_NULL_CALL)
            return bool(connection.recv(64))
    except OSError:
        time.sleep(min(0.1, max(0.0, deadline - time.monotonic())))
        return False


def _attributes() -> bytes:
    # No caching (validity 0): every stat must reach the server.
    root, size, blocks, seconds = 1, 4096, 8, 1_700_000_000
    mode = stat.S_IFDIR | 0o755
    times = (seconds, seconds, seconds, 0, 0, 0)
    return _ATTR_OUT.pack(0, 0, 0, root, size, blocks, *times, mode, 2, 0, 0, 0, 4096, 0)


_ANSWERS = {
    _INIT: _INIT_OUT.pack(7, 31, 0, 0, 16, 12, 4096, 1, 0, 0, 0),
    _GETATTR: _attributes(),
    _STATFS: _STATFS_OUT.pack(1 << 20, 1 << 19, 1 << 19, 1000, 500, 4096, 255, 4096, 0),
    _OPENDIR: _OPEN_OUT.pack(0, 0, 0),
    _READDIR: b"",
    _RELEASEDIR: b"",
    _DESTROY: b"",
}

_FULL = _STATFS_OUT.pack(1 << 20, 1 << 12, 1 << 12, 1000, 500, 4096, 255, 4096, 0)


def _end_with_parent() -> None:
    """Ask for SIGTERM when the thread that started us ends; the SIGKILL of `with_parent.py` would leave the mount."""
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the kernel knew
        os.kill(os.getpid(), signal.SIGTERM)


@click.command()
@click.option("--mountpoint", type=click.Path(path_type=Path), required=True, help="Directory; made if missing.")
@click.option("--source", required=True, help="What mountinfo shows as source, such as 10.0.0.9:/export.")
@click.option("--error", help="Name of the errno, such as EIO, to fail with from the start (and on SIGHUP).")
@click.option("--later", is_flag=True, help="Be well until SIGHUP, whatever --error says.")
@click.option("--hung", is_flag=True, help="Hang from the start.")
@click.option("--delay", type=float, default=0.0, help="Seconds before statvfs is answered when slow.")
@click.option("--through", metavar="HOST:PORT", help="NFS server that must answer before anything is answered here.")
@click.option("--killable", is_flag=True, help="Let go of a waiter that is told to die.")
@click.option("--end-with-parent", "with_parent", is_flag=True, help="Unmount and stop when the starting process ends.")
def main(
    *,
    mountpoint: Path,
    source: str,
    error: str | None,
    later: bool,
    hung: bool,
    delay: float,
    through: str | None,
    killable: bool,
    with_parent: bool,
) -> None:
    """Serve an empty directory over FUSE, well or badly."""
    if with_parent:
        _end_with_parent()
    number = getattr(errno, error or "ESTALE", None)
    if not isinstance(number, int):
        raise click.BadParameter(f"{error} is not the name of an errno", param_hint="--error")
    mountpoint.mkdir(parents=True, exist_ok=True)
    try:
        mount = FuseMount(
            mountpoint.absolute(), source, number, delay_s=delay, through=_address(through), killable=killable
        )
    except OSError as failure:
        raise click.ClickException(
            f"cannot mount on {mountpoint}: {failure.strerror}; it needs root and /dev/fuse"
        ) from failure
    if hung or (error and not later):
        mount.be("hung" if hung else "failing")
    mount.run()


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise click.BadParameter(f"{text} is not host:port", param_hint="--through")
    return host, int(port)


if __name__ == "__main__":
    main()
