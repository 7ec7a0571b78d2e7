"""`leadsman-scorer`: ranks the nodes that the filter lets through."""

from leadsman.domain.health_index import HealthIndex
from leadsman.domain.scores import score_answer
from leadsman.runtime.hop.answers import Needs
from leadsman.runtime.hop.command import hop_command
from leadsman.runtime.hop.process import HopDefinition
from leadsman.runtime.hop.service import HopMethod
from leadsman.v1.scorer_pb2 import ScoreRequest, ScoreResponse
from leadsman.wire.hop import encode_score_answer

METHOD = HopMethod("scorer", "leadsman.v1.ScorerService", "Score", ScoreRequest.FromString, ScoreResponse)
"""The streaming method that this service answers."""


def render(index: HealthIndex, needs: Needs) -> bytes:
    """The encoded answer to `needs`."""
    return encode_score_answer(0, 0, score_answer(index, needs)).SerializeToString()


main = hop_command(
    HopDefinition(METHOD, render),
    9301,
    """Tell gateways how well each node suits a pod, from 0 to 10.

    Holds the latest report of every node in memory, taken from NATS, and answers from there over gRPC
    (leadsman.v1.ScorerService). Any number of replicas may run. Ready once the cache is complete.
    """,
)

if __name__ == "__main__":
    main()
