"""The two services behind the gateway, and how an answer of each is prepared."""

from leadsman.v1 import filter_pb2, filter_pb2_grpc, scorer_pb2, scorer_pb2_grpc
from leadsman.wire.hop import decode_filter_answer, decode_score_answer, unpack_rejections
from leadsman_gateway.hop.answers import FilterTable, ScoreTable
from leadsman_gateway.hop.client import HopKind


def _for_this_pod(table: FilterTable, reply: filter_pb2.FilterResponse) -> FilterTable:
    return table.with_volumes(unpack_rejections(reply.volumes)) if reply.HasField("volumes") else table


FILTER = HopKind(
    "filter",
    lambda channel: filter_pb2_grpc.FilterServiceStub(channel).Filter(),
    filter_pb2.FilterRequest,
    lambda reply: FilterTable(decode_filter_answer(reply)._replace(volumes={})),
    _for_this_pod,
)

SCORER = HopKind(
    "scorer",
    lambda channel: scorer_pb2_grpc.ScorerServiceStub(channel).Score(),
    scorer_pb2.ScoreRequest,
    lambda reply: ScoreTable(decode_score_answer(reply)),
    lambda table, _: table,
    cares_where=True,
)
