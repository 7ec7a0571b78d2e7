"""`leadsman simulate` and `leadsman policy facts NODE` against a real bus, real reports and real replicas."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadsman.domain.states import State
from leadsman.testing.nats import NatsServer
from leadsman.testing.reports import status, volume
from leadsman.testing.rules import facts_report

from .conftest import Installation

pytestmark = pytest.mark.integration

GPU_ONLY = """apiVersion: leadsman.dev/v1alpha1
kind: SchedulingPolicy
rules:
  - name: gpu-nodes
    pods: {matchLabels: {accelerator: gpu}}
    require: {labels: {node-type: gpu}}
"""
IDLE_FIRST = """apiVersion: leadsman.dev/v1alpha1
kind: SchedulingPolicy
rules:
  - name: gpu-driver
    pods: {matchLabels: {accelerator: gpu}}
    require: {cel: node.gpu.driverMajor >= 550}
    onError: reject
  - name: idle-first
    pods: {matchLabels: {accelerator: gpu}}
    prefer: {cel: node.cpu.idle, weight: 10}
score:
  weights: {cpu: 0, memory: 1}
"""
HEALTHY = status("nfs.csi.k8s.io/10.0.0.9", State.HEALTHY)
HUNG = status("nfs.csi.k8s.io/10.0.0.9", State.UNHEALTHY)
REPORTS = (
    facts_report(
        "gpu-1", labels={"node-type": "gpu"}, facts={"gpu.driverMajor": 550, "cpu.idle": 0.8}, storages=[HEALTHY]
    ),
    facts_report("gpu-2", labels={"node-type": "gpu"}, facts={"cpu.idle": 0.8}, storages=[HEALTHY]),
    facts_report("gpu-3", labels={"node-type": "gpu"}, facts={"gpu.driverMajor": 550}, storages=[HUNG]),
    facts_report("cpu-1", facts={"cpu.idle": 0.2}, storages=[HEALTHY]),
)


@pytest.fixture
async def running(installation: Installation) -> Installation:
    """Four nodes, a filter and a scorer."""
    await installation.report(*REPORTS)
    await asyncio.to_thread(installation.start, "filter", GPU_ONLY)
    await asyncio.to_thread(installation.start, "scorer", GPU_ONLY)
    return installation


def pod_file(directory: Path, *, claim: str = "") -> str:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "ml", "labels": {"accelerator": "gpu"}},
        "spec": {},
    }
    if claim:
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    path = directory / "pod.yaml"
    path.write_text(yaml.safe_dump(pod))
    return str(path)


def manifests(directory: Path) -> str:
    """A claim bound to a volume of the server that the reports speak of."""
    folder = directory / "manifests"
    folder.mkdir()
    attributes = {"server": "10.0.0.9", "share": "/e"}
    documents = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "ml"},
            "spec": {"volumeName": "pv-1"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv-1"},
            "spec": {"csi": {"driver": "nfs.csi.k8s.io", "volumeHandle": "h", "volumeAttributes": attributes}},
        },
    ]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    return str(folder)


def test_a_pod_is_simulated_by_the_policy_in_force(running: Installation) -> None:
    """The policy comes from the replicas, the verdicts from the stored reports."""
    result = running.leadsman(
        "simulate", pod_file(running.directory, claim="data"), "--manifests", manifests(running.directory)
    )

    assert (result.returncode, result.stderr) == (0, "")
    head, policy, _, *rest = result.stdout.splitlines()
    assert head == "pod     ml/train, needs nfs.csi.k8s.io/10.0.0.9"
    assert policy.startswith("policy  filter-")
    assert policy.endswith(", enforce; rules for this pod: gpu-nodes")
    assert rest == [
        "NODE   VERDICT   SCORE  REASON",
        "gpu-1  allowed   5      -",
        "gpu-2  allowed   5      -",
        "cpu-1  rejected  4      RuleNotMet (rule gpu-nodes)",
        "gpu-3  rejected  0      MountHung (nfs.csi.k8s.io)",
        "",
        "2 of 4 nodes may take it.",
        "kube-scheduler's own plugins are not part of this.",
    ]


def test_another_policy_shows_what_it_would_change(running: Installation) -> None:
    """Verdicts and scores before and after; nobody works by it, and the services are not told."""
    other = running.directory / "other.yaml"
    other.write_text(IDLE_FIRST)
    result = running.leadsman("simulate", pod_file(running.directory), "--policy", str(other))

    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "pod     ml/train, needs no storage"
    assert lines[2].startswith(f"then    {other} ")
    assert lines[2].endswith(", enforce; rules for this pod: gpu-driver, idle-first")
    assert lines[4].split() == ["NODE", "VERDICT", "SCORE", "REASON"]
    rows = [line.split("  ") for line in lines[5:9]]
    found = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert found["gpu-1"] == ["allowed", "6 -> 7", "-"]
    assert found["gpu-3"][:1] == ["allowed"]
    assert found["gpu-2"][0] == "allowed -> rejected"
    assert found["gpu-2"][2].startswith("- -> RuleUndecided (rule gpu-driver): ")
    assert found["cpu-1"][0] == "rejected"
    assert found["cpu-1"][2].startswith("RuleNotMet (rule gpu-nodes) -> RuleUndecided (rule gpu-driver): ")
    assert lines[10] == "2 of 4 nodes may take it. The other policy changes 3 of them."


def test_a_pod_that_fits_nowhere_ends_with_1(running: Installation) -> None:
    """As `leadsman schedule` does."""
    none = running.directory / "none.yaml"
    none.write_text(GPU_ONLY.replace("node-type: gpu", "node-type: tpu"))
    result = running.leadsman("simulate", pod_file(running.directory), "--policy", str(none), "-o", "json")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert {node["then"]["verdict"] for node in document["nodes"]} == {"rejected"}
    assert [node["now"]["verdict"] for node in document["nodes"]].count("allowed") == 3


async def test_replicas_that_disagree_are_named(installation: Installation) -> None:
    """A rollout that is half done looks like that."""
    await installation.report(*REPORTS)
    await asyncio.to_thread(installation.start, "filter", GPU_ONLY)
    await asyncio.to_thread(installation.start, "filter", IDLE_FIRST)
    result = await asyncio.to_thread(installation.leadsman, "simulate", pod_file(installation.directory))
    assert result.returncode == 0
    assert result.stderr.startswith("warning: replicas work by different policies (filter-")


async def test_without_replicas_the_built_in_policy_is_taken(installation: Installation) -> None:
    """And that is said."""
    await installation.report(*REPORTS)
    result = await asyncio.to_thread(installation.leadsman, "simulate", pod_file(installation.directory))
    assert result.returncode == 0
    assert result.stderr == "warning: no filter or scorer says which policy is in force; the built-in one is taken\n"
    assert "\npolicy  built-in, enforce; rules for this pod: none\n" in result.stdout


async def test_a_volume_whose_driver_is_not_known_is_warned_about(installation: Installation) -> None:
    """It decides nothing, as at the gateway."""
    await installation.report(*REPORTS)
    pod, folder = pod_file(installation.directory, claim="missing"), manifests(installation.directory)
    result = await asyncio.to_thread(installation.leadsman, "simulate", pod, "--manifests", folder)
    assert result.returncode == 0
    assert "warning: the driver behind volume data is not known, so it decides nothing\n" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulate", "POD"], "pod train has volumes; say where claims are known from"),
        (["simulate", "POD", "--policy", "pod.yaml"], "pod.yaml:"),
        (["simulate", "POD", "--manifests", ".", "--kubeconfig", "pod.yaml"], "not from both"),
        (["policy", "facts", "gpu1"], "no report of a node 'gpu1'; did you mean 'gpu-1'?"),
    ],
)
async def test_a_mistake_is_one_error_and_exit_code_2(
    installation: Installation, arguments: list[str], words: str
) -> None:
    """With what to do instead."""
    await installation.report(*REPORTS)
    pod = pod_file(installation.directory, claim="data")
    given = [pod if one == "POD" else one for one in arguments]
    result = await asyncio.to_thread(installation.leadsman, *given)
    assert result.returncode == 2
    assert words in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_nats_out_of_reach_is_said_within_seconds(nats_server: NatsServer, tmp_path: Path) -> None:
    """No log lines of the attempts, and no password."""
    url = nats_server.url.replace("nats://", "nats://user:secret@")
    nats_server.stop()
    installation = Installation(nats_server, tmp_path)
    began = time.monotonic()
    result = installation.leadsman("policy", "facts", "gpu-1", nats_url=url)
    assert time.monotonic() - began < 15
    assert result.returncode == 2
    assert result.stderr.startswith("error: NATS at nats://127.0.0.1:")
    assert "is out of reach" in result.stderr
    assert "secret" not in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_nats_without_the_stream_is_said(nats_server: NatsServer, tmp_path: Path) -> None:
    """Somebody else's NATS, or one that was never provisioned."""
    result = Installation(nats_server, tmp_path).leadsman("policy", "facts", "gpu-1")
    assert result.returncode == 2
    assert result.stderr.startswith("error: no node reports from NATS at nats://127.0.0.1:")
    assert "LEADSMAN_STATUS" in result.stderr


