"""`leadsman-filter`: keeps pods off nodes whose storage is broken for them, or that a policy rule does not allow."""

from collections.abc import Awaitable

from leadsman.runtime.hop.command import hop_command
from leadsman.runtime.hop.process import HopDefinition, HopParts
from leadsman.runtime.hop.service import HopMethod
from leadsman.v1.filter_pb2 import FilterRequest, FilterResponse
from leadsman_filter.metrics import RejectedNodes
from leadsman_filter.view import FilterView, render_volumes
from leadsman_filter.wake import WakePublisher

METHOD = HopMethod("filter", "leadsman.v1.FilterService", "Filter", FilterRequest.FromString, FilterResponse)
"""The streaming method that this service answers."""


def extras(parts: HopParts) -> dict[str, Awaitable[None]]:
    """Wake-ups when fewer nodes are rejected, and metrics of what is."""

    def view() -> FilterView:
        if not isinstance(parts.in_force.view, FilterView):
            raise TypeError("the filter works with a view of its own")
        return parts.in_force.view

    RejectedNodes(parts.cache.index, view, parts.registry)
    wake = WakePublisher(parts.bus, parts.cache.index, view, parts.instance, parts.registry)
    parts.cache.after_change = wake.changed
    parts.policy_changed.append(wake.policy_changed)
    return {"wake": wake.run(parts.opened)}


main = hop_command(
    HopDefinition(METHOD, FilterView, extras, render_volumes),
    9201,
    """Tell gateways which nodes a pod must be kept off.

    Holds the latest report of every node in memory, taken from NATS, and answers from there over gRPC
    (leadsman.v1.FilterService). Any number of replicas may run. Ready once the cache is complete.
    """,
)

if __name__ == "__main__":
    main()
