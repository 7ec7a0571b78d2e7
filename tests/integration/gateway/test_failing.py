"""When the services behind are slow, frozen, dead or talk nonsense, every call is answered, in time and visibly."""

import asyncio
import time
from typing import Any

import pytest

pytestmark = pytest.mark.integration

NODES = ("node-1", "node-2")
UNAVAILABLE = "node(s) had no storage verdict (nfs.csi.k8s.io)"
VICTIMS = {"node-1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}


async def timed(call: Any) -> Any:
    """The answer and the seconds it took."""
    started = time.monotonic()
    answer = await call
    return answer, time.monotonic() - started


def outcomes(running: Any, verb: str) -> dict[str, float]:
    kinds = ("decided", "failed-open", "failed-closed")
    counted = {kind: running.value("leadsman_gateway_requests_total", verb=verb, outcome=kind) for kind in kinds}
    return {kind: number for kind, number in counted.items() if number}


@pytest.mark.parametrize(
    ("on_failure", "passed", "failed", "outcome"),
    [
        ("allow", list(NODES), {}, "failed-open"),
        ("reject", [], dict.fromkeys(NODES, UNAVAILABLE), "failed-closed"),
    ],
)
async def test_frozen_filter_is_given_up_at_the_deadline(
    on_failure: Any, passed: Any, failed: Any, outcome: Any, gateway: Any, replica: Any, body: Any
) -> None:
    """A filter that takes the question and never answers costs the deadline, and the configured mode answers."""
    running = await gateway(await replica(silent=True), deadline_s=0.3, on_failure=on_failure)
    await running.linked()

    answer, seconds = await timed(running.post("/filter", body(*NODES)))

    assert answer.status == 200
    assert (answer.json["NodeNames"], answer.json["FailedAndUnresolvableNodes"]) == (passed, failed)
    assert 0.25 < seconds < 0.6
    assert outcomes(running, "filter") == {outcome: 1}
    assert running.value("leadsman_gateway_degraded") == 1


@pytest.mark.parametrize(("on_failure", "kept"), [("allow", VICTIMS), ("reject", {})])
async def test_without_a_filter_every_verb_is_answered_at_once(
    on_failure: Any, kept: Any, gateway: Any, body: Any
) -> None:
    """No address at all: filter and preempt by the mode, prioritize without an opinion; never a 5xx."""
    running = await gateway(on_failure=on_failure)

    filtered, seconds = await timed(running.post("/filter", body(*NODES)))
    scored = await running.post("/prioritize", body(*NODES))
    preempted = await running.post("/preempt", body(NodeNameToMetaVictims=VICTIMS))

    assert [filtered.status, scored.status, preempted.status] == [200, 200, 200]
    assert len(filtered.json["NodeNames"]) == (2 if on_failure == "allow" else 0)
    assert scored.body == b"[]"
    assert preempted.json == {"NodeNameToMetaVictims": kept}
    assert seconds < 0.2


async def test_rejection_for_want_of_a_verdict_is_the_same_every_time(gateway: Any, body: Any) -> None:
    """A text that changes between attempts makes kube-scheduler spin; several drivers name the first one, sorted."""
    running = await gateway(on_failure="reject")
    volumes = [{"name": "b", "csi": {"driver": "z.csi"}}, {"name": "a", "csi": {"driver": "a.csi"}}]

    replies = {(await running.post("/filter", body(*NODES, volumes=volumes))).body for _ in range(3)}

    assert len(replies) == 1
    assert b"node(s) had no storage verdict (a.csi)" in replies.pop()


async def test_second_replica_answers_inside_the_deadline(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """The frozen one is left after its share of the time, and is not asked again."""
    frozen = await replica(instance="frozen", silent=True)
    well = await replica(instance="well", rejected={"node-1": broken})
    running = await gateway(frozen, well, deadline_s=0.8)
    await running.linked(replicas=2)

    first, seconds = await timed(running.post("/filter", body(*NODES)))
    second, seconds_after = await timed(running.post("/filter", body(*NODES)))

    assert first.json["NodeNames"] == second.json["NodeNames"] == ["node-2"]
    assert seconds < 0.8
    assert seconds_after < 0.2
    assert len(frozen.questions) == 1
    assert outcomes(running, "filter") == {"decided": 2}


async def test_replica_that_dies_with_a_question_open_costs_nothing(
    gateway: Any, replica: Any, body: Any, broken: Any, until: Any
) -> None:
    """The question goes to the next replica as soon as the stream breaks."""
    dying = await replica(instance="dying", silent=True)
    well = await replica(instance="well", rejected={"node-1": broken})
    running = await gateway(dying, well, deadline_s=5.0)
    await running.linked(replicas=2)

    call = asyncio.create_task(timed(running.post("/filter", body(*NODES))))
    await until(lambda: dying.questions)
    await dying.stop()
    answer, seconds = await call

    assert answer.json["NodeNames"] == ["node-2"]
    assert seconds < 1.0


async def test_filter_that_comes_back_is_asked_again(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """The link is made anew by itself, and the gateway stops being degraded."""
    one = await replica(rejected={"node-1": broken})
    running = await gateway(one)
    await running.linked()
    await one.stop()
    await running.linked(replicas=0)
    assert (await running.post("/filter", body(*NODES))).json["NodeNames"] == list(NODES)
    assert b"[-]filter" in (await running.get("/readyz?verbose")).body

    await one.start()
    await running.linked()

    assert (await running.post("/filter", body(*NODES))).json["NodeNames"] == ["node-2"]
    assert running.value("leadsman_gateway_degraded") == 0
    assert b"[+]filter" in (await running.get("/readyz?verbose")).body


async def test_idle_link_to_a_frozen_replica_is_noticed_without_a_call(
    gateway: Any, replica: Any, monkeypatch: Any, until: Any
) -> None:
    """Silence is found by asking, so the first pod after it does not pay for it."""
    monkeypatch.setattr("leadsman_gateway.hop.link.PROBE_S", 0.1)
    monkeypatch.setattr("leadsman_gateway.hop.link.PROBE_ANSWER_S", 0.1)
    one = await replica()
    running = await gateway(one)
    await running.linked()
    one.silent, one.says_hello = True, False

    await running.linked(replicas=0)

    await until(lambda: running.value("leadsman_gateway_hop_failures_total", hop="filter", cause="silent"))


async def test_replica_that_says_no_hello_is_not_used(gateway: Any, replica: Any, body: Any, monkeypatch: Any) -> None:
    """A replica that has not read the bus yet must not decide."""
    monkeypatch.setattr("leadsman_gateway.hop.link.HELLO_S", 0.1)
    one = await replica(says_hello=False)
    running = await gateway(one)

    answer, seconds = await timed(running.post("/filter", body(*NODES)))

    assert answer.json["NodeNames"] == list(NODES)
    assert seconds < 0.5
    assert one.asked == []
    assert outcomes(running, "filter") == {"failed-open": 1}


async def test_nonsense_of_one_replica_is_not_believed(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """An answer without a verdict counts as none, and the next replica is asked."""
    mad = await replica(instance="mad", nonsense=True)
    well = await replica(instance="well", rejected={"node-1": broken})
    running = await gateway(mad, well)
    await running.linked(replicas=2)

    assert (await running.post("/filter", body(*NODES))).json["NodeNames"] == ["node-2"]
    assert running.value("leadsman_gateway_hop_failures_total", hop="filter", cause="bad_answer") == 1


async def test_gateway_is_ready_once_a_filter_has_answered(gateway: Any, replica: Any, monkeypatch: Any) -> None:
    """A fresh replica does not take traffic before; the wait is bounded, since no answer at all would be worse."""
    one = await replica(says_hello=False)
    running = await gateway(one)
    assert (await running.get("/readyz")).status == 503

    monkeypatch.setattr("leadsman_gateway.service.WARM_UP_S", 0.0)
    assert (await running.get("/readyz")).status == 200
    assert b"failed-open" not in (await running.get("/readyz?verbose")).body
