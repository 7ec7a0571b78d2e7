"""Whatever is sent, the answer is a part of it: same order, same bytes, nothing added."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.domain.reasons import Reason
from leadsman.domain.verdicts import FilterAnswer, Rejection, ScoreAnswer
from leadsman.wire.extender import decode_filter, decode_prioritize
from leadsman.wire.extender_reply import encode_filter_result, join_scores
from leadsman_gateway.hop.answers import FilterTable, ScoreTable

pytestmark = pytest.mark.contract

names = st.lists(st.text(min_size=1, max_size=20), max_size=20)
resolvable = st.just(Rejection(Reason.RULE_NOT_MET, "idle-nodes", resolvable=True))
rejection = st.builds(Rejection, st.sampled_from(Reason), st.sampled_from(["a.csi", "b.csi"])) | resolvable
more = st.dictionaries(st.sampled_from(["labels", "uid", "x"]), st.text(max_size=5), max_size=3)


@st.composite
def filter_answers(draw: Any, known: Any) -> Any:
    """A filter's answer about some of `known` and about nodes nobody asked for."""
    about = st.sampled_from(known or ["other"]) | st.text(min_size=1, max_size=5)
    rejected = draw(st.dictionaries(about, rejection, max_size=10))
    volumes = draw(st.dictionaries(about, st.just(Rejection(Reason.VOLUME_UNHEALTHY, "a.csi")), max_size=3))
    if draw(st.booleans()):
        return FilterAnswer(rejected, volumes=volumes)
    return FilterAnswer(rejected, frozenset(draw(st.lists(about, max_size=10))), draw(rejection), volumes)


@given(data=st.data(), sent=names)
def test_names_kept_and_names_failed_are_the_names_sent(data: Any, sent: Any) -> None:
    """Kept names stand in the order sent; the others are failed with the text of their rejection, in one of two lists.

    Preemption looks for victims on nodes in FailedNodes only.
    """
    answer = data.draw(filter_answers(sent))
    call = decode_filter(json.dumps({"Pod": {}, "Nodes": None, "NodeNames": sent}).encode())
    failed = FilterTable(answer).failed(call.candidates.all_names())
    reply = json.loads(encode_filter_result(call.candidates, failed))

    verdicts = {name: answer.verdict(name) for name in sent}
    rejected = {name: why for name, why in verdicts.items() if why is not None}
    assert reply["NodeNames"] == [name for name in sent if name not in rejected]
    for member, helps in (("FailedNodes", True), ("FailedAndUnresolvableNodes", False)):
        assert reply[member] == {name: why.text for name, why in rejected.items() if why.resolvable is helps}
    assert all(FilterTable(answer).rejection(name) == why for name, why in verdicts.items())


@given(
    data=st.data(),
    sent=names,
    extra=more,
    separators=st.sampled_from([(",", ":"), (", ", ": ")]),
    ascii_only=st.booleans(),
    name_first=st.booleans(),
)
def test_kept_nodes_are_the_bytes_sent(
    data: Any, sent: Any, extra: Any, separators: Any, ascii_only: Any, name_first: Any
) -> None:
    """However a node is written (spaces, escapes, order of keys), it comes back as it came."""
    metas = [{"name": name, **extra} if name_first else {**extra, "name": name} for name in sent]
    nodes = [{"metadata": meta, "status": {}} if name_first else {"status": {}, "metadata": meta} for meta in metas]
    texts = [json.dumps(node, separators=separators, ensure_ascii=ascii_only).encode() for node in nodes]
    answer = data.draw(filter_answers(sent))
    call = decode_filter(b'{"Pod":{},"Nodes":{"metadata":{},"items":[%s]},"NodeNames":null}' % b" , ".join(texts))
    reply = encode_filter_result(call.candidates, FilterTable(answer).failed(call.candidates.all_names()))

    assert call.candidates.item_names == sent
    nodes_member = msgspec.json.decode(reply, type=dict[str, msgspec.Raw])["Nodes"]
    items_member = msgspec.json.decode(nodes_member, type=dict[str, msgspec.Raw])["items"]
    assert [bytes(raw) for raw in msgspec.json.decode(items_member, type=list[msgspec.Raw])] == [
        text for text, name in zip(texts, sent, strict=True) if answer.verdict(name) is None
    ]


@given(
    sent=names, known=st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 10)), default=st.integers(0, 10)
)
def test_every_candidate_gets_one_integer_score(sent: Any, known: Any, default: Any) -> None:
    """One entry per candidate in the order sent, an integer from 0 to 10; a float would void the whole answer."""
    table = ScoreTable(ScoreAnswer(tuple(known), bytes(known.values()), default))
    for members in ({"NodeNames": sent}, {"Nodes": {"items": [{"metadata": {"name": name}} for name in sent]}}):
        call = decode_prioritize(json.dumps({"Pod": {}, **members}).encode())
        reply = json.loads(join_scores(table.entries(call.candidates.all_names())))

        assert reply == [{"Host": name, "Score": known.get(name, default)} for name in sent]
