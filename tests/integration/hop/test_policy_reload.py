"""A policy file under a running service: taken when it is good, refused when it is not, and told to everybody."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from leadsman.bus.subjects import POLICY, WAKE
from leadsman.domain.reasons import Reason
from leadsman.domain.states import State
from leadsman.domain.verdicts import Rejection
from leadsman.testing.reports import report, status
from leadsman.v1 import requirements_pb2
from leadsman.wire.hop import decode_filter_answer, decode_score_answer
from leadsman.wire.notices import WakeNotice, decode_policy, decode_wake

pytestmark = pytest.mark.integration

HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicy\n"
GPU_RULE = HEAD + (
    "rules:\n"
    "  - name: gpu-nodes\n"
    "    pods: {matchLabels: {accelerator: gpu}}\n"
    "    require: {labels: {node-type: gpu}}\n"
)
GPU_SCORE = HEAD + (
    "score: {weights: {storageLatency: 0, ioPressure: 0, capacity: 0, cpu: 0, memory: 0, gpu: 0, nearness: 0}}\n"
    "rules:\n"
    "  - name: gpu-nodes\n"
    "    pods: {matchLabels: {accelerator: gpu}}\n"
    "    prefer: {labels: {node-type: gpu}, weight: 1}\n"
)
NOT_MET = Rejection(Reason.RULE_NOT_MET, "gpu-nodes")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD)
    return path


def write(policy: Path, text: str) -> None:
    policy.write_text(text)


async def nodes(fleet: Any) -> None:
    """A node with the label and one without, both healthy."""
    plain = report("plain", status("nfs", State.HEALTHY))
    await fleet.publish(plain, dataclasses.replace(plain, node="gpu", labels={"node-type": "gpu"}))


async def ask_gpu(stream: Any, *storages: str) -> Any:
    """The reply about a pod with the label `accelerator: gpu`."""
    needs = [requirements_pb2.Requirement(driver=storage) for storage in storages]
    profile = requirements_pb2.Profile(labels={"accelerator": "gpu"})
    await stream.call.write(stream.make(id=99, requirements=needs, profile=profile))
    return await stream.read()


async def test_a_rule_that_appears_is_in_force_within_seconds_and_told(fleet: Any, policy: Path) -> None:
    """A new Hello with its selector, verdicts by it, its fingerprint everywhere, and a wake for whoever waits."""
    await nodes(fleet)
    service = await fleet.start("filter", "--policy", str(policy))
    await service.ready()
    stream = service.filter()
    before = (await stream.read()).hello
    assert list(before.selectors) == []
    assert decode_filter_answer(await ask_gpu(stream)).rejected == {}
    notices: asyncio.Queue[WakeNotice] = asyncio.Queue()
    client = await fleet.client()

    async def heard(msg: Any) -> None:
        notices.put_nowait(decode_wake(msg.data))

    await client.subscribe(WAKE, cb=heard)
    await client.flush()

    write(policy, GPU_RULE)
    said = (await stream.read()).hello
    assert said.policy != before.policy
    assert said.selectors[0].labels[0].key == "accelerator"
    reply = await ask_gpu(stream, "nfs")
    assert (reply.policy, decode_filter_answer(reply).rejected) == (said.policy, {"plain": NOT_MET})
    assert decode_filter_answer(await stream.ask("nfs")).rejected == {}
    async with asyncio.timeout(10):
        while f"policy {said.policy}" not in (await notices.get()).storages:
            pass
    assert f"[+]policy {said.policy}, mode enforce, 1 rules" in (await service.get("/readyz?verbose"))[1]
    assert await service.metric(f'leadsman_policy_info{{mode="enforce",policy="{said.policy}"}}') == 1
    assert await service.metric('leadsman_filter_rule_nodes{outcome="fail",rule="gpu-nodes"}') == 1
    answer = decode_policy((await client.request(POLICY, b"", timeout=5)).data)
    assert (answer.component, answer.fingerprint, answer.text) == ("filter", said.policy, GPU_RULE)


async def test_a_bad_version_keeps_the_last_good_one_and_says_so(fleet: Any, policy: Path) -> None:
    """Ready, degraded with file and line, counted, in every reply; the next good version mends all of it."""
    write(policy, GPU_RULE)
    await nodes(fleet)
    service = await fleet.start("filter", "--policy", str(policy))
    await service.ready()
    stream = service.filter()
    good = (await stream.read()).hello.policy

    write(policy, GPU_RULE.replace("require:", "requires:"))

    async def refused() -> bool:
        code, words = await service.get("/readyz?verbose")
        assert code == 200
        return f"[-]policy {good}" in words and "did you mean 'require'?" in words and "policy.yaml:6" in words

    await fleet.eventually(refused, "the mistake is shown")
    reply = await ask_gpu(stream)
    assert (reply.policy, decode_filter_answer(reply).rejected) == (good, {"plain": NOT_MET})
    assert await service.metric("leadsman_policy_refused") == 1
    assert await service.metric('leadsman_policy_reloads_total{result="refused"}') == 1

    async def in_replies() -> bool:
        return "policyRefused" in (await ask_gpu(stream)).degraded

    await fleet.eventually(in_replies, "replies say so")
    write(policy, GPU_RULE.replace("node-type: gpu", "node-type: other"))
    assert (await stream.read()).hello.policy != good
    assert sorted(decode_filter_answer(await ask_gpu(stream)).rejected) == ["gpu", "plain"]
    assert "policyRefused" not in (await ask_gpu(stream)).degraded


async def test_a_swapped_symbolic_link_is_noticed(fleet: Any, tmp_path: Path) -> None:
    """As a ConfigMap volume does it: the file is a link through `..data`, and that link is replaced."""
    for version, text in (("v1", HEAD), ("v2", GPU_RULE)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "policy.yaml").write_text(text)
    data = tmp_path / "..data"
    data.symlink_to("v1")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    await nodes(fleet)
    service = await fleet.start("filter", "--policy", str(tmp_path / "policy.yaml"))
    stream = service.filter()
    assert len((await stream.read()).hello.selectors) == 0
    (tmp_path / "..data_tmp").symlink_to("v2")
    (tmp_path / "..data_tmp").rename(data)
    assert len((await stream.read()).hello.selectors) == 1


async def test_scores_follow_a_new_policy(fleet: Any, policy: Path) -> None:
    """The plain case of the framework: the label gives 10, no label 0."""
    await nodes(fleet)
    service = await fleet.start("scorer", "--policy", str(policy))
    await service.ready()
    stream = service.score()
    await stream.read()
    write(policy, GPU_SCORE)
    assert len((await stream.read()).hello.selectors) == 1
    answer = decode_score_answer(await ask_gpu(stream))
    assert dict(zip(answer.nodes, answer.scores, strict=True)) == {"plain": 0, "gpu": 10}
    assert [(column.name, column.weight) for column in answer.columns] == [("rule:gpu-nodes", 1.0)]


async def test_shadow_mode_is_told_with_every_answer(fleet: Any, policy: Path) -> None:
    """Verdicts are computed and marked as not to be enforced."""
    write(policy, GPU_RULE.replace("rules:", "mode: shadow\nrules:"))
    await nodes(fleet)
    service = await fleet.start("filter", "--policy", str(policy))
    stream = service.filter()
    await stream.read()
    answer = decode_filter_answer(await ask_gpu(stream))
    assert (answer.dry_run, answer.rejected) == (True, {"plain": NOT_MET})


async def test_a_service_does_not_start_with_a_policy_that_it_cannot_read(fleet: Any, policy: Path) -> None:
    """There is no earlier version to go on with, so the message must lead to the mistake."""
    write(policy, GPU_RULE.replace("kind: SchedulingPolicy", "kind: SchedulingPolcy"))
    with pytest.raises(AssertionError, match=r"error: .*policy\.yaml:2: kind: .*did you mean 'SchedulingPolicy'"):
        await fleet.start("filter", "--policy", str(policy))
