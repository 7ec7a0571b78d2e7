"""Null and missing lists are answered in the form that was asked, and never by null or a crash."""

import json
from typing import Any

import pytest

pytestmark = pytest.mark.contract

EMPTY_NODES: dict[str, Any] = {"metadata": {}, "items": []}
NODE = '{"metadata":{"name":"a"}}'


@pytest.mark.parametrize(
    ("members", "names", "nodes"),
    [
        ("", [], EMPTY_NODES),
        (',"Nodes":null,"NodeNames":null', [], EMPTY_NODES),
        (',"Nodes":null,"NodeNames":[]', [], None),
        (',"NodeNames":["a"]', ["a"], None),
        (',"Nodes":{"metadata":{},"items":null},"NodeNames":null', None, EMPTY_NODES),
        (',"Nodes":{}', None, EMPTY_NODES),
        (f',"Nodes":{{"items":[{NODE}]}}', None, {"metadata": {}, "items": [{"metadata": {"name": "a"}}]}),
        (
            f',"Nodes":{{"items":[{NODE}]}},"NodeNames":["a","b"]',
            ["a", "b"],
            {"metadata": {}, "items": [json.loads(NODE)]},
        ),
    ],
)
async def test_filter_answers_in_the_form_asked(members: Any, names: Any, nodes: Any, answer: Any) -> None:
    """Both lists, one or neither: the answer has the same ones, empty ones for none."""
    reply = json.loads(await answer("filter", f'{{"Pod":{{}}{members}}}'.encode()))

    assert (reply["NodeNames"], reply["Nodes"]) == (names, nodes)


@pytest.mark.parametrize(
    "members", ["", ',"Nodes":null,"NodeNames":null', ',"Nodes":{"items":null}', ',"NodeNames":[]']
)
@pytest.mark.parametrize("volumes", ["null", '[{"name":"v","csi":{"driver":"csi.example.com"}}]'])
async def test_prioritize_without_candidates_gives_no_scores(members: Any, volumes: Any, answer: Any) -> None:
    """An empty array, with or without storage."""
    body = f'{{"Pod":{{"spec":{{"volumes":{volumes}}}}}{members}}}'

    assert await answer("prioritize", body.encode()) == b"[]"


@pytest.mark.parametrize(
    ("members", "victims"),
    [
        ("", {}),
        (',"NodeNameToVictims":null,"NodeNameToMetaVictims":null', {}),
        (',"NodeNameToMetaVictims":{"n":null}', {"n": {"Pods": [], "NumPDBViolations": 0}}),
        (',"NodeNameToMetaVictims":{"n":{"Pods":null}}', {"n": {"Pods": [], "NumPDBViolations": 0}}),
        (
            ',"NodeNameToMetaVictims":{"n":{"Pods":[null,{"UID":"u"}],"NumPDBViolations":2}}',
            {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}},
        ),
        (
            ',"NodeNameToVictims":{"n":{"Pods":[null,{"metadata":{"uid":"u"}},{"metadata":{"uid":"t"}}]}}',
            {"n": {"Pods": [{"UID": "u"}, {"UID": "t"}], "NumPDBViolations": 0}},
        ),
    ],
)
async def test_preempt_answers_the_meta_form_without_nulls(members: Any, victims: Any, answer: Any) -> None:
    """A null in this answer makes kube-scheduler dereference it; empty victims are legal from 1.38 on."""
    assert json.loads(await answer("preempt", f'{{"Pod":{{}}{members}}}'.encode())) == {
        "NodeNameToMetaVictims": victims
    }


async def test_preempt_drops_the_nodes_that_filter_rejects(answer: Any) -> None:
    """Nobody is evicted from a node that would be rejected again; the others keep their order and their counts."""
    body = b"""{"Pod":{"spec":{"volumes":[{"name":"v","csi":{"driver":"nfs.csi.k8s.io"}}]}},"NodeNameToMetaVictims":{
        "z":{"Pods":[{"UID":"2"},{"UID":"1"}],"NumPDBViolations":1},
        "worker-002.example.net":{"Pods":[{"UID":"3"}],"NumPDBViolations":0},
        "a":{"Pods":[],"NumPDBViolations":0}}}"""

    assert await answer("preempt", body) == (
        b'{"NodeNameToMetaVictims":{"z":{"Pods":[{"UID":"2"},{"UID":"1"}],"NumPDBViolations":1},'
        b'"a":{"Pods":[],"NumPDBViolations":0}}}'
    )
