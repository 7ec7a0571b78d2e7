"""The gateway-facing half of filter and scorer: one long-lived stream per gateway, answered from memory.

Requests are answered one after another, and the next one is read only when the reply has been handed to the
transport, so that a gateway that stops reading costs one reply's memory and nothing more. When the policy changes,
every stream gets a new Hello.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.report import StorageKey, VolumeKey
from leadsman.domain.requirements import Near, Needs, Question, Requirement
from leadsman.runtime.hop.answers import AnswerCache, Volumes
from leadsman.runtime.hop.view import View
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.version import version
from leadsman.v1 import requirements_pb2
from leadsman.wire.errors import WireError
from leadsman.wire.hop import decode_profile, encode_hello

MAX_NEEDS = 256
"""Distinct (driver, backend) pairs in one request; no pod has so many volumes."""

_BUCKETS = (10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 50e-3, 0.2)

log = get_logger("hop")
T = TypeVar("T")


class Request(Protocol):
    """What FilterRequest and ScoreRequest have in common, as far as it is used here."""

    id: int
    known_generation: int
    policy: str

    @property
    def profile(self) -> requirements_pb2.Profile:
        """The pod's traits."""
        ...

    @property
    def requirements(self) -> Any:  # noqa: ANN401 - the container type is protobuf's own
        """Repeated `leadsman.v1.Requirement`."""
        ...


def nowhere(_: Any) -> Near:  # noqa: ANN401 - any request
    """For a service to which it does not matter where a pod's data is."""
    return Near()


@dataclass(frozen=True, slots=True)
class HopMethod:
    """One streaming method: its names on the wire, and how to read a request and begin a response."""

    component: str
    service: str
    method: str
    parse: Callable[[bytes], Request]
    response: Callable[..., Message]
    near: Callable[[Any], Near] = nowhere


@dataclass(slots=True)
class InForce:
    """The policy in force and what the service makes of it; replaced as one."""

    policy: SchedulingPolicy
    view: View


