"""What a watch says in the log stays little, however bad the objects are."""

import asyncio
import json

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from leadsman.testing.clock import FakeClock
from leadsman.testing.waiting import eventually
from leadsman_gateway.volumes.api import ApiUnreachableError
from leadsman_gateway.volumes.catalogue import Store
from leadsman_gateway.volumes.metrics import CatalogueMetrics
from leadsman_gateway.volumes.objects import RESOURCES
from leadsman_gateway.volumes.watch import Reflector, WatchSettings


class OddApi:
    """Lists objects of an unknown shape, and lets nobody watch."""

    async def call(self, call, *, deadline_s):
        odd = [{"metadata": {"name": f"odd-{number}"}, "spec": {"csi": {"driver": 7}}} for number in range(50)]
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": odd}).encode()

    def lines(self, call, *, idle_s):
        raise ApiUnreachableError("no watching here")


async def test_many_unreadable_objects_are_counted_and_logged_once() -> None:
    """A new API version may make every object unreadable at once."""
    registry, kind = CollectorRegistry(), "PersistentVolume"
    one = Reflector(
        RESOURCES[kind],
        OddApi(),
        Store(),
        clock=FakeClock(),
        metrics=CatalogueMetrics(registry),
        settings=WatchSettings(),
    )
    with capture_logs() as lines:
        running = asyncio.create_task(one.run())
        await eventually("the list is read", lambda: one.synced, within_s=5, every_s=0.005)
        running.cancel()
        await asyncio.wait({running})

    assert registry.get_sample_value("leadsman_catalogue_bad_objects_total", {"kind": kind}) == 50
    assert sum(line["event"] == "object skipped" for line in lines) == 1