async def test_a_node_is_shown_with_all_that_is_known_of_it(installation: Installation) -> None:
    """Facts with their units, labels, storages of all its collectors; what is not known says so."""
    await installation.report(
        facts_report(
            "n1",
            labels={"node-type": "gpu", "empty": ""},
            facts={"cpu.idle": 0.75, "memory.totalBytes": 34359738368, "gpu.model": "H100"},
            storages=[HEALTHY._replace(latency_s=0.0123, used=0.5)],
        ),
        facts_report(
            "n1",
            scope="ebs.example",
            storages=[status("ebs.example", State.HEALTHY)._replace(attach_limit=25, attached=3)],
        ),
    )
    result = await asyncio.to_thread(installation.leadsman, "policy", "facts", "n1")

    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("n1, reported ")
    assert lines[0].endswith(" ago")
    assert ", ebs.example sidecar " in lines[0]
    shown = {line.split()[0]: line.split()[1:] for line in lines[1:] if line}
    assert shown["node.cpu.idle"] == ["0.75", "share"]
    assert shown["node.memory.totalBytes"] == ["34359738368", "(32.0", "GiB)", "bytes"]
    assert shown["node.gpu.model"] == ["H100", "-"]
    assert shown["node.gpu.driverMajor"] == ["not", "known", "-"]
    assert shown["node-type"] == ["gpu"]
    assert shown["empty"] == ['""']
    assert shown["nfs.csi.k8s.io/10.0.0.9"] == ["HEALTHY", "0.0123s", "0.50", "-", "-", "-"]
    assert shown["ebs.example"] == ["HEALTHY", "-", "-", "-", "25", "22"]
    assert "\x1b" not in result.stdout


