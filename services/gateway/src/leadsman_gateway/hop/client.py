"""Questions to the replicas of one service: the first ready one is kept, the next one takes over inside the deadline.

An answer depends only on what is asked, so it is kept per question with the generation it had; the replica then says
`Unchanged` instead of sending it again. It is kept without the names of volumes, and of the pod's profile only which
rules match it: pods of one kind share one answer. What a reply says of the pod's own volumes, if one is bad somewhere,
is for that pod alone.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from leadsman.domain.clock import Clock
from leadsman.domain.errors import LeadsmanError
from leadsman.domain.requirements import NOWHERE, Near, Profile, Requirement
from leadsman.telemetry.logs import get_logger
from leadsman.telemetry.throttle import Throttle
from leadsman.wire.errors import WireError
from leadsman.wire.hop import Hello, encode_profile, encode_requirements
from leadsman_gateway.hop.kept import A, A_co, AnswerKey, Kept, KeptAnswers
from leadsman_gateway.hop.link import LinkLostError, OpenStream, Question, ReplicaLink, Reply
from leadsman_gateway.hop.metrics import HopMetrics

log = get_logger("gateway.hop")

_SILENCE_S = 0.2
"""A replica that was silent during a wait at least this long is left."""


class HopUnavailableError(LeadsmanError):
    """No replica gave an answer before the deadline."""


@dataclass(frozen=True, slots=True)
class HopKind(Generic[A]):
    """What differs between the two services behind the gateway.

    `prepare` makes the part of an answer that may be kept, `refine` adds what the same reply says of this pod alone.
    `cares_where` is whether an answer depends on where the pod's data is.
    """

    name: str
    open_stream: OpenStream
    question: Callable[..., Question]
    prepare: Callable[[Any], A]
    refine: Callable[[A, Any], A]
    cares_where: bool = False


@dataclass(frozen=True, slots=True)
class Held(Generic[A_co]):
    """An answer, ready for use: of which replica, under which policy, and what that replica cannot do as it should."""

    instance: str
    generation: int
    answer: A_co
    policy: str = ""
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be known about one pod; `needs` are its requirements without the names of volumes."""

    profile: Profile
    requirements: tuple[Requirement, ...]
    needs: tuple[Requirement, ...]
    near: Near

    def key(self, hello: Hello) -> AnswerKey:
        return AnswerKey(self.needs, hello.policy, hello.selectors.matching(self.profile), self.near)


