"""Events about a node's storage: one object per series, in bounds, and whatever the API server does."""

import asyncio
import time

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.states import State
from leadsman.testing.clock import FakeClock
from leadsman.testing.kube_api import Failure
from leadsman_health_collector.kube.event_recorder import EventRecorder, EventSettings
from leadsman_health_collector.kube.metrics import EventMetrics
from leadsman_health_collector.kube.token_bucket import TokenBucket

from .conftest import NODE

pytestmark = pytest.mark.integration

DRIVER = "nfs.csi.k8s.io"
QUICK = EventSettings(burst=1000, backoff_s=0.02, backoff_limit_s=0.1)


def status(state, reason=None, backend="a", message="words"):
    return StorageStatus(StorageKey(DRIVER, backend), state, reason, message=message)


HEALTHY = status(State.HEALTHY)
HUNG = status(State.UNHEALTHY, Reason.MOUNT_HUNG)
UNKNOWN = status(State.UNKNOWN, Reason.NOT_OBSERVED)


def volume(name):
    return VolumeStatus(DRIVER, name, State.UNHEALTHY, Reason.STALE_FILE_HANDLE)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def recorder(api, clock, registry):
    return make(api, clock, registry, QUICK)


def make(api, clock, registry, settings, uid="u-1"):
    return EventRecorder(api, NODE, lambda: uid, clock=clock, metrics=EventMetrics(registry), settings=settings)


def events(server):
    return list(server.objects["events"].values())


def brief(server):
    return sorted((event["reason"], event["count"]) for event in events(server))


async def test_event_is_as_kubectl_wants_it(server, recorder, running, soon):
    """It is about the Node by name and UID, in the namespace that goes with that, and carries times and count."""
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        await soon("it is written", lambda: events(server))
    (event,) = events(server)
    del event["metadata"]["resourceVersion"]
    name = event["metadata"].pop("name")
    assert name.startswith(f"{NODE}.")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "u-1"},
        "type": "Warning",
        "reason": "MountHung",
        "message": f"{DRIVER}/a is UNHEALTHY: words",
        "source": {"component": "leadsman-health-collector", "host": NODE},
        "reportingComponent": "leadsman-health-collector",
        "reportingInstance": NODE,
        "firstTimestamp": "2026-09-21T14:30:00Z",
        "lastTimestamp": "2026-09-21T14:30:00Z",
        "count": 1,
    }


async def test_without_a_uid_the_name_stands_for_it(server, api, clock, registry, running, soon):
    """`kubectl describe node` looks for both, as the kubelet's own events have the name."""
    recorder = make(api, clock, registry, QUICK, uid="")
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        await soon("it is written", lambda: events(server))
    assert events(server)[0]["involvedObject"]["uid"] == NODE


async def test_repetitions_update_the_same_event(server, recorder, clock, running, soon, metric):
    """A storage that comes and goes makes two objects with counts, with the newest words and time."""
    async with running(recorder):
        for number in range(3):
            recorder.note(HEALTHY, HUNG._replace(message=f"words {number}"))
            await soon("it is told", lambda count=number + 1: ("MountHung", count) in brief(server))
            clock.advance(60)
            recorder.note(HUNG, HEALTHY)
            await soon("and taken back", lambda count=number + 1: ("StorageHealthy", count) in brief(server))
            clock.advance(60)
    assert brief(server) == [("MountHung", 3), ("StorageHealthy", 3)]
    hung = next(event for event in events(server) if event["reason"] == "MountHung")
    assert hung["message"].endswith("words 2")
    assert (hung["firstTimestamp"], hung["lastTimestamp"]) == ("2026-09-21T14:30:00Z", "2026-09-21T14:34:00Z")
    assert (metric("events_total", operation="create"), metric("events_total", operation="update")) == (2, 4)


