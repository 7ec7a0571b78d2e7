"""From a call over HTTP to a replica over gRPC and back: verdicts, scores, the fast path, and answers kept."""

from typing import Any

import pytest

pytestmark = pytest.mark.integration

NODES = ("node-1", "node-2", "node-3")
PROJECTED = [{"name": "token", "projected": {"sources": []}}, {"name": "tmp", "emptyDir": {}}]


def answers(running: Any, kind: str, hop: str = "filter") -> Any:
    return running.value("leadsman_gateway_hop_answers_total", hop=hop, kind=kind)


def requests(running: Any, verb: str, outcome: str) -> Any:
    return running.value("leadsman_gateway_requests_total", verb=verb, outcome=outcome)


async def test_rejected_node_is_kept_from_the_pod(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """The node stands under FailedAndUnresolvableNodes with the reason's text, the others pass."""
    running = await gateway(await replica(rejected={"node-3": broken, "elsewhere": broken}))
    await running.linked()

    reply = (await running.post("/filter", body(*NODES))).json

    assert reply["NodeNames"] == ["node-1", "node-2"]
    assert reply["FailedAndUnresolvableNodes"] == {"node-3": "node(s) had a hung storage mount (nfs.csi.k8s.io)"}
    assert (reply["FailedNodes"], reply["Error"]) == ({}, "")


async def test_scores_come_from_the_scorer(gateway: Any, replica: Any, body: Any) -> None:
    """Known nodes get theirs, the others the default."""
    running = await gateway(await replica(scores={"node-1": 10, "node-3": 0}))
    await running.linked("scorer")

    assert (await running.post("/prioritize", body(*NODES))).json == [
        {"Host": "node-1", "Score": 10},
        {"Host": "node-2", "Score": 5},
        {"Host": "node-3", "Score": 0},
    ]


async def test_pod_without_storage_is_never_asked_about(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """Projected tokens and empty directories are no storage: every node passes without a call over the hop."""
    one = await replica(rejected=dict.fromkeys(NODES, broken))
    running = await gateway(one)
    await running.linked()

    assert (await running.post("/filter", body(*NODES, volumes=PROJECTED))).json["NodeNames"] == list(NODES)
    assert (await running.post("/prioritize", body(*NODES, volumes=PROJECTED))).body == b"[]"
    assert one.questions == []
    assert requests(running, "filter", "fast-path") == 1


async def test_unchanged_answer_is_not_sent_again(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """The second call with the same needs carries the generation and gets `Unchanged`; pods share the answer."""
    one = await replica(rejected={"node-3": broken}, generation=7)
    running = await gateway(one)
    await running.linked()
    volumes = [{"name": "other", "csi": {"driver": "nfs.csi.k8s.io"}}]

    first = await running.post("/filter", body(*NODES))
    second = await running.post("/filter", body(*NODES, volumes=volumes))

    assert first.body == second.body
    assert [question.known_generation for question in one.questions] == [0, 7]
    assert (answers(running, "full"), answers(running, "unchanged")) == (1, 1)


async def test_changed_answer_replaces_the_one_kept(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """A new generation is believed at once."""
    one = await replica(rejected={"node-3": broken})
    running = await gateway(one)
    await running.linked()
    await running.post("/filter", body(*NODES))
    one.rejected, one.generation = {"node-1": broken}, 2

    assert list((await running.post("/filter", body(*NODES))).json["FailedAndUnresolvableNodes"]) == ["node-1"]


async def test_generations_of_another_instance_are_not_compared(
    gateway: Any, replica: Any, body: Any, broken: Any
) -> None:
    """After a failover the same number may mean another answer, so nothing kept is offered."""
    one = await replica(instance="one", generation=5, rejected={"node-1": broken})
    two = await replica(instance="two", generation=5, rejected={"node-2": broken})
    running = await gateway(one, two)
    await running.linked(replicas=2)
    await running.post("/filter", body(*NODES))
    await one.stop()

    assert list((await running.post("/filter", body(*NODES))).json["FailedAndUnresolvableNodes"]) == ["node-2"]
    assert [question.known_generation for question in two.questions] == [0]


async def test_answers_kept_are_bounded_by_their_nodes(
    gateway: Any, replica: Any, body: Any, broken: Any, monkeypatch: Any
) -> None:
    """The least recently used answer is forgotten when all of them together name too many nodes."""
    monkeypatch.setattr("leadsman_gateway.hop.kept.MAX_NODES", 3)
    one = await replica(rejected={"node-2": broken, "node-3": broken}, generation=7)
    running = await gateway(one)
    await running.linked()

    for driver in ("a.csi", "a.csi", "b.csi", "b.csi", "a.csi"):
        reply = await running.post("/filter", body(*NODES, volumes=[{"name": "v", "csi": {"driver": driver}}]))
        assert reply.json["NodeNames"] == ["node-1"]

    assert [question.known_generation for question in one.questions] == [0, 7, 0, 7, 0]


async def test_whole_nodes_work_and_warn_once(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """nodeCacheCapable: false is answered in its own form; each call is counted."""
    running = await gateway(await replica(rejected={"node-3": broken}))
    await running.linked()
    items = [{"metadata": {"name": name, "labels": {"zone": "a"}}} for name in NODES]

    for _ in range(2):
        reply = (await running.post("/filter", body(NodeNames=None, Nodes={"metadata": {}, "items": items}))).json

    assert reply["Nodes"]["items"] == items[:2]
    assert reply["NodeNames"] is None
    assert running.value("leadsman_gateway_node_mode_requests_total") == 2


async def test_all_candidates_broken_are_all_rejected(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """Giving them all back would place the pod where it cannot mount; the empty sample is counted."""
    running = await gateway(await replica(rejected=dict.fromkeys(NODES, broken)))
    await running.linked()

    reply = (await running.post("/filter", body(*NODES))).json

    assert reply["NodeNames"] == []
    assert list(reply["FailedAndUnresolvableNodes"]) == list(NODES)
    assert running.value("leadsman_gateway_whole_sample_rejected_total") == 1


async def test_volume_that_cannot_be_resolved_rejects_nothing(
    gateway: Any, replica: Any, body: Any, broken: Any
) -> None:
    """An unknown claim means no opinion, which is recorded; the pod is left to kube-scheduler."""
    one = await replica(rejected=dict.fromkeys(NODES, broken))
    running = await gateway(one)
    await running.linked()
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "nobody-knows"}}]

    assert (await running.post("/filter", body(*NODES, volumes=volumes))).json["NodeNames"] == list(NODES)
    assert requests(running, "filter", "no-opinion") == 1
    assert running.value("leadsman_gateway_unresolved_volumes_total") == 1
    assert one.questions == []


async def test_many_calls_at_once_share_one_stream(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """Replies find their question by id."""
    one = await replica(rejected={"node-3": broken})
    running = await gateway(one)
    await running.linked("scorer")
    await running.linked()
    clients = [await running.connect() for _ in range(8)]
    for round_number in range(20):
        for client in clients:
            data = body(*NODES, f"extra-{round_number}")
            await client.send(b"POST /filter HTTP/1.1\r\nHost: g\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        for client in clients:
            assert (await client.answer()).json["NodeNames"] == ["node-1", "node-2", f"extra-{round_number}"]

    assert one.streams == 2


async def test_five_thousand_whole_nodes_are_answered(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """43 MB, the largest body that the default limit is meant for; above the limit it is a 413."""
    names = [f"node-{number}" for number in range(5000)]
    filler = {"images": [{"names": ["registry.example.com/team/app@sha256:" + "0" * 64] * 80}]}
    items = [{"metadata": {"name": name}, "status": filler} for name in names]
    data = body(NodeNames=None, Nodes={"metadata": {}, "items": items})
    assert 40 << 20 < len(data) < 64 << 20
    running = await gateway(await replica(rejected={"node-7": broken}), deadline_s=10.0)
    small = await gateway(max_body=1 << 20)
    await running.linked()

    reply = (await running.post("/filter", data)).json

    assert len(reply["Nodes"]["items"]) == 4999
    assert list(reply["FailedAndUnresolvableNodes"]) == ["node-7"]
    assert (await small.post("/filter", data)).status == 413
