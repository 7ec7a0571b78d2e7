"""Questions to the replicas of one service: the first ready one is kept, the next one takes over inside the deadline.

An answer depends only on what is asked, so it is kept per question with the generation it had; the replica then says
`Unchanged` instead of sending it again. It is kept without the names of volumes, and without the pod's profile while
the replica holds no selectors: pods of one class share one answer. What a reply says of the pod's own volumes, if one
is bad somewhere, is for that pod alone.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from leadsman.domain.clock import Clock
from leadsman.domain.errors import LeadsmanError
from leadsman.domain.requirements import Profile, Requirement
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle
from leadsman.wire.errors import WireError
from leadsman.wire.hop import encode_profile, encode_requirements
from leadsman_gateway.hop.link import LinkLostError, OpenStream, Question, ReplicaLink
from leadsman_gateway.hop.metrics import HopMetrics

log = get_logger("gateway.hop")


class Prepared(Protocol):
    """An answer ready for use."""

    @property
    def size(self) -> int:
        """Nodes named in the answer."""
        ...


A = TypeVar("A", bound=Prepared)
A_co = TypeVar("A_co", covariant=True, bound=Prepared)

MAX_ANSWERS = 256
"""Questions whose answers are kept, least recently used out first."""

MAX_KEPT_NODES = 100_000
"""Nodes in all answers kept; about 300 bytes each with name, score and reply entry."""

_SILENCE_S = 0.2
"""A replica that was silent during a wait at least this long is left."""


class HopUnavailableError(LeadsmanError):
    """No replica gave an answer before the deadline."""


@dataclass(frozen=True, slots=True)
class HopKind(Generic[A]):
    """What differs between the two services behind the gateway.

    `prepare` makes the part of an answer that may be kept, `refine` adds what the same reply says of this pod alone.
    """

    name: str
    open_stream: OpenStream
    question: type[Question]
    prepare: Callable[[Any], A]
    refine: Callable[[A, Any], A]


@dataclass(frozen=True, slots=True)
class Held(Generic[A_co]):
    """An answer, ready for use, and what it is the answer of."""

    instance: str
    generation: int
    answer: A_co


Key = tuple[tuple[Requirement, ...], Any]


class HopClient(Generic[A]):
    """All replicas of one service; `addresses` are `host:port`, in order of preference."""

    def __init__(self, kind: HopKind[A], addresses: Sequence[str], *, clock: Clock, metrics: HopMetrics) -> None:
        self._kind = kind
        self._clock = clock
        self._metrics = metrics
        self._links = [
            ReplicaLink(kind.name, address, kind.open_stream, kind.question, clock=clock, metrics=metrics)
            for address in addresses
        ]
        for link in self._links:
            link.on_heard(self._heard)
        self._current: ReplicaLink | None = None
        self._selected_pods = False
        self._answers: OrderedDict[Key, Held[A]] = OrderedDict()
        self._kept_nodes = 0
        self._on_heard: list[Callable[[str], None]] = []
        self._throttle = Throttle()
        self._seconds = metrics.seconds.labels(kind.name)
        self._full = metrics.answers.labels(kind.name, "full")
        self._unchanged = metrics.answers.labels(kind.name, "unchanged")
        metrics.links_ready.labels(kind.name).set(0)
        metrics.frozen.labels(kind.name).set_function(lambda: float(self.frozen))
        self.ever_linked = asyncio.Event()

    @property
    def linked(self) -> bool:
        """Whether at least one replica is ready."""
        return any(link.ready for link in self._links)

    @property
    def frozen(self) -> bool:
        """Whether the replica in use says that its view of the nodes is frozen; with none in use, whether any does."""
        current = self._current
        if current is not None and current.ready:
            return current.frozen
        return any(link.frozen for link in self._links)

    @property
    def selects_pods(self) -> bool:
        """Whether a replica named pod selectors, so that pods without storage must be asked about, too.

        While no replica is ready, what was last known stands.
        """
        hellos = [link.hello for link in self._links if link.hello is not None]
        if hellos:
            self._selected_pods = any(hello.pod_selectors for hello in hellos)
        return self._selected_pods

    def on_heard(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the instance after every answer in time, also while idle, and after every Hello."""
        self._on_heard.append(callback)

    def describe(self) -> tuple[bool, str]:
        """(At least one replica is ready and none is frozen, words for people); for /readyz?verbose."""
        words = ", ".join(link.describe() for link in self._links) or "no address configured"
        return self.linked and not self.frozen, words

    async def run(self) -> None:
        """Eternal: keep the streams to all replicas."""
        async with asyncio.TaskGroup() as group:
            for link in self._links:
                group.create_task(link.run(), name=f"{self._kind.name} link {link.address}")
            group.create_task(asyncio.Event().wait(), name="for ever, also without an address")

    async def ask(self, profile: Profile, requirements: Iterable[Requirement], deadline: float) -> Held[A]:
        """The answer to `requirements`, by `deadline` on the monotonic clock.

        Raises:
            HopUnavailableError: no replica is ready, or none answered in time.
        """
        started = self._clock.monotonic()
        asked = tuple(requirements)
        needs = tuple(sorted({Requirement(need.driver, need.backend, "", need.read_only) for need in asked}))
        tried: list[ReplicaLink] = []
        while (link := self._choose(tried)) is not None and (left := deadline - self._clock.monotonic()) > 0:
            waiting = sum(1 for other in self._links if other.ready and other not in tried)
            try:
                held = await self._ask_one(link, profile, asked, needs, left / waiting)
            except (TimeoutError, LinkLostError, WireError) as error:
                self._left(link, str(error) or "no answer")
                tried.append(link)
                continue
            self._current = link
            self._seconds.observe(self._clock.monotonic() - started)
            self._heard(held.instance)
            return held
        raise HopUnavailableError(f"no {self._kind.name} answered in time: {self.describe()[1]}")

    def _choose(self, tried: list[ReplicaLink]) -> ReplicaLink | None:
        current = self._current
        if current is not None and current.ready and current not in tried:
            return current
        return next((link for link in self._links if link.ready and link not in tried), None)

    async def _ask_one(
        self,
        link: ReplicaLink,
        profile: Profile,
        asked: tuple[Requirement, ...],
        needs: tuple[Requirement, ...],
        patience: float,
    ) -> Held[A]:
        selects = link.hello is not None and bool(link.hello.pod_selectors)
        key = (needs, _freeze(profile) if selects else None)
        held = self._answers.get(key)
        known = held.generation if held is not None and held.instance == link.instance else 0
        question = self._kind.question(
            profile=encode_profile(profile) if selects else None,
            requirements=encode_requirements(asked),
            known_generation=known,
        )
        instance, asked_at = link.instance, self._clock.monotonic()
        try:
            async with asyncio.timeout(patience):
                reply = await link.ask(question)
        except TimeoutError:
            if patience >= _SILENCE_S and link.heard_at < asked_at:
                link.drop("no answer")
            raise
        try:
            if held is not None and known and reply.WhichOneof("answer") == "unchanged":
                self._unchanged.inc()
            else:
                self._full.inc()
                held = Held(instance, reply.generation, self._kind.prepare(reply))
            answer = self._kind.refine(held.answer, reply)
        except WireError as error:
            self._answered_nonsense(link, error)
            raise
        self._keep(key, held)
        return held if answer is held.answer else replace(held, answer=answer)

    def _keep(self, key: Key, held: Held[A]) -> None:
        before = self._answers.get(key)
        if before is not held:
            self._kept_nodes += held.answer.size - (before.answer.size if before else 0)
            self._answers[key] = held
        self._answers.move_to_end(key)
        while len(self._answers) > MAX_ANSWERS or (self._kept_nodes > MAX_KEPT_NODES and len(self._answers) > 1):
            _, dropped = self._answers.popitem(last=False)
            self._kept_nodes -= dropped.answer.size

    def _answered_nonsense(self, link: ReplicaLink, error: WireError) -> None:
        self._metrics.failures.labels(self._kind.name, "bad_answer").inc()
        if self._throttle.allows(f"nonsense {link.address}", self._clock.monotonic()):
            log.warning("replica answered nonsense", hop=self._kind.name, address=link.address, error=str(error))

    def _left(self, link: ReplicaLink, cause: str) -> None:
        """Say it at most now and then: while a replica is frozen, every call may leave it."""
        if self._throttle.allows(f"left {link.address}", self._clock.monotonic()):
            log.info("replica left", hop=self._kind.name, address=link.address, cause=cause)

    def _heard(self, instance: str) -> None:
        self.ever_linked.set()
        for callback in self._on_heard:
            callback(instance)


def _freeze(profile: Profile) -> Any:  # noqa: ANN401 - only compared and hashed
    return (
        profile.namespace,
        tuple(sorted(profile.labels.items())),
        profile.priority_class,
        tuple(sorted(profile.annotations.items())),
    )
