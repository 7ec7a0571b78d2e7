"""leadsman-scorer as a process: real NATS on one side, a gateway's real stream on the other."""

from typing import Any

import pytest

from leadsman.domain.states import State
from leadsman.testing.reports import report, status
from leadsman.wire.hop import decode_score_answer

pytestmark = pytest.mark.integration


async def test_scores_follow_the_reports(fleet: Any) -> None:
    """Hello, scores with a default for nodes never heard of, Unchanged, and new scores after a report; then exit 0."""
    await fleet.publish(
        report("node-1", status("nfs", State.HEALTHY), status("nfs/a", State.DEGRADED)),
        report("node.2", status("nfs", State.HEALTHY)),
    )
    service = await fleet.start("scorer")
    await service.ready()
    stream = service.score()
    assert (await stream.read()).hello.instance.startswith("scorer-")

    first = await stream.ask("nfs/a")
    answer = decode_score_answer(first)
    assert dict(zip(answer.nodes, answer.caps, strict=True)) == {"node-1": 3, "node.2": 10}
    scores = dict(zip(answer.nodes, answer.scores, strict=True))
    assert scores["node-1"] == 3
    assert 3 < scores["node.2"] <= 10
    assert answer.default <= 5
    assert [column.name for column in answer.columns] == ["storageLatency", "ioPressure", "capacity", "cpu", "memory"]
    assert (await stream.ask("nfs/a", known=first.generation)).WhichOneof("answer") == "unchanged"

    await fleet.publish(report("node-1", status("nfs", State.HEALTHY), status("nfs/a", State.HEALTHY), seq=2))

    async def better() -> Any:
        reply = await stream.ask("nfs/a", known=first.generation)
        return reply if reply.WhichOneof("answer") == "scores" else None

    last = await fleet.eventually(better, "a new generation")
    better_answer = decode_score_answer(last)
    assert dict(zip(better_answer.nodes, better_answer.caps, strict=True))["node-1"] == 10
    assert await service.end() == 0, service.log.read_text()
