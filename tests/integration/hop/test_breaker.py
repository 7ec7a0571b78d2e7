"""The breaker in running services: a mass of bad plugins is taken for a fault of monitoring, for all to see."""

from typing import Any

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport
from leadsman.domain.states import State
from leadsman.domain.verdicts import Rejection
from leadsman.testing.reports import report, status
from leadsman.wire.hop import decode_filter_answer, decode_score_answer

pytestmark = pytest.mark.integration

NODES = [f"node-{number}" for number in range(1, 7)]
HUNG = Rejection(Reason.MOUNT_HUNG, "nfs")


def plugin_dead(node: str, seq: int) -> NodeReport:
    """The plugin does not answer, says the control plane; the backend behind it is well."""
    dead = status("nfs", State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING)
    return report(node, dead, status("nfs/a", State.HEALTHY), seq=seq)


def well(node: str, seq: int) -> NodeReport:
    return report(node, status("nfs", State.HEALTHY), status("nfs/a", State.HEALTHY), seq=seq)


async def test_a_mass_failure_opens_the_breaker_and_is_visible_everywhere(fleet: Any) -> None:
    """Verdicts, scores, flag in replies, metric, log, /readyz?verbose; a hung mount still rejects; it closes again."""
    await fleet.publish(*[well(node, 1) for node in NODES])
    filters, scorers = await fleet.start("filter"), await fleet.start("scorer")
    asked, scored = filters.filter(), scorers.score()
    await asked.read()
    await scored.read()
    await fleet.publish(*[plugin_dead(node, 2) for node in NODES[:2]])

    async def rejected() -> list[str]:
        return sorted(decode_filter_answer(await asked.ask("nfs/a")).rejected)

    async def two_rejected() -> bool:
        return await rejected() == NODES[:2]

    await fleet.eventually(two_rejected, "two of six are rejected")
    hung = report("node-6", status("nfs", State.HEALTHY), status("nfs/a", State.UNHEALTHY, Reason.MOUNT_HUNG), seq=2)
    await fleet.publish(*[plugin_dead(node, 2) for node in NODES[2:5]], hung)

    async def only_the_hung_one() -> bool:
        return decode_filter_answer(await asked.ask("nfs/a")).rejected == {"node-6": HUNG}

    await fleet.eventually(only_the_hung_one, "five of six nodes look bad by their plugins: only the hung mount counts")

    async def flagged() -> bool:
        return "breaker:nfs" in (await asked.ask("nfs/a")).degraded

    await fleet.eventually(flagged, "replies say so")
    answer = decode_score_answer(await scored.ask("nfs/a"))
    caps = dict(zip(answer.nodes, answer.caps, strict=True))
    assert caps == dict.fromkeys(NODES[:5], 1) | {"node-6": 0}
    for service in (filters, scorers):
        assert "[-]breaker open for nfs" in (await service.get("/readyz?verbose"))[1]
        assert await service.metric('leadsman_breaker_open{backend="",driver="nfs"}') == 1
        assert "breaker opened" in service.log.read_text()

    await fleet.publish(*[well(node, 3) for node in NODES[1:]])

    async def closed() -> bool:
        return await rejected() == ["node-1"]

    await fleet.eventually(closed, "it closes by itself and the one bad node is rejected again", within_s=20)
    assert await filters.metric('leadsman_breaker_open{backend="",driver="nfs"}') == 0
    assert "[+]breaker closed for every storage" in (await filters.get("/readyz?verbose"))[1]
    assert await filters.metric('leadsman_breaker_transitions_total{backend="",driver="nfs",transition="closed"}') == 1


async def test_wrong_names_open_breakers_of_their_own_and_too_many_flags_are_counted(fleet: Any) -> None:
    """A frozen plugin rejects its node all the while; replies name the first twenty, the metric each."""
    wrong = [f"nfs/typo-{number:02}" for number in range(25)]
    unresolved = [status(storage, State.UNHEALTHY, Reason.NAME_RESOLUTION_FAILED) for storage in wrong]
    others = [report(node, status("nfs", State.HEALTHY), *unresolved) for node in NODES[1:]]
    await fleet.publish(report("node-1", status("nfs", State.UNHEALTHY, Reason.DRIVER_NOT_RESPONDING), *unresolved))
    await fleet.publish(*others)
    service = await fleet.start("filter")
    stream = service.filter()
    await stream.read()

    async def flagged() -> bool:
        named = [f"breaker:{storage}" for storage in wrong[:20]]
        return list((await stream.ask("nfs/typo-00")).degraded) == [*named, "moreBreakers:5"]

    await fleet.eventually(flagged, "twenty are named and five counted")
    reply = await stream.ask("nfs/typo-24")
    assert decode_filter_answer(reply).rejected == {"node-1": Rejection(Reason.DRIVER_NOT_RESPONDING, "nfs")}
    assert await service.metric('leadsman_breaker_open{backend="typo-24",driver="nfs"}') == 1
    assert await service.metric('leadsman_breaker_open{backend="",driver="nfs"}') is None


async def test_a_restart_does_not_open_the_breaker_on_the_first_rows_that_it_reads(fleet: Any) -> None:
    """Most nodes are well; that the bad ones are read first must not turn them good."""
    bad, good = NODES, [f"z-{number}" for number in range(12)]
    await fleet.publish(*[plugin_dead(node, 1) for node in bad], *[well(node, 1) for node in good])
    service = await fleet.start("filter")
    stream = service.filter()
    await stream.read()
    reply = await stream.ask("nfs/a")
    assert sorted(decode_filter_answer(reply).rejected) == bad
    assert list(reply.degraded) == []
    assert await service.metric('leadsman_breaker_open{backend="",driver="nfs"}') is None
