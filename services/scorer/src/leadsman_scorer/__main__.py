"""`leadsman-scorer`: ranks the nodes that the filter lets through."""

from collections.abc import Awaitable

from leadsman.domain.requirements import Near
from leadsman.runtime.hop.command import hop_command
from leadsman.runtime.hop.process import HopDefinition, HopParts
from leadsman.runtime.hop.service import HopMethod
from leadsman.v1.scorer_pb2 import ScoreRequest, ScoreResponse
from leadsman_scorer.metrics import UndecidedPreferences
from leadsman_scorer.view import ScorerView


def near_of(request: ScoreRequest) -> Near:
    """Where the pod's data is."""
    return Near(tuple(sorted(request.near_zones)), tuple(sorted(request.near_regions)))


METHOD = HopMethod("scorer", "leadsman.v1.ScorerService", "Score", ScoreRequest.FromString, ScoreResponse, near=near_of)
"""The streaming method that this service answers."""


def extras(parts: HopParts) -> dict[str, Awaitable[None]]:
    """Bring what load and latency have become in force once a second, and count what rules cannot decide."""

    def view() -> ScorerView:
        if not isinstance(parts.in_force.view, ScorerView):
            raise TypeError("the scorer works with a view of its own")
        return parts.in_force.view

    def commit() -> None:
        view().board.commit()

    UndecidedPreferences(view, parts.registry)
    parts.cache.after_tick = commit
    return {}


main = hop_command(
    HopDefinition(METHOD, ScorerView, extras),
    9301,
    """Tell gateways how well each node suits a pod, from 0 to 10.

    Holds the latest report of every node in memory, taken from NATS, and answers from there over gRPC
    (leadsman.v1.ScorerService). Any number of replicas may run. Ready once the cache is complete.
    """,
)

if __name__ == "__main__":
    main()
