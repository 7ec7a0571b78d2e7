"""What a filter says of a pod's own volumes counts for that pod, beside an answer that all pods of its kind share."""

from typing import Any

import pytest

pytestmark = pytest.mark.integration

NODES = ("node-1", "node-2", "node-3")
TEXT = "node(s) had a hung storage mount (nfs.csi.k8s.io)"


def volumes(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "csi": {"driver": "nfs.csi.k8s.io"}} for name in names]


def kept(running: Any) -> tuple[float, float]:
    value = running.value
    return tuple(value("leadsman_gateway_hop_answers_total", hop="filter", kind=kind) for kind in ("full", "unchanged"))


async def test_a_bad_volume_keeps_only_its_own_pods_off(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """Whether the filter's answer is new to the gateway or unchanged, and before and after pods with other volumes."""
    one = await replica(rejected={"node-3": broken}, bad_volumes={"bad": {"node-1": broken, "elsewhere": broken}})
    running = await gateway(one)
    await running.linked()

    async def failed(*names: str) -> Any:
        reply = (await running.post("/filter", body(*NODES, volumes=volumes(*names)))).json
        failed = reply["FailedAndUnresolvableNodes"]
        assert reply["NodeNames"] == [node for node in NODES if node not in failed]
        return failed

    for _ in range(2):
        assert await failed("bad") == {"node-1": TEXT, "node-3": TEXT}
        assert await failed("good") == {"node-3": TEXT}
        assert await failed("good", "bad") == {"node-1": TEXT, "node-3": TEXT}
    assert kept(running) == (1, 5)
    assert {need.volume for question in one.questions for need in question.requirements} == {"good", "bad"}


async def test_thousands_of_volumes_share_one_answer(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """The filter is asked about each, and sends the nodes once."""
    one = await replica(rejected={"node-3": broken})
    running = await gateway(one)
    await running.linked()
    client = await running.connect()
    for number in range(300):
        await client.post("/filter", body(*NODES, volumes=volumes(f"pv-{number}")))

    assert kept(running) == (1, 299)
    assert one.questions[-1].requirements[0].volume == "pv-299"


async def test_nonsense_about_volumes_is_no_answer(gateway: Any, replica: Any, body: Any, broken: Any) -> None:
    """A replica whose fields do not fit each other is left, and the answer is the configured one; it is counted."""
    one = await replica(bad_volumes={"bad": {"node-1": broken}})
    running = await gateway(one, on_failure="allow")
    await running.linked()
    one.half_packed = True

    reply = (await running.post("/filter", body(*NODES, volumes=volumes("bad")))).json
    assert reply["NodeNames"] == list(NODES)
    assert running.value("leadsman_gateway_hop_failures_total", hop="filter", cause="bad_answer") == 1
