"""The stream to a gateway, over real gRPC: greeted when fit, bounded, and ended without losing an answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field

import grpc
import pytest
from prometheus_client import CollectorRegistry

from leadsman.domain.changes import ChangeCounter
from leadsman.domain.health_index import HealthIndex
from leadsman.domain.pod_selectors import Operator, PodSelector, SelectorSet, Term
from leadsman.domain.policy import SchedulingPolicy
from leadsman.domain.requirements import Question, Requirement
from leadsman.domain.states import State
from leadsman.domain.storage_policy import StoragePolicy
from leadsman.runtime.grpc_server import GrpcServer
from leadsman.runtime.hop.answers import AnswerCache, Volumes
from leadsman.runtime.hop.service import MAX_NEEDS, HopMethod, HopService, InForce
from leadsman.runtime.options import Address
from leadsman.testing.reports import report, status, volume
from leadsman.v1 import filter_pb2, filter_pb2_grpc, requirements_pb2

METHOD = HopMethod(
    "filter", "leadsman.v1.FilterService", "Filter", filter_pb2.FilterRequest.FromString, filter_pb2.FilterResponse
)
Call = grpc.aio.StreamStreamCall[filter_pb2.FilterRequest, filter_pb2.FilterResponse]


class FixedView:
    """Selects pods as a test says; what it answers is the test's affair, too."""

    def __init__(self, index: HealthIndex, *selectors: PodSelector) -> None:
        self.selectors = SelectorSet(selectors)
        self._index = index

    def fill(self) -> Iterator[object]:
        return iter(())

    def simplified(self, question: Question) -> Question:
        return question

    def render(self, question: Question) -> bytes:
        raise NotImplementedError(question)

    def generation(self, question: Question) -> int:
        return self._index.generation(question.needs)

    def close(self) -> None:
        return


@dataclass
class Hop:
    """A server whose answers a test chooses, and a gateway's channel to it."""

    service: HopService
    opened: asyncio.Event
    registry: CollectorRegistry
    channel: grpc.aio.Channel
    payload: Callable[[Question], bytes]
    index: HealthIndex
    in_force: InForce
    degraded: list[str] = field(default_factory=list)
    volumes_asked: list[Volumes] = field(default_factory=list)

    def stream(self) -> Call:
        call: Call = filter_pb2_grpc.FilterServiceStub(self.channel).Filter()
        return call

    def count(self, outcome: str) -> float:
        return self.registry.get_sample_value("leadsman_filter_requests_total", {"outcome": outcome}) or 0.0


@pytest.fixture
async def hop() -> AsyncIterator[Hop]:
    """Open from the start, with empty verdicts."""
    opened, registry = asyncio.Event(), CollectorRegistry()
    opened.set()
    changes = ChangeCounter()
    index = HealthIndex(StoragePolicy(), changes)
    in_force = InForce(SchedulingPolicy(), FixedView(index))

    def of_volumes(volumes: Volumes) -> bytes:
        under_test.volumes_asked.append(volumes)
        return filter_pb2.FilterResponse(volumes=filter_pb2.NodeReasons(nodes="n1")).SerializeToString()

    def render(asked: Question) -> bytes:
        return under_test.payload(asked)

    def generation(asked: Question) -> int:
        return in_force.view.generation(asked)

    service = HopService(
        METHOD,
        in_force,
        AnswerCache(changes, render, generation),
        index=index,
        volumes=AnswerCache(changes, of_volumes, index.generation_of_volumes),
        opened=opened,
        instance="me",
        frozen=lambda: False,
        degraded=lambda: under_test.degraded,
        registry=registry,
    )
    server = GrpcServer(Address("127.0.0.1", 0), METHOD.service, service.handler())
    await server.listen()
    channel = grpc.aio.insecure_channel(str(server.address))
    empty = filter_pb2.FilterResponse(rejected=filter_pb2.NodeReasons()).SerializeToString()
    under_test = Hop(service, opened, registry, channel, lambda _: empty, index, in_force)
    yield under_test
    await channel.close()
    await service.drain(1)
    await server.stop()


async def read(call: Call) -> filter_pb2.FilterResponse:
    async with asyncio.timeout(5):
        reply = await call.read()
    assert isinstance(reply, filter_pb2.FilterResponse)
    return reply


def question(number: int, *drivers: str) -> filter_pb2.FilterRequest:
    needs = [requirements_pb2.Requirement(driver=driver) for driver in drivers]
    return filter_pb2.FilterRequest(id=number, requirements=needs)