async def test_repetition_after_ten_minutes_is_a_new_event(server, recorder, clock, running, soon):
    """So that the first one's time still means something."""
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        await soon("it is written", lambda: len(events(server)) == 1)
        clock.advance(601)
        recorder.note(HEALTHY, HUNG)
        await soon("another one", lambda: len(events(server)) == 2)
    assert brief(server) == [("MountHung", 1), ("MountHung", 1)]


async def test_expired_event_is_made_again(server, recorder, running, soon):
    """Events live for an hour or less; the count goes on."""
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        await soon("it is written", lambda: events(server))
        await server.delete("events", events(server)[0]["metadata"]["name"], "default")
        recorder.note(HEALTHY, HUNG)
        await soon("it is there again", lambda: brief(server) == [("MountHung", 2)])


async def test_lost_answer_makes_no_second_event(server, recorder, running, soon, metric):
    """The API server took the first attempt and its answer did not arrive: the second finds the same name."""
    server.failures.append(Failure(504, "/events", times=1, method="POST", after=True))
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        await soon("it was tried again", lambda: metric("events_waiting") == 0)
    assert brief(server) == [("MountHung", 1)]
    assert server.count("POST") == 2


async def test_recovery_is_told_after_a_time_without_knowledge(server, recorder, running, soon):
    """And the first look of a start is not, though both go from UNKNOWN to HEALTHY."""
    async with running(recorder):
        recorder.note(UNKNOWN, HEALTHY)
        recorder.note(HEALTHY, HUNG)
        recorder.note(HUNG, UNKNOWN)
        recorder.note(UNKNOWN, HEALTHY)
        await soon("three are told", lambda: len(events(server)) == 3)
    assert brief(server) == [("MountHung", 1), ("NotObserved", 1), ("StorageHealthy", 1)]


async def test_what_happens_meanwhile_is_written_when_the_api_server_is_back(server, recorder, running, soon, metric):
    """Each series once, with its count; nothing is lost within the bounds, and /readyz says what waits."""
    await server.stop()
    async with running(recorder):
        for number in range(5):
            recorder.note(HEALTHY, status(State.UNHEALTHY, Reason.MOUNT_HUNG, f"b{number}"))
        recorder.note(HEALTHY, status(State.UNHEALTHY, Reason.MOUNT_HUNG, "b0"))
        await soon("it failed", lambda: metric("event_failures_total") >= 2)
        fine, words = recorder.describe()
        assert not fine
        assert words.startswith("5 events wait: POST /api/v1/namespaces/default/events: ")
        await server.start()
        await soon("all are written", lambda: len(events(server)) == 5)
        await soon("none waits", lambda: recorder.describe() == (True, "0 events wait"))
    assert sorted(event["count"] for event in events(server)) == [1, 1, 1, 1, 2]


async def test_missing_right_is_named_and_waited_for(server, recorder, running, soon, metric):
    """Rights may be applied after the collector has started."""
    server.failures.append(Failure(403, "/events"))
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        await soon("it was refused", lambda: metric("event_failures_total") >= 2)
        assert (
            "no right to write events; apply deploy/health-collector/rbac.yaml, or give --no-events"
            in (recorder.describe()[1])
        )
        server.failures.clear()
        await soon("it is written", lambda: events(server))


async def test_event_that_is_never_taken_holds_no_other_up(server, recorder, running, soon, metric):
    """An answer of 422 is final."""
    server.failures.append(Failure(422, "/events", times=1))
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        recorder.note(HEALTHY, status(State.DEGRADED, Reason.CAPACITY_LOW, "b"))
        await soon("the other is written", lambda: brief(server) == [("CapacityLow", 1)])
    assert metric("events_dropped_total", cause="refused") == 1


