"""What a watch asks for, what it says in the log, and that one bad object hides no other."""

import asyncio
import contextlib
import json

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from leadsman.kube.api import ApiUnreachableError
from leadsman.kube.metrics import WatchMetrics
from leadsman.kube.watch import Reflector
from leadsman.kube.watched import Decoded, Watched, WatchSettings
from leadsman.testing.clock import FakeClock
from leadsman.testing.waiting import eventually


class Meta(msgspec.Struct):
    name: str


class Thing(msgspec.Struct):
    metadata: Meta
    size: int = 0


def decode(body):
    thing = msgspec.json.decode(body, type=Thing)
    return Decoded(("", thing.metadata.name), thing.size, "7")


class Sizes(dict):
    """A sink."""

    def replace(self, objects):
        self.clear()
        self.update(objects)

    def put(self, key, kept):
        self[key] = kept

    def drop(self, key):
        self.pop(key, None)


class ListOnly:
    """Lists `items`, and lets nobody watch."""

    def __init__(self, items):
        self.items = items
        self.calls = []

    async def call(self, call, *, deadline_s):
        self.calls.append(call)
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": self.items}).encode()

    def lines(self, call, *, idle_s):
        self.calls.append(call)
        raise ApiUnreachableError("no watching here")


class Rig:
    """One reflector of things."""

    def __init__(self, items, **traits):
        self.api = ListOnly(items)
        self.sizes = Sizes()
        self.registry = CollectorRegistry()
        self.reflector = Reflector(
            Watched("Thing", "/apis/toys/v1/things", decode, **traits),
            self.api,
            self.sizes,
            clock=FakeClock(),
            metrics=WatchMetrics(self.registry, "leadsman_toy"),
            settings=WatchSettings(backoff_s=30.0),
        )

    @contextlib.asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.reflector.run())
        await eventually("a watch was tried", lambda: len(self.api.calls) >= 2, within_s=5, every_s=0.002)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait({task})


def named(name, size):
    return {"metadata": {"name": name}, "size": size}


async def test_many_unreadable_objects_are_counted_and_logged_once() -> None:
    """A new API version may make every object unreadable at once; the readable one is there all the same."""
    with capture_logs() as lines:
        async with Rig([*(named(f"odd-{number}", "large") for number in range(50)), named("fine", 3)]).running() as rig:
            assert rig.sizes == {("", "fine"): 3}

    assert rig.registry.get_sample_value("leadsman_toy_bad_objects_total", {"kind": "Thing"}) == 50
    assert [line["object"] for line in lines if line["event"] == "object skipped"] == ["odd-0"]


@pytest.mark.parametrize("metadata_only", [False, True])
async def test_selector_and_form_are_asked_for_in_lists_and_watches(metadata_only) -> None:
    """A narrowed watch must follow the same objects in the same form as its list."""
    query = (("fieldSelector", "metadata.name=fine"),)
    async with Rig([], query=query, metadata_only=metadata_only).running() as rig:
        listed, watched = rig.api.calls[:2]

    assert query[0] in listed.query
    assert query[0] in watched.query
    assert ("as=PartialObjectMetadataList" in listed.accept) is metadata_only
    assert ("as=PartialObjectMetadata;" in watched.accept) is metadata_only


async def test_no_list_is_no_empty_list() -> None:
    """An answer that is not a list leaves the reflector unsynced, and is an error to be told."""
    rig = Rig([])
    rig.api.items = 7
    task = asyncio.create_task(rig.reflector.run())
    await eventually("it was asked", lambda: "not a list" in rig.reflector.last_error, within_s=5, every_s=0.002)
    task.cancel()
    await asyncio.wait({task})

    assert not rig.reflector.synced
    assert rig.registry.get_sample_value("leadsman_toy_watch_failures_total", {"kind": "Thing", "cause": "unreachable"})