async def test_programs_get_what_is_known_of_a_node(installation: Installation) -> None:
    """Null is not known."""
    await installation.report(REPORTS[0])
    result = await asyncio.to_thread(installation.leadsman, "policy", "facts", "gpu-1", "-o", "yaml")
    document = yaml.safe_load(result.stdout)
    assert document["node"] == "gpu-1"
    assert document["facts"]["gpu.driverMajor"] == 550
    assert document["facts"]["gpu.model"] is None
    assert document["labels"] == {"node-type": "gpu"}
    assert list(document["report_ages_s"]) == ["gpu-1"]


async def test_a_bad_volume_keeps_only_its_pods_away(installation: Installation) -> None:
    """Volumes go by the PersistentVolume's name, as the gateway sends it."""
    folder = manifests(installation.directory)
    bad = facts_report("gpu-1", storages=[HEALTHY])
    bad = type(bad)(bad.node, bad.sequence, bad.interval_s, bad.storages, bad_volumes=(volume("nfs.csi.k8s.io/pv-1"),))
    await installation.report(bad, REPORTS[3])
    pod = pod_file(installation.directory, claim="data")
    result = await asyncio.to_thread(installation.leadsman, "simulate", pod, "--manifests", folder)
    assert "gpu-1  rejected  4      StaleFileHandle (nfs.csi.k8s.io)" in result.stdout