class HopService:
    """Answers the streams of all gateways; no Hello before `opened` is set, when this replica is fit to answer.

    `index` is asked whether single volumes are bad, and `volumes` says what they add to an answer, if they mean
    anything. `instance` names this start of the process, `frozen` tells whether the cache stands still, `degraded` what
    else is not as it should be. A request that cannot be answered gets a response without an answer, or none if it has
    no readable id; either way it is counted and the stream goes on.
    """

    def __init__(
        self,
        method: HopMethod,
        in_force: InForce,
        answers: AnswerCache[Question],
        *,
        index: HealthIndex,
        volumes: AnswerCache[Volumes] | None = None,
        opened: asyncio.Event,
        instance: str,
        frozen: Callable[[], bool],
        degraded: Callable[[], list[str]],
        registry: CollectorRegistry,
    ) -> None:
        self._method = method
        self._in_force = in_force
        self._answers = answers
        self._index = index
        self._volumes = volumes
        self._frozen = frozen
        self._degraded = degraded
        self._instance = instance
        self._waiting: set[asyncio.Task[Any]] = set()
        self._greeters: set[asyncio.Event] = set()
        self._streams = 0
        self._opened = opened
        self._draining = asyncio.Event()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._measure(registry)

    def handler(self) -> grpc.GenericRpcHandler:
        """What the gRPC server serves. Messages cross it as bytes: answers are encoded already."""
        return grpc.method_handlers_generic_handler(
            self._method.service, {self._method.method: grpc.stream_stream_rpc_method_handler(self._stream)}
        )

    def say_hello_again(self) -> None:
        """Tell every open stream about the policy that is in force now."""
        for due in self._greeters:
            due.set()

    async def drain(self, within_s: float) -> None:
        """End every stream once the request in work is answered; gives up on slow readers after `within_s`."""
        self._draining.set()
        for task in list(self._waiting):
            task.cancel()
        try:
            async with asyncio.timeout(within_s):
                await self._all_closed.wait()
        except TimeoutError:
            log.info("streams cut short", open=self._streams)

    def reply(self, body: bytes) -> bytes | None:
        """The response to one request, both encoded; None if the request cannot be read at all."""
        started = time.perf_counter()
        try:
            request = self._method.parse(body)
        except DecodeError:
            self._count("malformed")
            return None
        try:
            response = self._answer(request)
        except WireError as error:
            self._count("malformed")
            log.debug("request cannot be answered", error=str(error))
            return self._method.response(id=request.id).SerializeToString()
        except Exception:  # the guard of the stream: a bug in one answer must not end all the others
            self._count("failed")
            log.exception("answer failed; please report this bug")
            return self._method.response(id=request.id).SerializeToString()
        self._seconds.observe(time.perf_counter() - started)
        return response

    def _answer(self, request: Request) -> bytes:
        answer = self._answers.get(self._question(request))
        # Protobuf messages join by concatenation; the payload was encoded when it changed.
        same_policy = request.policy == self._in_force.policy.fingerprint
        if request.known_generation == answer.generation and same_policy:
            self._unchanged.inc()
            header = self._header(request, answer.generation, unchanged=requirements_pb2.Unchanged())
            return header + self._of_volumes(request)
        self._answered.inc()
        return self._header(request, answer.generation) + answer.payload + self._of_volumes(request)

    def _question(self, request: Request) -> Question:
        view = self._in_force.view
        rules = view.selectors.matching(decode_profile(request.profile)) if view.selectors.selectors else ()
        return view.simplified(Question(needs_of(request), rules, self._method.near(request)))

    def _of_volumes(self, request: Request) -> bytes:
        """What the request's own volumes add to its answer; those that are well everywhere cost a look-up."""
        if self._volumes is None or not (bad := self._index.volumes()):
            return b""
        volumes = {
            Requirement(need.driver, need.backend, need.volume)
            for need in request.requirements
            if VolumeKey(need.driver, need.volume) in bad
        }
        return self._volumes.get(tuple(sorted(volumes))).payload if volumes else b""

    def _header(self, request: Request, generation: int, **answer: Message) -> bytes:
        return self._method.response(
            id=request.id,
            generation=generation,
            frozen=self._frozen(),
            policy=self._in_force.policy.fingerprint,
            degraded=self._degraded(),
            **answer,
        ).SerializeToString()

    def _hello(self) -> bytes:
        selectors = self._in_force.view.selectors
        hello = encode_hello(self._instance, version(), selectors.selectors, self._in_force.policy)
        return self._method.response(hello=hello, frozen=self._frozen()).SerializeToString()

    async def _stream(self, _: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        self._streams += 1
        self._all_closed.clear()
        try:
            if await self._wait(self._opened.wait):
                await self._serve(context)
        finally:
            self._streams -= 1
            if not self._streams:
                self._all_closed.set()

    async def _serve(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        turn = asyncio.Lock()  # a stream takes one message at a time
        due = asyncio.Event()
        self._greeters.add(due)
        await context.write(self._hello())
        greeter = asyncio.create_task(self._greet_again(context, turn, due), name="hello")
        try:
            while isinstance(body := await self._wait(context.read), bytes):  # else EOF, or we are draining
                response = self.reply(body)
                if response is not None:
                    async with turn:
                        await context.write(response)
        finally:
            self._greeters.discard(due)
            greeter.cancel()
            await asyncio.wait({greeter})
            if not greeter.cancelled() and (error := greeter.exception()):
                log.debug("a stream ended before its hello", error=repr(error))

    async def _greet_again(
        self, context: grpc.aio.ServicerContext[bytes, bytes], turn: asyncio.Lock, due: asyncio.Event
    ) -> None:
        while True:
            await due.wait()
            due.clear()
            async with turn:
                await context.write(self._hello())

    async def _wait(self, begin: Callable[[], Awaitable[T]]) -> T | None:
        """What an idle stream waits for; None if `drain` ended the wait."""
        task = asyncio.current_task()
        if self._draining.is_set() or task is None:
            return None
        self._waiting.add(task)
        try:
            return await begin()
        except asyncio.CancelledError:
            if self._draining.is_set():
                return None
            raise
        finally:
            self._waiting.discard(task)

    def _measure(self, registry: CollectorRegistry) -> None:
        name = f"leadsman_{self._method.component}"
        self._requests = Counter(
            f"{name}_requests_total", "Requests of gateways, by outcome.", ["outcome"], registry=registry
        )
        self._answered = self._requests.labels("answered")
        self._unchanged = self._requests.labels("unchanged")
        for outcome in ("malformed", "failed"):
            self._requests.labels(outcome)
        self._seconds = Histogram(
            f"{name}_request_seconds",
            "Time from a request's bytes to its response's bytes.",
            buckets=_BUCKETS,
            registry=registry,
        )
        for suffix, words, value in (
            ("streams", "Open streams of gateways.", lambda: self._streams),
            ("answers", "Encoded answers kept, one for each set of needs.", lambda: len(self._answers)),
            ("answers_bytes", "Size of the encoded answers kept.", lambda: self._answers.size_bytes),
        ):
            Gauge(f"{name}_{suffix}", words, registry=registry).set_function(value)

    def _count(self, outcome: str) -> None:
        self._requests.labels(outcome).inc()


def needs_of(request: Request) -> Needs:
    """The needs of a request, sorted and without repeats.

    Raises:
        WireError: a requirement names no driver, or there are too many.
    """
    needs = {StorageKey(need.driver, need.backend) for need in request.requirements}
    if len(needs) > MAX_NEEDS:
        raise WireError(f"a request with {len(needs)} storages, over the limit of {MAX_NEEDS}")
    if any(not need.driver for need in needs):
        raise WireError("a requirement without a driver")
    return tuple(sorted(needs))
