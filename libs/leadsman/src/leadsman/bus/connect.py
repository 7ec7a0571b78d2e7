"""A connection to NATS that is always being kept or rebuilt, and never waited for.

How a dead bus is noticed: the socket's end is seen at once; a server that hangs fails to answer our PING within
`pong_timeout_s`, and the connection is given up. Ages stop even earlier, `silence_grace_s` after the last proof of
life. Either way a new client is built, subscriptions are sent first, then the `on_connect` callbacks run.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from prometheus_client import CollectorRegistry

from leadsman.bus.client import ClientHooks, OneConnectionClient, close_client, kind_of, nobody_answers, open_client
from leadsman.bus.errors import NoAnswerError, NotConnectedError
from leadsman.bus.link import LinkTime
from leadsman.bus.metrics import BusMetrics
from leadsman.bus.settings import BusSettings
from leadsman.domain.clock import Clock, SystemClock
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle

__all__ = ["Bus", "BusSettings"]

log = get_logger("bus")

_FRAMING_BYTES = 512
_CALLBACK_LIMIT_S = 5.0

Handler = Callable[[Msg], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Registration:
    subject: str
    handler: Handler


class Bus:
    """One process's connection to NATS. `run` is its life; everything else may be called before, during and after.

    `link` is the time base for ages; `clock` must be the one that readers of `link` use.
    """

    def __init__(self, settings: BusSettings, registry: CollectorRegistry, *, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.link = LinkTime(settings.silence_grace_s, self.clock.monotonic())
        self._settings = settings
        self._metrics = BusMetrics(registry)
        self._registrations: list[_Registration] = []
        self._on_connect: list[Callable[[], Awaitable[None]]] = []
        self._client: Client | None = None
        self._answers: set[asyncio.Future[None]] = set()
        self._throttle = Throttle()
        self._closing = False
        self._failing = False

    @property
    def connected(self) -> bool:
        """Whether a client is connected and its subscriptions have been sent."""
        return self._client is not None and self._client.is_connected

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers, without user names, passwords or tokens."""
        return self._settings.safe_urls

    def on_connect(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call `callback` after every connect, in order of registration; it should only note that it happened."""
        self._on_connect.append(callback)

    async def subscribe(self, subject: str, callback: Handler) -> None:
        """Deliver messages on `subject` to `callback`, now and on every later connection."""
        registration = _Registration(subject, callback)
        self._registrations.append(registration)
        if self._client is not None:
            with contextlib.suppress(nats.errors.Error):  # a lost client; the next one gets every registration
                await self._send_subscription(self._client, registration)

    async def publish(self, subject: str, body: bytes) -> bool:
        """Hand one message to NATS without waiting for anything.

        False when it was not handed over: not connected, too much waits already, or NATS does not take such a
        message. Never raises; a counter tells what happened.
        """
        result = await self._publish(subject, body)
        self._metrics.published[result].inc()
        return result == "sent"

    async def request(self, subject: str, body: bytes = b"", *, timeout_s: float = 2.0) -> Msg:
        """The first answer to `body` on `subject`.

        Raises:
            NotConnectedError: no connection, or it was lost meanwhile.
            NoAnswerError: nobody answers, or not within `timeout_s`.
        """
        answers: list[Msg] = []

        def keep(msg: Msg) -> bool:
            answers.append(msg)
            return True

        await self.collect(subject, body, keep, timeout_s=timeout_s)
        return answers[0]

    async def collect(
        self, subject: str, body: bytes, on_answer: Callable[[Msg], bool], *, timeout_s: float = 5.0
    ) -> None:
        """Send `body` to `subject` and feed every answer to `on_answer` until it returns True.

        Raises:
            NotConnectedError, NoAnswerError: as `request`. Whatever `on_answer` raises ends the call too.
        """
        client = self._client
        if client is None or not client.is_connected:
            raise NotConnectedError(f"not connected to NATS at {self._settings.shown_urls}")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers.add(done)
        inbox: Subscription | None = None
        try:
            async with asyncio.timeout(timeout_s):
                inbox = await client.subscribe(client.new_inbox(), cb=self._answer_handler(subject, on_answer, done))
                await client.publish(subject, body, reply=inbox.subject)
                await done
        except TimeoutError:
            raise NoAnswerError(f"no answer on {subject} within {timeout_s:g} s") from None
        except nats.errors.Error as error:
            raise NotConnectedError(f"the connection to NATS was lost while asking {subject}: {error}") from error
        finally:
            self._answers.discard(done)
            if inbox is not None:
                with contextlib.suppress(nats.errors.Error):
                    await inbox.unsubscribe()

    async def run(self) -> None:
        """Connect, stay connected, and start again after every loss; returns only by cancellation."""
        keeping = asyncio.create_task(self._keep_connected(), name="bus: keep connected")  # ended below
        try:
            await asyncio.wait({keeping})
            keeping.result()
            await asyncio.get_running_loop().create_future()  # closed; eternal tasks do not return
        finally:
            self._closing = True
            await _end(keeping, patience_s=3.0)

    async def close(self) -> None:
        """Drain and close, within about five seconds; `run` makes no new connection afterwards."""
        self._closing = True
        if self._client is not None:
            await close_client(self._client, drain_s=5.0)

    async def _publish(self, subject: str, body: bytes) -> str:
        client = self._client
        if client is None or not client.is_connected:
            return "not_connected"
        # Above its limit nats-py waits for the socket, so we must never reach it.
        if client.pending_data_size + len(body) + _FRAMING_BYTES > self._settings.pending_bytes:
            return "buffer_full"
        try:
            await client.publish(subject, body)
        except (nats.errors.Error, OSError) as error:
            if self._throttle.allows("publish", self.clock.monotonic()):
                log.warning("NATS takes no message", subject=subject, bytes=len(body), error=str(error))
            return "refused"
        return "sent"

    async def _keep_connected(self) -> None:
        while not self._closing:
            await self._one_connection()
            if not self._closing:
                await asyncio.sleep(random.uniform(0.02, max(0.02, self._settings.reconnect_jitter_s)))  # noqa: S311

    async def _one_connection(self) -> None:
        lost = asyncio.Event()
        client = OneConnectionClient()
        was_up = False
        try:
            await open_client(client, self._settings, ClientHooks(self._on_error, lost.set))
            if not self._closing:
                await self._activate(client)
                was_up = True
                await self._stay(client, lost)
        except Exception as error:  # this task must never end; nats-py raises anything for a bad credentials file
            self._failed(error)
        finally:
            self._deactivate(client, was_up=was_up)
            await close_client(client, drain_s=0.0 if lost.is_set() else 2.0)

    async def _activate(self, client: Client) -> None:
        for registration in self._registrations:  # also finds what is added while we wait
            await self._send_subscription(client, registration)
        self._client = client
        self.link.resumed(self.clock.monotonic())
        self._metrics.connected.set(1)
        self._metrics.connects.inc()
        self._failing = False
        log.info("connected to NATS", url=self._settings.shown_urls, name=self._settings.name)
        for callback in self._on_connect:
            await self._guarded(_limited(callback))

    def _deactivate(self, client: Client, *, was_up: bool) -> None:
        if self._client is client:
            self._client = None
            self.link.lost(self.clock.monotonic())
            self._metrics.connected.set(0)
            self._metrics.disconnects.inc()
        for answer in list(self._answers):
            if not answer.done():
                answer.set_exception(NotConnectedError("the connection to NATS was lost before the answer came"))
        if was_up and not self._closing:
            log.warning("lost NATS, connecting again", url=self._settings.shown_urls, error=str(client.last_error))

    def _failed(self, error: Exception) -> None:
        self._metrics.failed_attempts.inc()
        write = log.debug if self._failing else log.warning
        write("cannot connect to NATS, trying on", url=self._settings.shown_urls, error=str(error) or repr(error))
        self._failing = True

    async def _stay(self, client: Client, lost: asyncio.Event) -> None:
        if self._closing:
            return
        pinging = asyncio.create_task(self._ping(client, lost), name="bus: ping")  # ended below
        try:
            await lost.wait()
        finally:
            await _end(pinging, patience_s=0.05)

    async def _ping(self, client: Client, lost: asyncio.Event) -> None:
        try:
            while client.is_connected:
                round_trip = await client.rtt(timeout=self._settings.pong_timeout_s)  # type: ignore[arg-type]
                self.link.heard(self.clock.monotonic())
                self._metrics.round_trip.set(round_trip)
                await asyncio.sleep(self._settings.ping_interval_s)
        except (nats.errors.Error, OSError) as error:
            log.info("NATS does not answer a PING", url=self._settings.shown_urls, error=str(error))
        lost.set()

    async def _send_subscription(self, client: Client, registration: _Registration) -> None:
        async def deliver(msg: Msg) -> None:
            self.link.heard(self.clock.monotonic())
            await self._guarded(registration.handler(msg))

        await client.subscribe(registration.subject, cb=deliver)

    def _answer_handler(self, subject: str, on_answer: Callable[[Msg], bool], done: asyncio.Future[None]) -> Handler:
        async def deliver(msg: Msg) -> None:
            self.link.heard(self.clock.monotonic())
            if done.done():
                return
            if nobody_answers(msg):
                done.set_exception(NoAnswerError(f"nobody answers on {subject}"))
                return
            try:
                if on_answer(msg):
                    done.set_result(None)
            except Exception as error:  # not swallowed: raised again by `collect`, which waits for `done`
                done.set_exception(error)

        return deliver

    async def _guarded(self, call: Awaitable[None]) -> None:
        try:
            await call
        except (
            Exception
        ):  # a fault in one subscriber must not end nats-py's task that feeds it; counted, with traceback
            self._metrics.errors.labels("handler").inc()
            if self._throttle.allows("handler", self.clock.monotonic()):
                log.exception("a bus callback failed; please report this")

    async def _on_error(self, error: Exception) -> None:
        kind = kind_of(error)
        self._metrics.errors.labels(kind).inc()
        if kind != "connection" and self._throttle.allows(kind, self.clock.monotonic()):
            log.warning("NATS reports an error", kind=kind, error=str(error))


async def _limited(callback: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(_CALLBACK_LIMIT_S):
        await callback()


async def _end(task: asyncio.Task[None], *, patience_s: float) -> None:
    """Cancel `task` until it ends: nats-py, and `asyncio.wait_for` of Python 3.11 below it, can lose a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=patience_s)
