"""`leadsman-filter`: keeps pods off nodes whose storage is broken for them."""

from collections.abc import Awaitable

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.rejections import filter_answer, volume_rejections
from leadsman.runtime.hop.answers import Needs, Volumes
from leadsman.runtime.hop.command import hop_command
from leadsman.runtime.hop.process import HopDefinition, HopParts
from leadsman.runtime.hop.service import HopMethod
from leadsman.v1.filter_pb2 import FilterRequest, FilterResponse
from leadsman.wire.hop import encode_filter_answer, pack_rejections
from leadsman_filter.metrics import RejectedNodes
from leadsman_filter.wake import WakePublisher

METHOD = HopMethod("filter", "leadsman.v1.FilterService", "Filter", FilterRequest.FromString, FilterResponse)
"""The streaming method that this service answers."""


def render(index: HealthIndex, needs: Needs) -> bytes:
    """The encoded answer to `needs`."""
    return encode_filter_answer(0, 0, filter_answer(index, needs)).SerializeToString()


def render_volumes(index: HealthIndex, volumes: Volumes) -> bytes:
    """The encoded addition to the answer for pods that need `volumes`."""
    rejected = volume_rejections(index, volumes)
    return FilterResponse(volumes=pack_rejections(rejected)).SerializeToString() if rejected else b""


def extras(parts: HopParts) -> dict[str, Awaitable[None]]:
    """Wake-ups on recovery, and the metric of what is rejected."""
    index = parts.cache.index
    RejectedNodes(index, parts.registry)
    wake = WakePublisher(parts.bus, index, parts.instance, parts.registry)
    parts.cache.after_change = wake.changed
    return {"wake": wake.run(parts.opened)}


main = hop_command(
    HopDefinition(METHOD, render, extras, render_volumes),
    9201,
    """Tell gateways which nodes a pod must be kept off.

    Holds the latest report of every node in memory, taken from NATS, and answers from there over gRPC
    (leadsman.v1.FilterService). Any number of replicas may run. Ready once the cache is complete.
    """,
)

if __name__ == "__main__":
    main()