class _Exchange(NamedTuple, Generic[A]):
    """One question to one replica and its reply: by which Hello was asked, and which answer the replica was told of."""

    hello: Hello
    key: AnswerKey
    kept: Kept[A] | None
    reply: Reply


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
        self._last_hellos: list[Hello] = []
        self._answers: KeptAnswers[A] = KeptAnswers()
        self._on_heard: list[Callable[[str], None]] = []
        self._throttle = Throttle()
        self._seconds = metrics.seconds.labels(kind.name)
        self._full = metrics.answers.labels(kind.name, "full")
        self._unchanged = metrics.answers.labels(kind.name, "unchanged")
        metrics.links_ready.labels(kind.name).set(0)
        metrics.frozen.labels(kind.name).set_function(lambda: float(self.frozen))
        self.ever_linked = asyncio.Event()

    @property
    def name(self) -> str:
        """`filter` or `scorer`."""
        return self._kind.name

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
    def policies(self) -> dict[str, str]:
        """Address of each ready replica to the fingerprint of its policy."""
        return {link.address: link.hello.policy for link in self._links if link.hello is not None}

    @property
    def backend_attributes(self) -> Mapping[str, str]:
        """What the policy of the first ready replica says that names the backends of drivers."""
        hellos = self._hellos()
        return hellos[0].backend_attributes if hellos else {}

    def selects(self, profile: Profile) -> bool:
        """Whether a rule of any replica touches such a pod, so that it must be asked about even without storage."""
        for hello in self._hellos():  # noqa: SIM110 - a plain loop: every pod passes here, and most policies are short
            if hello.selectors.matching(profile):
                return True
        return False

    def on_hello(self, callback: Callable[[], None]) -> None:
        """Call `callback` after every Hello, also one that only tells of a change of policy."""
        for link in self._links:
            link.on_hello(callback)

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

    async def ask(
        self, profile: Profile, requirements: Iterable[Requirement], deadline: float, near: Near = NOWHERE
    ) -> Held[A]:
        """The answer for a pod, by `deadline` on the monotonic clock.

        Raises:
            HopUnavailableError: no replica is ready, or none answered in time.
        """
        started = self._clock.monotonic()
        requirements = tuple(requirements)
        needs = tuple(sorted({Requirement(need.driver, need.backend, "", need.read_only) for need in requirements}))
        asked = _Asked(profile, requirements, needs, near if self._kind.cares_where else NOWHERE)
        tried: list[ReplicaLink] = []
        while (link := self._choose(tried)) is not None and (left := deadline - self._clock.monotonic()) > 0:
            waiting = sum(1 for other in self._links if other.ready and other not in tried)
            try:
                held = await self._ask_one(link, asked, left / waiting)
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

    async def _ask_one(self, link: ReplicaLink, asked: _Asked, patience: float) -> Held[A]:
        asked_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(patience):
                exchange = await self._exchange(link, asked)
        except TimeoutError:
            if patience >= _SILENCE_S and link.heard_at < asked_at:
                link.drop("no answer")
            raise
        try:
            return self._read(exchange)
        except WireError as error:
            self._answered_nonsense(link, error)
            raise

    async def _exchange(self, link: ReplicaLink, asked: _Asked) -> _Exchange[A]:
        """The reply to a question; to a second one if the policy has changed on the way.

        By the new policy other rules may match the pod, and by traits of it that have not been sent.
        """
        while True:
            hello = link.known()
            key = asked.key(hello)
            kept = self._answers.get(key, hello.instance)
            reply = await link.ask(self._question(asked, hello, kept.generation if kept else 0))
            if reply.policy == hello.policy or link.hello is hello:
                return _Exchange(hello, key, kept, reply)

    def _question(self, asked: _Asked, hello: Hello, known_generation: int) -> Question:
        places = {"near_zones": asked.near.zones, "near_regions": asked.near.regions} if self._kind.cares_where else {}
        return self._kind.question(
            profile=encode_profile(_visible(asked.profile, hello)) if hello.selectors.selectors else None,
            requirements=encode_requirements(asked.requirements),
            known_generation=known_generation,
            policy=hello.policy,
            **places,
        )

    def _read(self, exchange: _Exchange[A]) -> Held[A]:
        hello, key, kept, reply = exchange
        same_policy = reply.policy == hello.policy
        if kept is not None and same_policy and reply.WhichOneof("answer") == "unchanged":
            self._unchanged.inc()
        else:
            self._full.inc()
            kept = Kept(hello.instance, reply.generation, self._kind.prepare(reply))
        answer = self._kind.refine(kept.answer, reply)
        if same_policy:
            self._answers.put(key, kept)
        return Held(hello.instance, kept.generation, answer, reply.policy, tuple(reply.degraded))

    def _hellos(self) -> list[Hello]:
        """Of all ready replicas, in order of preference; while none is ready, what was last known stands."""
        ready = [link.hello for link in self._links if link.hello is not None]
        if ready:
            self._last_hellos = ready
        return self._last_hellos

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


def _visible(profile: Profile, hello: Hello) -> Profile:
    """The traits of a pod that cross the hop: of its annotations only those that a selector names."""
    annotations = profile.annotations
    named = {key: annotations[key] for key in hello.selectors.annotations if key in annotations}
    return Profile(profile.namespace, profile.labels, profile.priority_class, named)
