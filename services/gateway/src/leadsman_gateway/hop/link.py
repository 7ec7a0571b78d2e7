"""One long-lived stream to one replica: opened again after every loss, many questions under way at once.

A replica counts only after its Hello. A frozen process keeps its TCP connection, and gRPC keepalive needs the server's
consent, so silence is noticed by asking: an idle link gets an empty question every `PROBE_S` seconds.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import grpc

from leadsman.domain.clock import Clock
from leadsman.domain.errors import LeadsmanError
from leadsman.telemetry.logs import get_logger
from leadsman.v1 import filter_pb2, scorer_pb2
from leadsman.wire.errors import WireError
from leadsman.wire.hop import CHANNEL_OPTIONS, Hello, decode_hello
from leadsman_gateway.hop.metrics import HopMetrics

log = get_logger("gateway.hop")

Question = filter_pb2.FilterRequest | scorer_pb2.ScoreRequest
Reply = filter_pb2.FilterResponse | scorer_pb2.ScoreResponse
Stream = grpc.aio.StreamStreamCall[Any, Any]
OpenStream = Callable[[grpc.aio.Channel], Stream]

HELLO_S = 2.0
"""A replica that has not said hello by then is tried again."""

PROBE_S = 2.0
"""Silence after which an idle link is asked whether it is still there."""

PROBE_ANSWER_S = 1.0
"""Time a replica has to answer such a question."""

_BACKOFF_S = (0.1, 2.0)
_OPTIONS = [
    *CHANNEL_OPTIONS,
    ("grpc.enable_http_proxy", 0),  # the hop stays inside the cluster, whatever HTTP_PROXY says
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel inherits the back-off of the one before
]


class LinkLostError(LeadsmanError):
    """The stream ended before the answer came."""


class ReplicaLink:
    """The stream to the replica at `address` (`host:port`); ready between its Hello and its loss."""

    def __init__(
        self,
        hop: str,
        address: str,
        open_stream: OpenStream,
        question: Callable[[], Question],
        *,
        clock: Clock,
        metrics: HopMetrics,
    ) -> None:
        self.address = address
        self.hello: Hello | None = None
        self.frozen = False
        self.heard_at = 0.0
        self._hop = hop
        self._open = open_stream
        self._question = question
        self._clock = clock
        self._metrics = metrics
        self._on_heard: list[Callable[[str], None]] = []
        self._on_hello: list[Callable[[], None]] = []
        self._pending: dict[int, asyncio.Future[Reply]] = {}
        self._outbox: asyncio.Queue[Question] = asyncio.Queue()
        self._limit: asyncio.Timeout | None = None
        self._last_id = 0
        self._pause = _BACKOFF_S[0]
        self._cause = "never connected"
        self._failing = False

    @property
    def ready(self) -> bool:
        """Whether the replica has said hello on a stream that still stands."""
        return self.hello is not None

    @property
    def instance(self) -> str:
        """What the replica calls itself; empty while not ready."""
        return self.hello.instance if self.hello else ""

    def on_heard(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the instance after every Hello, and whenever an idle link turns out to be well."""
        self._on_heard.append(callback)

    def on_hello(self, callback: Callable[[], None]) -> None:
        """Call `callback` after every Hello, also one that only tells of a change of policy."""
        self._on_hello.append(callback)

    def describe(self) -> str:
        """The link in a few words for people."""
        if self.hello is None:
            return f"{self.address} {self._cause}"
        return f"{self.address} ready, policy {self.hello.policy}{' (frozen)' if self.frozen else ''}"

    def known(self) -> Hello:
        """What the replica said of itself last.

        Raises:
            LinkLostError: the stream is down.
        """
        if self.hello is None:
            raise LinkLostError(f"no stream to {self._hop} replica {self.address}: {self._cause}")
        return self.hello

    async def ask(self, question: Question) -> Reply:
        """The replica's reply to `question`, whose id is set here.

        Raises:
            LinkLostError: the stream is down or ended meanwhile.
        """
        self.known()
        self._last_id += 1
        number = self._last_id
        question.id = number
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[number] = reply
        self._outbox.put_nowait(question)
        try:
            return await reply
        finally:
            self._pending.pop(number, None)

    def drop(self, cause: str) -> None:
        """Give the stream up and begin anew, because the replica does not answer."""
        if self._limit is not None:
            self._detach(cause)
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Eternal: keep a stream open, with growing pauses (jittered) between failed attempts."""
        try:
            while True:
                self._lost(await self._session())
                _obey_cancellation()
                await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
                self._pause = min(self._pause * 2, _BACKOFF_S[1])
        finally:
            self._detach("shutting down")

    async def _session(self) -> str:
        """One stream from opening to loss; the cause of the loss."""
        self._outbox = asyncio.Queue()
        self._cause = "no hello"
        channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        try:
            async with asyncio.timeout(HELLO_S) as limit:
                stream = self._open(channel)
                if not self._greet(await stream.read()):
                    return "no hello"
                limit.reschedule(None)
                self._limit = limit
                return await self._listen(stream)
        except TimeoutError:
            return self._cause
        except grpc.aio.AioRpcError as error:
            return error.code().name.lower()
        except WireError as error:
            return self._misunderstood(error)
        finally:
            self._limit = None
            await channel.close()

    def _greet(self, reply: Reply | object) -> bool:
        if not isinstance(reply, Reply) or reply.WhichOneof("answer") != "hello":
            return False
        self._note(reply)
        self.frozen = reply.frozen
        self.heard_at = self._clock.monotonic()
        self._failing = False
        self._pause = _BACKOFF_S[0]
        self._metrics.links_ready.labels(self._hop).inc()
        log.info("replica linked", hop=self._hop, address=self.address, instance=self.instance)
        self._tell()
        return True

    def _note(self, reply: Reply) -> None:
        self.hello = decode_hello(reply.hello)
        for callback in self._on_hello:
            callback()

    def _misunderstood(self, error: WireError) -> str:
        """A replica of a newer version, or none of ours."""
        if not self._failing:
            log.warning("hello not understood", hop=self._hop, address=self.address, error=str(error))
        return "bad hello"

    async def _listen(self, stream: Stream) -> str:
        """Hand out replies until the stream ends, and ask now and then while it is silent; why it ended."""
        async with asyncio.TaskGroup() as group:
            companions = [
                group.create_task(self._send(stream), name=f"send to {self.address}"),
                group.create_task(self._probe(), name=f"probe {self.address}"),
            ]
            try:
                while isinstance(reply := await stream.read(), Reply):
                    self._take(reply)
            except grpc.aio.AioRpcError as error:
                return error.code().name.lower()
            except WireError as error:
                return self._misunderstood(error)
            finally:
                for companion in companions:
                    companion.cancel()
        return "stream closed"

    def _take(self, reply: Reply) -> None:
        self.heard_at = self._clock.monotonic()
        self.frozen = reply.frozen
        if reply.id == 0 and reply.WhichOneof("answer") == "hello":  # said again when policy has changed
            self._note(reply)
            return
        waiting = self._pending.get(reply.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def _tell(self) -> None:
        for callback in self._on_heard:
            callback(self.instance)

    async def _send(self, stream: Stream) -> None:
        """Write what `ask` queues, one at a time; ends with the stream, whose reader says why."""
        try:
            while True:
                await stream.write(await self._outbox.get())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(PROBE_S)
            if self._clock.monotonic() - self.heard_at < PROBE_S / 2:
                continue
            try:
                async with asyncio.timeout(PROBE_ANSWER_S):
                    reply = await self.ask(self._question())
            except TimeoutError:
                self.drop("silent")
            except LinkLostError:
                return
            else:
                if reply.WhichOneof("answer") is not None:
                    self._tell()

    def _lost(self, cause: str) -> None:
        """Count a failed or ended session; only the first one after a Hello is worth a log line."""
        self._detach(cause)
        self._metrics.failures.labels(self._hop, cause.replace(" ", "_")).inc()
        if not self._failing:
            log.warning("replica out of reach", hop=self._hop, address=self.address, cause=cause)
        self._failing = True

    def _detach(self, cause: str) -> None:
        """Be no longer ready, and fail whatever still waits for this stream."""
        if self.hello is not None:
            self._metrics.links_ready.labels(self._hop).dec()
        self.hello = None
        self.frozen = False
        self._cause = cause
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(LinkLostError(f"{self._hop} replica {self.address} lost: {cause}"))


def _obey_cancellation() -> None:
    """End a task whose cancellation a gRPC call has swallowed, as one does that fails at the same moment."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
