"""A link to one replica, as far as it needs no replica."""

import asyncio

import grpc.aio
import pytest
from prometheus_client import CollectorRegistry

from leadsman.testing.clock import FakeClock
from leadsman.v1 import filter_pb2
from leadsman_gateway.hop.link import ReplicaLink
from leadsman_gateway.hop.metrics import HopMetrics


class SwallowingStream:
    """A stream whose read ends as if the server had, when it is cancelled."""

    def __init__(self) -> None:
        self.reading = asyncio.Event()

    async def read(self):
        self.reading.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return grpc.aio.EOF


async def test_a_link_ends_also_when_its_stream_swallows_the_cancellation():
    """Otherwise a gateway that is told to stop just as a replica goes away would never end."""
    stream = SwallowingStream()
    link = ReplicaLink(
        "filter",
        "127.0.0.1:1",
        lambda channel: stream,
        filter_pb2.FilterRequest,
        clock=FakeClock(),
        metrics=HopMetrics(CollectorRegistry()),
    )
    task = asyncio.create_task(link.run())
    await stream.reading.wait()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=2)
    task.cancel()
    assert done
    with pytest.raises(asyncio.CancelledError):
        task.result()
