"""A read-only client of CSI drivers on their unix sockets: fresh channels, plain connects, calls that may hang."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import grpc
import grpc.aio

from leadsman.csi.v1 import csi_pb2_grpc
from leadsman.domain.clock import Clock
from leadsman.domain.errors import LeadsmanError
from leadsman_health_collector.plugins import Plugin

T = TypeVar("T")

Rpc = Callable[["csi_pb2_grpc.NodeAsyncStub"], Awaitable[T]]
"""Asks one thing of a driver's node service."""

_OPTIONS = (
    # Channels share connections and back-off otherwise; each look must see the socket as it is now.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    # A connection that a frozen driver does not greet outlives its channel for this long (20 s by default).
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_receive_message_length", 64 * 1024),
)

_SHOWN_CHARACTERS = 200

UNREADABLE = "its answer cannot be read"
"""What is said of a driver whose message is none of the kind; see `received`."""


class CallFailedError(LeadsmanError):
    """A driver gave no answer to a call; the message says why, in words for people."""


@contextlib.asynccontextmanager
async def open_channel(path: str) -> AsyncIterator[grpc.aio.Channel]:
    """A channel of its own to the unix socket at `path`, closed at the end."""
    channel = grpc.aio.insecure_channel(f"unix:{quote(path)}", options=_OPTIONS)  # gRPC takes it for a URI
    try:
        yield channel
    finally:
        await channel.close()


def connect_error(path: str) -> OSError | None:
    """What keeps a plain connect to `path` from succeeding, None if nothing does.

    gRPC hides all causes behind UNAVAILABLE. Never waits: a listener whose queue is full gives EAGAIN.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        try:
            probe.connect(path)
        except OSError as error:
            return error
    return None


def received(answer: T) -> T | None:
    """`answer` of a stub as it may be: None if the message cannot be read, whatever the stub's type promises."""
    return answer


def shown(text: str) -> str:
    """Words of a driver as part of a message: one short line of printable characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * _SHOWN_CHARACTERS]).split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


@dataclass(frozen=True, slots=True)
class _Out:
    """A call that has not come back yet."""

    plugin: Plugin
    since: float
    task: asyncio.Task[object]


class PatientCalls:
    """Calls of csi.v1.Node that may hang in a driver: at most one is out per driver, and it is left to end by itself.

    To cancel it would not free the driver's thread that waits for storage, and to ask again would take another one,
    until the driver has none left (ceph/ceph-csi#4200). A call also ends when the driver's process does, and it is
    given up when another process has taken the driver's socket.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._out: dict[str, _Out] = {}

    async def call(self, plugin: Plugin, rpc: Rpc[T], within_s: float) -> T:
        """The answer of `plugin` to what `rpc` asks its stub.

        Raises:
            CallFailedError: it failed, its answer cannot be read, it was given up, it has not come back within
                `within_s` seconds, or an earlier one has not.
        """
        self.check(plugin)
        self._give_up(plugin.driver)
        task = asyncio.create_task(_complete(plugin.socket, rpc))
        task.add_done_callback(_retrieve)
        mine = self._out[plugin.driver] = _Out(plugin, self._clock.monotonic(), task)
        await asyncio.wait({task}, timeout=within_s)
        if not task.done():
            raise CallFailedError(f"no answer within {within_s:g} s; it is not asked again before it has answered")
        if self._out.get(plugin.driver) is mine:  # else it was given up, and another one may be out by now
            del self._out[plugin.driver]
        return _answer(task)

    def check(self, plugin: Plugin) -> None:
        """Do nothing if `plugin` can be called now.

        Raises:
            CallFailedError: an earlier call to the same process has not come back.
        """
        out = self._out.get(plugin.driver)
        if out and not out.task.done() and out.plugin.instance == plugin.instance:
            seconds = self._clock.monotonic() - out.since
            raise CallFailedError(f"an earlier call has not come back for {seconds:.0f} s")

    def keep(self, drivers: frozenset[str]) -> None:
        """Give up calls to drivers that are not among `drivers` (any more)."""
        for driver in self._out.keys() - drivers:
            self._give_up(driver)

    def _give_up(self, driver: str) -> None:
        if out := self._out.pop(driver, None):
            out.task.cancel()


async def _complete(path: str, rpc: Rpc[T]) -> T:
    async with open_channel(path) as channel:
        return await rpc(csi_pb2_grpc.NodeStub(channel))


def _answer(task: asyncio.Task[T]) -> T:
    """What an ended call has brought."""
    if task.cancelled():
        raise CallFailedError("the call was given up, because the driver has gone or another process serves its socket")
    try:
        answer = received(task.result())
    except grpc.aio.AioRpcError as error:
        raise CallFailedError(f"the call fails with {error.code().name}: {shown(error.details() or '')}") from error
    if answer is None:
        raise CallFailedError(UNREADABLE)
    return answer


def _retrieve(task: asyncio.Task[T]) -> None:
    """A call that fails when nobody waits for it any more is no error of ours."""
    if not task.cancelled():
        task.exception()
