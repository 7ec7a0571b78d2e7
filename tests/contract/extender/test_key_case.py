"""Keys are read in any case, as Go reads them, and written in the one that Go writes."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.contract

BODIES = sorted((Path(__file__).parent / "corpus").glob("*.json"))


def lower_keys(value: Any) -> Any:
    """The top level in lower case, and victims structs, too; objects of Kubernetes keep their own spelling."""
    return {key.lower(): _lower_victims(key, member) for key, member in value.items()}


def _lower_victims(key: Any, member: Any) -> Any:
    if not key.startswith("NodeNameTo") or member is None:
        return member
    lowered = {node: {name.lower(): part for name, part in victims.items()} for node, victims in member.items()}
    if key == "NodeNameToMetaVictims":
        for victims in lowered.values():
            victims["pods"] = [{name.lower(): uid for name, uid in pod.items()} for pod in victims["pods"]]
    return lowered


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
async def test_lower_case_body_gets_the_same_answer(path: Any, answer: Any) -> None:
    """An old scheduler's tagged types, or another client, get the same bytes back."""
    verb, body = path.name.split(".")[2], path.read_bytes()
    lowered = json.dumps(lower_keys(json.loads(body)), separators=(",", ":"), ensure_ascii=False).encode()

    assert await answer(verb, lowered) == await answer(verb, body)


async def test_mixed_case_names_are_not_lost(answer: Any) -> None:
    """A candidate list under another spelling is never taken for 'no candidates'."""
    reply = json.loads(await answer("filter", b'{"Pod":{},"nodenames":["a","b"]}'))

    assert reply["NodeNames"] == ["a", "b"]


async def test_victims_under_another_spelling_are_not_lost(answer: Any) -> None:
    """Losing them would tell kube-scheduler that nobody need be evicted."""
    body = b'{"pod":{},"nodenametometavictims":{"n":{"pods":[{"uid":"u1"},{"Uid":"u2"}],"numPDBViolations":3}}}'

    assert json.loads(await answer("preempt", body)) == {
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 3}}
    }


@pytest.mark.parametrize("pods", ['"pods":[{"UID":"u"}]', '"Pods":[{"uid":"u"}]'])
async def test_usual_key_does_not_hide_another_spelling_inside(pods: Any, answer: Any) -> None:
    """The fast decoder must refuse what it does not know, not skip it."""
    body = f'{{"Pod":{{}},"NodeNameToVictims":null,"NodeNameToMetaVictims":{{"n":{{{pods},"NumPDBViolations":0}}}}}}'

    reply = json.loads(await answer("preempt", body.encode()))
    assert reply["NodeNameToMetaVictims"]["n"]["Pods"] == [{"UID": "u"}]


async def test_unknown_keys_are_ignored(answer: Any) -> None:
    """A newer kube-scheduler may say more than we know."""
    reply = json.loads(await answer("filter", b'{"Pod":{},"NodeNames":["a"],"Nodes":null,"Hints":{"x":1}}'))

    assert reply["NodeNames"] == ["a"]
