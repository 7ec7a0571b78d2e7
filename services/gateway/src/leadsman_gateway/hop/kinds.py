"""The two services behind the gateway, and how an answer of each is prepared."""

from leadsman.v1 import filter_pb2, filter_pb2_grpc, scorer_pb2, scorer_pb2_grpc
from leadsman.wire.hop import decode_filter_answer, decode_score_answer
from leadsman_gateway.hop.answers import FilterTable, ScoreTable
from leadsman_gateway.hop.client import HopKind

FILTER = HopKind(
    "filter",
    lambda channel: filter_pb2_grpc.FilterServiceStub(channel).Filter(),
    filter_pb2.FilterRequest,
    lambda reply: FilterTable(decode_filter_answer(reply)),
)

SCORER = HopKind(
    "scorer",
    lambda channel: scorer_pb2_grpc.ScorerServiceStub(channel).Score(),
    scorer_pb2.ScoreRequest,
    lambda reply: ScoreTable(decode_score_answer(reply)),
)