async def test_queue_is_bounded_and_the_newest_win(server, api, clock, registry, running, soon, metric):
    """Single volumes are given up before storages, and the old before the new; each is counted."""
    recorder = make(api, clock, registry, EventSettings(waiting=4, backoff_s=0.02, backoff_limit_s=0.1))
    recorder.note(HEALTHY, HUNG)
    for number in range(10):
        recorder.note_volume(None, volume(f"pv-{number}"))
    recorder.note(HEALTHY, status(State.DEGRADED, Reason.CAPACITY_LOW, "b"))
    assert metric("events_dropped_total", cause="overflow") == 8
    assert metric("events_waiting") == 4
    async with running(recorder):
        await soon("all that is left is written", lambda: len(events(server)) == 4)
    words = [event["message"] for event in events(server)]
    assert [text.split()[0] for text in words[:2]] == [f"{DRIVER}/a", f"{DRIVER}/b"]
    assert [text.split()[1] for text in words[2:]] == ["pv-8", "pv-9"]


async def test_writes_are_limited_to_a_rate(server, api, registry, running, soon, metric):
    """After the burst the rest waits; no token is used up by having nothing to write."""
    clock = FakeClock()
    recorder = make(api, clock, registry, EventSettings(burst=3, per_minute=60 * 50))
    async with running(recorder):
        for number in range(8):
            recorder.note(HEALTHY, status(State.UNHEALTHY, Reason.MOUNT_HUNG, f"b{number}"))
        await soon("the burst is written", lambda: len(events(server)) == 3)
        await soon("the rest waits", lambda: metric("events_waiting") == 5)
        clock.advance(2.5 / 50)
        await soon("two more", lambda: len(events(server)) == 5)
        await soon("three wait", lambda: metric("events_waiting") == 3)


async def test_slow_api_server_slows_nobody(server, recorder, running, soon):
    """Noting takes no time, however long a write takes."""
    server.delay_s = 5.0
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        await soon("a write is under way", lambda: server.count("POST") == 1)
        started = time.perf_counter()
        for number in range(1000):
            recorder.note(HEALTHY, status(State.UNHEALTHY, Reason.MOUNT_HUNG, f"b{number % 50}"))
        assert time.perf_counter() - started < 0.5


async def test_note_during_a_write_is_written_too(server, recorder, running, soon):
    """The count that is noted while the object is being made follows in an update."""
    server.delay_s = 0.1
    async with running(recorder):
        recorder.note(HEALTHY, HUNG)
        await soon("a write is under way", lambda: server.count("POST") == 1)
        recorder.note(HEALTHY, HUNG)
        await soon("both are counted", lambda: brief(server) == [("MountHung", 2)])


async def test_memory_is_bounded(api, clock, registry, metric):
    """A flood of storages, all different, leaves what the settings allow."""
    recorder = make(api, clock, registry, EventSettings(waiting=8, series=16))
    for number in range(5000):
        recorder.note(HEALTHY, status(State.UNHEALTHY, Reason.MOUNT_HUNG, f"b{number}"))
    assert metric("events_waiting") == 8
    assert len(recorder._series) <= 16
    assert len(recorder._bad) <= 16


async def test_written_events_are_forgotten_in_time(server, api, clock, registry, running, soon):
    """Only so many series are remembered; an older one would be a new Event when it comes again."""
    recorder = make(api, clock, registry, EventSettings(series=4, burst=100))
    async with running(recorder):
        for number in range(12):
            recorder.note(HEALTHY, status(State.UNHEALTHY, Reason.MOUNT_HUNG, f"b{number}"))
        await soon("all are written", lambda: len(events(server)) == 12)
        assert len(recorder._series) == 4
        clock.advance(1)
        recorder.note(HEALTHY, status(State.UNHEALTHY, Reason.MOUNT_HUNG, "b0"))
        await soon("it is a new one", lambda: len(events(server)) == 13)


async def test_bucket_waits_for_the_next_token(clock):
    """Two at once, then one per token."""
    bucket = TokenBucket(2, 100.0, clock)
    for _ in range(2):
        await asyncio.wait_for(bucket.take(), 1)
    waiting = asyncio.create_task(bucket.take())
    done, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not done
    clock.advance(0.011)
    await asyncio.wait_for(waiting, 1)