def about(number: int, volumes: Iterable[str], known: int = 0) -> filter_pb2.FilterRequest:
    needs = [requirements_pb2.Requirement(driver="nfs", backend="a", volume=name, read_only=True) for name in volumes]
    return filter_pb2.FilterRequest(id=number, requirements=needs, known_generation=known, policy="built-in")


def large_verdict() -> bytes:
    """A megabyte: more than gRPC takes in advance of a reader."""
    return filter_pb2.FilterResponse(rejected=filter_pb2.NodeReasons(nodes="n" * 1_000_000)).SerializeToString()


async def test_a_gateway_is_greeted_when_the_replica_is_fit_to_answer(hop: Hop) -> None:
    """An early stream waits for its Hello, which comes the moment the service opens."""
    hop.opened.clear()
    call = hop.stream()
    hello = asyncio.create_task(read(call))
    done, _ = await asyncio.wait({hello}, timeout=0.2)
    assert not done

    hop.opened.set()
    assert (await hello).hello.instance == "me"
    call.cancel()


async def test_a_bug_in_one_answer_leaves_the_stream_open(hop: Hop) -> None:
    """The question gets a reply without a verdict, the failure is counted, and the next question is answered."""
    good = hop.payload
    hop.payload = lambda needs: good(needs) if "good" in str(needs) else bytes(1 // 0)
    call = hop.stream()
    await read(call)
    for number, driver in ((1, "bad"), (2, "good")):
        await call.write(question(number, driver))

    assert [(reply.id, reply.WhichOneof("answer")) for reply in (await read(call), await read(call))] == [
        (1, None),
        (2, "rejected"),
    ]
    assert (hop.count("failed"), hop.count("answered")) == (1, 1)
    call.cancel()


async def test_a_request_with_absurdly_many_storages_is_malformed(hop: Hop) -> None:
    """It is answered without a verdict and costs no place in the cache."""
    call = hop.stream()
    await read(call)
    await call.write(question(1, *[f"driver-{number}" for number in range(MAX_NEEDS + 1)]))

    assert (await read(call)).WhichOneof("answer") is None
    assert hop.count("malformed") == 1
    assert hop.registry.get_sample_value("leadsman_filter_answers") == 0
    call.cancel()


async def test_only_volumes_that_are_bad_somewhere_are_looked_at(hop: Hop) -> None:
    """Thousands of others share one answer, which a gateway may go on holding; what is said of bad ones is added."""
    for number in range(2000):
        assert hop.service.reply(about(number, [f"pv-{number}"]).SerializeToString())
    assert hop.registry.get_sample_value("leadsman_filter_answers") == 1
    hop.index.apply(report("n1", volumes=[volume("nfs/pv-1"), volume("smb/pv-2")]), 0, 0)

    def ask(*volumes: str, known: int = 0) -> filter_pb2.FilterResponse:
        return filter_pb2.FilterResponse.FromString(
            hop.service.reply(about(7, volumes, known).SerializeToString()) or b""
        )

    well, bad = ask("pv-2", "pv-3"), ask("pv-1", "pv-3")
    assert (well.id, well.WhichOneof("answer"), well.HasField("volumes")) == (7, "rejected", False)
    assert (bad.id, bad.WhichOneof("answer"), bad.volumes.nodes) == (7, "rejected", "n1")
    held = ask("pv-1", known=well.generation)
    assert (held.WhichOneof("answer"), held.generation, held.volumes.nodes) == ("unchanged", well.generation, "n1")
    assert hop.registry.get_sample_value("leadsman_filter_answers") == 1
    assert hop.volumes_asked == [(Requirement("nfs", "a", "pv-1"),)]


async def test_what_a_bad_volume_means_is_worked_out_again_only_when_it_changes(hop: Hop) -> None:
    """Neither other volumes nor other storages matter; the unhealthy nodes of its own storage do."""

    def ask() -> int:
        hop.service.reply(about(7, ["pv-1"]).SerializeToString())
        return len(hop.volumes_asked)

    hop.index.apply(report("n1", volumes=[volume("nfs/pv-1")]), 0, 0)
    assert (ask(), ask()) == (1, 1)
    hop.index.apply(report("n2", status("smb", State.UNHEALTHY), volumes=[volume("nfs/pv-2")]), 0, 0)
    assert ask() == 1
    hop.index.apply(report("n3", volumes=[volume("nfs/pv-1")]), 0, 0)
    assert ask() == 2
    hop.index.apply(report("n3", status("nfs/a", State.UNHEALTHY), volumes=[volume("nfs/pv-1")]), 0, 0)
    assert ask() == 3
    for volumes in ([], [volume("nfs/pv-1")]):
        hop.index.apply(report("n1", volumes=volumes), 0, 0)
        hop.index.apply(report("n3", volumes=volumes), 0, 0)
    assert ask() == 4


GPU = PodSelector(labels=(Term("accelerator", Operator.IN, ("gpu",)),))


async def test_a_new_policy_is_told_to_every_open_stream(hop: Hop) -> None:
    """With its fingerprint, its selectors and the attributes that name backends; replies carry the fingerprint."""
    streams = [hop.stream(), hop.stream()]
    assert [(await read(call)).hello.policy for call in streams] == ["built-in"] * 2
    hop.in_force.policy = SchedulingPolicy(fingerprint="abc", backend_attributes={"nfs": "server"})
    hop.in_force.view = FixedView(hop.index, GPU)
    hop.service.say_hello_again()
    for call in streams:
        said = await read(call)
        assert (said.id, said.hello.instance, said.hello.policy) == (0, "me", "abc")
        assert (len(said.hello.selectors), dict(said.hello.backend_attributes)) == (1, {"nfs": "server"})
        await call.write(question(1, "nfs"))
        assert (await read(call)).policy == "abc"
        call.cancel()


async def test_pods_that_the_rules_tell_apart_have_answers_of_their_own(hop: Hop) -> None:
    """And all others share one, whatever their labels."""
    asked: list[Question] = []
    empty = hop.payload(Question(()))
    hop.payload = lambda one: asked.append(one) or empty  # type: ignore[func-returns-value]
    hop.in_force.view = FixedView(hop.index, PodSelector(namespaces=frozenset({"prod"})), GPU)
    for labels in ({"accelerator": "gpu"}, {"app": "a"}, {"app": "b"}, {}):
        request = question(1, "nfs")
        request.profile.namespace = "prod"
        request.profile.labels.update(labels)
        hop.service.reply(request.SerializeToString())
    assert [one.rules for one in asked] == [(0, 1), (0,)]


async def test_an_answer_of_another_policy_is_never_called_unchanged(hop: Hop) -> None:
    """Not even if the generation is the same: the gateway may hold it for other rules."""
    first = filter_pb2.FilterResponse.FromString(hop.service.reply(about(1, []).SerializeToString()) or b"")
    request = about(2, [], known=first.generation)
    for policy, form in (("built-in", "unchanged"), ("another", "rejected")):
        request.policy = policy
        reply = filter_pb2.FilterResponse.FromString(hop.service.reply(request.SerializeToString()) or b"")
        assert reply.WhichOneof("answer") == form


async def test_every_reply_says_what_is_degraded(hop: Hop) -> None:
    """So that a decision record can tell."""
    hop.degraded = ["breaker:nfs", "policyRefused"]
    reply = filter_pb2.FilterResponse.FromString(hop.service.reply(about(1, []).SerializeToString()) or b"")
    assert list(reply.degraded) == ["breaker:nfs", "policyRefused"]


async def test_a_gateway_that_stops_reading_costs_no_memory(hop: Hop) -> None:
    """The service stops answering it after a few replies, keeps serving others, and goes on when it reads again."""
    hop.payload = lambda _: large_verdict()
    slow, total = hop.stream(), 300
    await read(slow)

    async def ask_all() -> None:
        for number in range(total):
            await slow.write(question(number, "nfs"))

    asking = asyncio.create_task(ask_all())
    before = -1.0
    while hop.count("answered") != before:  # until it answers no more
        before = hop.count("answered")
        await asyncio.sleep(0.3)
    assert 0 < before < 30

    other = hop.stream()
    await read(other)
    await other.write(question(7, "nfs"))
    assert (await read(other)).id == 7
    assert [(await read(slow)).id for _ in range(total)] == list(range(total))
    await asking
    slow.cancel()
    other.cancel()


async def test_draining_ends_idle_streams_at_once_and_gives_up_on_slow_readers(hop: Hop) -> None:
    """An idle stream ends with OK; one whose gateway does not read is left to the server's end; no new ones."""
    hop.payload = lambda _: large_verdict()
    idle, slow = hop.stream(), hop.stream()
    await read(idle)
    await read(slow)
    for number in range(20):
        await slow.write(question(number, "nfs"))
    while hop.count("answered") < 1:  # noqa: ASYNC110 - a metric has no event
        await asyncio.sleep(0.01)
    async with asyncio.timeout(3):
        await hop.service.drain(0.2)

    assert await idle.read() is grpc.aio.EOF
    assert await idle.code() is grpc.StatusCode.OK
    late = hop.stream()
    assert await late.read() is grpc.aio.EOF
