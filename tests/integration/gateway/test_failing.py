"""When the services behind are slow, frozen, dead or talk nonsense, every call is answered, in time and visibly."""

import asyncio
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from leadsman.runtime.options import Address

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


async def test_body_that_comes_slowly_is_decided_all_the_same(
    gateway: Any, replica: Any, body: Any, broken: Any
) -> None:
    """The deadline is for what is behind the gateway; a client that takes longer to send still gets a verdict."""
    running = await gateway(await replica(rejected={"node-1": broken}), deadline_s=0.1, on_failure="reject")
    await running.linked()
    client, sent = await running.connect(), body(*NODES)
    await client.send(f"POST /filter HTTP/1.1\r\nHost: g\r\nContent-Length: {len(sent)}\r\n\r\n".encode() + sent[:20])
    await asyncio.sleep(0.3)  # a slow client, not a condition
    await client.send(sent[20:])

    assert (await client.answer()).json["NodeNames"] == ["node-2"]
    assert outcomes(running, "filter") == {"decided": 1}


@pytest.mark.parametrize("hop", ["filter", "scorer"])
async def test_frozen_replica_is_shown_before_the_first_call(hop: Any, gateway: Any, replica: Any) -> None:
    """An idle gateway must not say that all is well while what it would use has lost its view of the nodes."""
    running = await gateway(await replica(frozen=True))
    await running.linked(hop)

    assert running.value("leadsman_gateway_hop_frozen", hop=hop) == 1
    assert f"[-]{hop} ".encode() in (await running.get("/readyz?verbose")).body


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


async def test_repeated_nonsense_is_counted_and_logged_once(gateway: Any, replica: Any, body: Any) -> None:
    """Every call meets it again; the log must not grow with the calls."""
    running = await gateway(await replica(nonsense=True))
    await running.linked()
    with capture_logs() as lines:
        for _ in range(5):
            await running.post("/filter", body(*NODES))

    said = [line["event"] for line in lines]
    assert running.value("leadsman_gateway_hop_failures_total", hop="filter", cause="bad_answer") == 5
    assert (said.count("replica answered nonsense"), said.count("replica left")) == (1, 1)


@pytest.mark.parametrize("late", ["filter", "scorer"])
async def test_gateway_is_ready_once_filter_and_scorer_have_answered(
    late: str, gateway: Any, replica: Any, monkeypatch: Any
) -> None:
    """A fresh replica does not take traffic before; the wait is bounded, since no answer at all would be worse."""
    silent = await replica(says_hello=False)
    running = await gateway(await replica(), **{f"{late}s": (Address("127.0.0.1", silent.port),)})
    await running.linked("scorer" if late == "filter" else "filter")
    answer = await running.get("/readyz")
    assert (answer.status, f"waiting for {late}, ".encode() in answer.body) == (503, True)

    with monkeypatch.context() as patch:
        patch.setattr("leadsman_gateway.service.WARM_UP_S", 0.0)
        answer = await running.get("/readyz?verbose")
        assert (answer.status, f"over without a {late}".encode() in answer.body) == (200, True)

    await silent.stop()
    silent.says_hello = True
    await silent.start()
    await running.linked(late)
    assert (await running.get("/readyz")).status == 200
