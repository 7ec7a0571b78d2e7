"""Questions and answers that cross on one stream, in an order that a test chooses."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.clock import SystemClock
from leadsman.domain.reasons import Reason
from leadsman.domain.requirements import Profile, Requirement
from leadsman.domain.verdicts import FilterAnswer, Rejection
from leadsman.testing.waiting import eventually
from leadsman.v1 import requirements_pb2
from leadsman.v1.filter_pb2 import FilterRequest, FilterResponse
from leadsman.wire.hop import encode_filter_answer
from leadsman_gateway.hop.answers import FilterTable
from leadsman_gateway.hop.client import HopClient
from leadsman_gateway.hop.kinds import FILTER
from leadsman_gateway.hop.metrics import HopMetrics

HUNG = Rejection(Reason.MOUNT_HUNG, "a.csi")


class Stream:
    """The replica's end of a stream."""

    def __init__(self) -> None:
        self.asked: list[FilterRequest] = []
        self.replies: asyncio.Queue[FilterResponse] = asyncio.Queue()
        self.replies.put_nowait(FilterResponse(hello=requirements_pb2.Hello(instance="one")))

    async def read(self) -> FilterResponse:
        return await self.replies.get()

    async def write(self, question: FilterRequest) -> None:
        self.asked.append(question)

    def reply(self, question: FilterRequest, node: str, generation: int) -> None:
        answer = encode_filter_answer(FilterAnswer({node: HUNG}))
        answer.id, answer.generation = question.id, generation
        self.replies.put_nowait(answer)


@pytest.fixture
async def stream() -> Stream:
    """A stream to a replica."""
    return Stream()


@pytest.fixture
async def client(stream: Stream) -> AsyncIterator[HopClient[FilterTable]]:
    """A client whose only replica is at the other end of `stream`."""
    opened: Any = stream
    kind = replace(FILTER, open_stream=lambda _: opened)
    made = HopClient(kind, ["127.0.0.1:1"], clock=SystemClock(), metrics=HopMetrics(CollectorRegistry()))
    running = asyncio.create_task(made.run())
    await eventually("the replica is ready", lambda: made.linked)
    yield made
    running.cancel()
    await asyncio.wait({running})


async def test_unchanged_is_about_the_answer_that_was_offered(
    client: HopClient[FilterTable], stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although that one has been forgotten meanwhile, because too many others came."""
    monkeypatch.setattr("leadsman_gateway.hop.kept.MAX_ANSWERS", 1)

    def ask(driver: str) -> asyncio.Task[list[str]]:
        async def failed() -> list[str]:
            held = await client.ask(Profile(), [Requirement(driver)], asyncio.get_running_loop().time() + 5)
            return list(held.answer.failed(["n1", "n2"]).all)

        return asyncio.create_task(failed())

    async def asked(count: int) -> FilterRequest:
        return (await eventually("the question", lambda: stream.asked[count - 1 : count]))[0]

    first = ask("a.csi")
    stream.reply(await asked(1), "n1", generation=7)
    assert await first == ["n1"]
    again = ask("a.csi")
    offered = await asked(2)
    other = ask("b.csi")
    stream.reply(await asked(3), "n2", generation=8)
    assert await other == ["n2"]

    stream.replies.put_nowait(FilterResponse(id=offered.id, generation=7, unchanged=requirements_pb2.Unchanged()))

    assert offered.known_generation == 7
    assert await again == ["n1"]
