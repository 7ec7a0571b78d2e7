"""Every body that a real kube-scheduler sent is answered, and each answer is the one on file.

After an intended change run with LEADSMAN_UPDATE_GOLDEN=1 and review the difference in `golden/`.
"""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytestmark = pytest.mark.contract

HERE = Path(__file__).parent
BODIES = sorted((HERE / "corpus").glob("*.json"))


def verb_of(body: Path) -> str:
    return body.name.split(".")[2]


class NodeItems(msgspec.Struct):
    items: list[msgspec.Raw]


class Nodes(msgspec.Struct):
    Nodes: NodeItems | None = None


def items(document: bytes) -> list[bytes]:
    """The bytes of every node in a request or an answer."""
    nodes = msgspec.json.decode(document, type=Nodes).Nodes
    return [bytes(raw) for raw in nodes.items] if nodes else []


def readable(reply: bytes) -> str:
    """An answer as text for review: one line per member, whole nodes shortened to their names."""
    value = json.loads(reply)
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in value) + "\n]\n"
    if value.get("Nodes"):
        value["Nodes"]["items"] = [node["metadata"]["name"] for node in value["Nodes"]["items"]]
    return json.dumps(value, indent=2) + "\n"


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
async def test_answer_to_recorded_body_is_the_one_on_file(path: Any, answer: Any) -> None:
    """The answer's content is unchanged since it was last reviewed."""
    text = readable(await answer(verb_of(path), path.read_bytes()))
    golden = HERE / "golden" / path.name
    if os.environ.get("LEADSMAN_UPDATE_GOLDEN"):
        golden.write_text(text)

    assert golden.read_text() == text


def test_every_answer_on_file_has_its_body() -> None:
    """No golden answer outlives the body that it answers."""
    assert [path.name for path in BODIES] == sorted(path.name for path in (HERE / "golden").glob("*.json"))


@pytest.mark.parametrize("path", [path for path in BODIES if ".nodes.filter." in path.name], ids=lambda path: path.stem)
async def test_whole_nodes_come_back_byte_for_byte(path: Any, answer: Any) -> None:
    """With nodeCacheCapable: false kube-scheduler goes on with our bytes, so each node must be the one it sent."""
    sent = items(path.read_bytes())
    kept = items(await answer("filter", path.read_bytes()))

    assert kept == [node for node in sent if node in kept]
    assert len(kept) >= len(sent) - 2


@pytest.mark.parametrize("path", [path for path in BODIES if ".filter." in path.name], ids=lambda path: path.stem)
async def test_answer_has_exactly_the_members_that_kube_scheduler_reads(path: Any, answer: Any) -> None:
    """Names as in k8s.io/kube-scheduler/extender/v1; the form that was not asked stays null, no list is null."""
    body, reply = json.loads(path.read_bytes()), json.loads(await answer("filter", path.read_bytes()))

    assert list(reply) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
    assert (reply["Error"], reply["FailedNodes"]) == ("", {})
    for form in ("Nodes", "NodeNames"):
        assert (reply[form] is None) == (body[form] is None)
