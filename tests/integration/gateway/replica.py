"""One process's worth of filter and scorer on a real gRPC server, whose answers a test scripts."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import grpc

from leadsman.domain.pod_selectors import PodSelector
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.verdicts import Column, FilterAnswer, Rejection, ScoreAnswer
from leadsman.v1 import filter_pb2_grpc, requirements_pb2, scorer_pb2_grpc
from leadsman.v1.filter_pb2 import FilterResponse
from leadsman.v1.scorer_pb2 import ScoreResponse
from leadsman.wire.hop import (
    CHANNEL_OPTIONS,
    encode_filter_answer,
    encode_hello,
    encode_score_answer,
    pack_rejections,
)


@dataclass
class Replica(filter_pb2_grpc.FilterServiceServicer, scorer_pb2_grpc.ScorerServiceServicer):
    """One process's worth of filter and scorer, scripted: what it answers, and whether it answers at all."""

    instance: str = "one"
    generation: int = 1
    rejected: dict[str, Rejection] = field(default_factory=dict)
    shadow: dict[str, Rejection] = field(default_factory=dict)
    dry_run: bool = False
    bad_volumes: dict[str, dict[str, Rejection]] = field(default_factory=dict)
    half_packed: bool = False
    scores: dict[str, int] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    selectors: tuple[PodSelector, ...] = ()
    policy: str = "p1"
    backend_attributes: dict[str, str] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()
    silent: bool = False
    frozen: bool = False
    says_hello: bool = True
    nonsense: bool = False
    port: int = 0
    asked: list[Any] = field(default_factory=list)
    streams: int = 0
    server: grpc.aio.Server | None = None
    going: asyncio.Event = field(default_factory=asyncio.Event)
    streams_to: dict[Any, Any] = field(default_factory=dict)

    async def start(self) -> "Replica":
        self.server = grpc.aio.server(options=[*CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)])
        filter_pb2_grpc.add_FilterServiceServicer_to_server(self, self.server)
        scorer_pb2_grpc.add_ScorerServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self.server.start()
        self.going.set()
        return self

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop(None)
            self.server = None

    async def adopt(self, policy: str, **changes: Any) -> None:
        """Work by another policy from now on, and say so on every stream; generations begin anew."""
        await self.adopt_silently(policy, **changes)
        for response, stream in self.streams_to.items():
            await stream.write(self._hello(response))

    async def adopt_silently(self, policy: str, **changes: Any) -> None:
        """The same, without a word about it yet."""
        self.policy = policy
        for name, value in changes.items():
            setattr(self, name, value)

    @property
    def questions(self) -> list[Any]:
        """What was asked, without the gateway's own 'are you there'."""
        return [question for question in self.asked if question.requirements]

    async def Filter(self, request_iterator: Any, context: Any) -> Any:  # type: ignore[override]  # noqa: N802 - gRPC gives name and type
        await self._serve(request_iterator, context, FilterResponse, self._filter_answer)

    async def Score(self, request_iterator: Any, context: Any) -> Any:  # type: ignore[override]  # noqa: N802 - gRPC gives name and type
        await self._serve(request_iterator, context, ScoreResponse, self._score_answer)

    async def _serve(self, questions: Any, context: Any, response: Any, answer: Any) -> None:
        self.streams += 1
        if not self.says_hello:
            await asyncio.Event().wait()
        self.streams_to[response] = context
        await context.write(self._hello(response))
        async for question in questions:
            self.asked.append(question)
            await self.going.wait()
            if self.silent:
                continue
            head = response(
                id=question.id, generation=self.generation, policy=self.policy, degraded=self.degraded
            ).SerializeToString()
            if self.nonsense:
                await context.write(response.FromString(head))
            elif (question.known_generation, question.policy) == (self.generation, self.policy):
                unchanged = response(unchanged=requirements_pb2.Unchanged())
                if volumes := self._of_volumes(question):
                    unchanged.volumes.CopyFrom(pack_rejections(volumes))
                await context.write(response.FromString(head + unchanged.SerializeToString()))
            else:
                await context.write(response.FromString(head + answer(question).SerializeToString()))

    def _hello(self, response: Any) -> Any:
        policy = SchedulingPolicy(backend_attributes=self.backend_attributes, fingerprint=self.policy)
        return response(hello=encode_hello(self.instance, "0", self.selectors, policy), frozen=self.frozen)

    def _filter_answer(self, question: Any) -> Any:
        shadow = FilterAnswer(self.shadow) if self.shadow else None
        volumes = self._of_volumes(question)
        reply = encode_filter_answer(FilterAnswer(self.rejected, volumes=volumes, shadow=shadow, dry_run=self.dry_run))
        if self.half_packed:
            reply.volumes.reason_index = b""
        return reply

    def _of_volumes(self, question: Any) -> dict[str, Rejection]:
        found: dict[str, Rejection] = {}
        for need in question.requirements:
            found |= self.bad_volumes.get(need.volume, {})
        return found

    def _score_answer(self, _: Any) -> Any:
        nodes, scores = tuple(self.scores), bytes(self.scores.values())
        return encode_score_answer(
            ScoreAnswer(nodes, scores, 5, bytes([10] * len(nodes)), self.columns, dry_run=self.dry_run)
        )
