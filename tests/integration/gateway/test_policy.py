"""What the policy of filter and scorer means for the gateway: who is asked about, what crosses, and what is kept."""

import asyncio
from typing import Any

import pytest

from leadsman.domain.pod_selectors import Operator, PodSelector, Term
from leadsman.domain.requirements import NEAR_ZONE
from leadsman.v1 import requirements_pb2

pytestmark = pytest.mark.integration

NODES = ("node-1", "node-2", "node-3")
NO_VOLUMES: list[Any] = []
GPU = PodSelector(labels=(Term("accelerator", Operator.IN, ("gpu",)),))
BATCH = PodSelector(annotations=(Term("batch.example.com/queue", Operator.EXISTS),))
CLAIMED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
VOLUME = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {volumeName: pv-1}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1, labels: {topology.kubernetes.io/zone: b__a, topology.kubernetes.io/region: west}}
spec: {csi: {driver: disk.csi, volumeHandle: h, volumeAttributes: {pool: fast, array: a7}}}
"""


def rejected(answer: Any) -> list[str]:
    return list(answer.json["FailedAndUnresolvableNodes"])


def asked_by(one: Any, name: str) -> list[Any]:
    """The questions of one kind that name a driver or carry a profile."""
    return [
        question
        for question in one.asked
        if type(question).__name__ == name and (question.requirements or question.HasField("profile"))
    ]


async def ready(gateway: Any, *replicas: Any, **settings: Any) -> Any:
    running = await gateway(*replicas, **settings)
    await running.linked(replicas=len(replicas))
    await running.linked("scorer", replicas=len(replicas))
    return running


async def test_pod_without_storage_is_asked_about_if_a_rule_touches_it(
    gateway: Any, replica: Any, body: Any, broken: Any
) -> None:
    """For both verbs; a pod that no rule touches keeps the fast path."""
    one = await replica(rejected={"node-3": broken}, selectors=(BATCH, GPU))
    running = await ready(gateway, one)

    for labels, failed, scores in (({"accelerator": "gpu"}, ["node-3"], 3), ({"accelerator": "tpu"}, [], 0)):
        call = body(*NODES, volumes=NO_VOLUMES, labels=labels)
        assert rejected(await running.post("/filter", call)) == failed
        assert len((await running.post("/prioritize", call)).json) == scores
    assert len(asked_by(one, "FilterRequest")) == len(asked_by(one, "ScoreRequest")) == 1


async def test_only_what_selectors_can_see_crosses(gateway: Any, replica: Any, body: Any) -> None:
    """Annotations may hold anything: those that no selector names stay here, and without rules so does all else."""
    strict, plain = await replica(selectors=(GPU, BATCH)), await replica()
    queue, secret = "batch.example.com/queue", "example.com/secret"
    call = body(*NODES, labels={"app": "db"}, annotations={queue: "night", secret: "x"})
    for one in (strict, plain):
        await (await ready(gateway, one)).post("/filter", call)

    (seen,) = asked_by(strict, "FilterRequest")
    assert (seen.profile.namespace, dict(seen.profile.labels)) == ("shop", {"app": "db"})
    assert dict(seen.profile.annotations) == {queue: "night"}
    (seen,) = asked_by(plain, "FilterRequest")
    assert not seen.HasField("profile")


async def test_pods_that_the_same_rules_touch_share_an_answer(gateway: Any, replica: Any, body: Any) -> None:
    """However else they differ."""
    one = await replica(selectors=(GPU, BATCH), generation=7)
    running = await ready(gateway, one)
    for labels in ({"app": "a"}, {"app": "b"}, {"accelerator": "gpu"}, {"accelerator": "gpu", "app": "c"}):
        await running.post("/filter", body(*NODES, labels=labels))

    assert [question.known_generation for question in asked_by(one, "FilterRequest")] == [0, 7, 0, 7]
    assert {question.policy for question in asked_by(one, "FilterRequest")} == {"p1"}


async def test_new_policy_counts_from_its_hello_on(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """Its rules decide who is asked about, and no answer of the old one is offered, although generations are equal."""
    one = await replica(generation=7)
    running = await ready(gateway, one)
    of_gpu = body(*NODES, volumes=NO_VOLUMES, labels={"accelerator": "gpu"})
    await running.post("/filter", body(*NODES))
    assert rejected(await running.post("/filter", of_gpu)) == []

    await one.adopt("p2", selectors=(GPU,), rejected={"node-3": broken})
    await running.works_by("p2")

    assert rejected(await running.post("/filter", of_gpu)) == ["node-3"]
    assert rejected(await running.post("/filter", body(*NODES))) == ["node-3"]
    assert [(q.policy, q.known_generation) for q in asked_by(one, "FilterRequest")] == [("p1", 0), ("p2", 0), ("p2", 0)]


async def test_policy_that_changes_while_a_question_waits_is_asked_by_what_it_says(
    gateway: Any, replica: Any, body: Any, broken: Any, until: Any
) -> None:
    """The old policy had no rules, so the first question carried no profile: an answer to it would be a guess."""
    one = await replica()
    running = await ready(gateway, one)
    one.going.clear()
    call = asyncio.create_task(running.post("/filter", body(*NODES, labels={"accelerator": "gpu"})))
    await until(lambda: asked_by(one, "FilterRequest"))
    await one.adopt("p2", selectors=(GPU,), rejected={"node-3": broken})
    one.going.set()

    assert rejected(await call) == ["node-3"]
    first, second = asked_by(one, "FilterRequest")
    assert (first.policy, first.HasField("profile")) == ("p1", False)
    assert (second.policy, dict(second.profile.labels)) == ("p2", {"accelerator": "gpu"})


async def test_answer_by_another_policy_than_asked_for_is_used_and_not_kept(
    gateway: Any, replica: Any, body: Any, broken: Any
) -> None:
    """A replica that has not told of its new policy yet."""
    one = await replica(generation=7)
    running = await ready(gateway, one)
    await running.post("/filter", body(*NODES))
    await one.adopt_silently("p2", rejected={"node-3": broken})

    for _ in range(2):
        assert rejected(await running.post("/filter", body(*NODES))) == ["node-3"]

    await one.adopt_silently("p1", rejected={})
    assert rejected(await running.post("/filter", body(*NODES))) == []
    assert [question.known_generation for question in asked_by(one, "FilterRequest")] == [0, 7, 7, 7]
    answers = [
        running.value("leadsman_gateway_hop_answers_total", hop="filter", kind=kind) for kind in ("full", "unchanged")
    ]
    assert answers == [3, 1]


async def test_replicas_that_work_by_different_policies_are_told(gateway: Any, replica: Any) -> None:
    """As a degradation with their addresses, and as a metric; the gateway stays ready."""
    one, two = await replica(instance="one"), await replica(instance="two", policy="p2")
    running = await ready(gateway, one, two)

    answer = await running.get("/readyz?verbose")
    assert answer.status == 200
    assert f"[-]policy replicas work by different policies: filter 127.0.0.1:{one.port} by p1" in answer.body.decode()
    assert f"127.0.0.1:{two.port} ready, policy p2" in answer.body.decode()
    assert running.value("leadsman_gateway_policies") == 2

    await one.adopt("p2")
    await running.works_by("p2")
    assert running.value("leadsman_gateway_policies") == 1


async def test_hello_that_cannot_be_understood_is_none(
    gateway: Any, replica: Any, until: Any, monkeypatch: Any
) -> None:
    """To guess at a newer kind of selector would let pods take the fast path that must not."""
    term = requirements_pb2.SelectorTerm(key="app", operator="Matches")
    hello = requirements_pb2.Hello(instance="new", selectors=[requirements_pb2.PodSelector(labels=[term])])
    one = await replica()
    monkeypatch.setattr(one, "_hello", lambda response: response(hello=hello))
    running = await gateway(one)

    def refused() -> float:
        return float(running.value("leadsman_gateway_hop_failures_total", hop="filter", cause="bad_hello"))

    await until(refused)
    assert running.value("leadsman_gateway_hop_links_ready", hop="filter") == 0

    monkeypatch.undo()
    await running.linked()
    await running.linked("scorer")
    before = refused()
    for response, stream in one.streams_to.items():
        await stream.write(response(hello=hello))
    await until(lambda: refused() > before)


async def test_evictions_are_looked_for_only_where_they_could_help(
    gateway: Any, replica: Any, body: Any, broken: Any, resolvable: Any
) -> None:
    """Two lists for filter; preempt keeps the victims of nodes that fail only for a reason that evictions resolve."""
    one = await replica(rejected={"node-1": broken, "node-2": resolvable})
    running = await ready(gateway, one)
    victims = {node: {"Pods": [{"UID": node}], "NumPDBViolations": 0} for node in NODES}

    reply = (await running.post("/filter", body(*NODES))).json
    kept = (await running.post("/preempt", body(NodeNameToMetaVictims=victims))).json["NodeNameToMetaVictims"]

    assert reply["NodeNames"] == ["node-3"]
    assert reply["FailedNodes"] == {"node-2": "node(s) had no match for the policy rule (idle-nodes)"}
    assert reply["FailedAndUnresolvableNodes"] == {"node-1": broken.text}
    assert list(kept) == ["node-2", "node-3"]


@pytest.mark.parametrize("whole", [True, False], ids=["shadow-mode", "one-rule"])
async def test_shadow_is_counted_and_never_enforced(
    whole: bool, gateway: Any, replica: Any, body: Any, resolvable: Any, until: Any
) -> None:
    """In shadow mode every candidate passes, victims stay as they are, and kube-scheduler gets no scores from us."""
    script = {"rejected": {"node-1": resolvable}, "dry_run": True} if whole else {"shadow": {"node-1": resolvable}}
    running = await ready(gateway, await replica(scores={"node-2": 9}, **script))
    victims = {node: {"Pods": [{"UID": node}], "NumPDBViolations": 0} for node in NODES}

    reply = (await running.post("/filter", body(*NODES))).json
    kept = (await running.post("/preempt", body(NodeNameToMetaVictims=victims))).json["NodeNameToMetaVictims"]
    scores = (await running.post("/prioritize", body(*NODES))).json

    assert (reply["NodeNames"], reply["FailedNodes"], reply["FailedAndUnresolvableNodes"]) == (list(NODES), {}, {})
    assert kept == victims
    assert [entry["Score"] for entry in scores] == ([] if whole else [5, 9, 5])
    name = "leadsman_gateway_shadow_rejected_nodes_total"
    await until(lambda: running.value(name, verb="preempt", reason="RuleNotMet") == 1)
    assert running.value(name, verb="filter", reason="RuleNotMet") == 1
    assert running.value("leadsman_gateway_rejected_nodes_total", verb="filter", reason="RuleNotMet") == 0
    assert running.value("leadsman_gateway_rule_rejected_nodes_total", rule="idle-nodes", mode="shadow") == 1


async def test_scorer_is_told_where_the_data_is(gateway: Any, replica: Any, body: Any, tmp_path: Any) -> None:
    """From the volume, or from the pod's annotation; the filter is not, for it makes no difference to it."""
    (tmp_path / "volume.yaml").write_text(VOLUME)
    one = await replica(generation=7)
    running = await ready(gateway, one)
    for annotations in (None, {NEAR_ZONE: "c"}, None):
        call = body(*NODES, volumes=CLAIMED, annotations=annotations)
        await running.post("/filter", call)
        await running.post("/prioritize", call)

    asked = asked_by(one, "ScoreRequest")
    assert [(list(q.near_zones), list(q.near_regions)) for q in asked] == [
        (["a", "b"], ["west"]),
        (["c"], []),
        (["a", "b"], ["west"]),
    ]
    assert [question.known_generation for question in asked] == [0, 0, 7]
    assert [question.known_generation for question in asked_by(one, "FilterRequest")] == [0, 7, 7]


@pytest.mark.parametrize(("flag", "backends"), [({}, ["fast", "a7"]), ({"disk.csi": "pool"}, ["fast", "fast"])])
async def test_policy_names_backends_unless_the_command_line_does(
    flag: Any, backends: Any, gateway: Any, replica: Any, body: Any, tmp_path: Any
) -> None:
    """A new policy names them anew, for the next call."""
    (tmp_path / "volume.yaml").write_text(VOLUME)
    one = await replica(backend_attributes={"disk.csi": "pool"})
    running = await ready(gateway, one, backend_attributes=flag)
    call = body(*NODES, volumes=CLAIMED)

    await running.post("/filter", call)
    await one.adopt("p2", backend_attributes={"disk.csi": "array"})
    await running.works_by("p2")
    await running.post("/filter", call)

    assert [question.requirements[0].backend for question in asked_by(one, "FilterRequest")] == backends
