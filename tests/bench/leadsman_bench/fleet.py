"""The 5,000 nodes that report, the storage behind the pod's claims, and what the right answer is.

A tenth of the nodes is UNHEALTHY for the pod, for four reasons, and another tenth DEGRADED; the rest is HEALTHY. Each
node also reports another driver that the pod does not use. A report is about 2 KiB, as in the facts on the bus.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from leadsman.domain.reasons import Reason, evidence_of, reply_text
from leadsman.domain.report import NodeReport, Sequence, StorageKey, StorageStatus
from leadsman.domain.states import State
from leadsman_bench.node_objects import Json, node_labels, node_name
from leadsman_bench.pod_objects import CLAIMS, NAMESPACE

NODES = 5000
DRIVER = "block.csi.example.com"
BACKEND_ATTRIBUTE = "pool"
"""The volume attribute that names the backend (the gateway's `--backend-attribute`)."""

BACKENDS = ("pool-fast", "pool-wide")
"""The backend behind each of the pod's claims."""

_STORAGES = (
    StorageKey(DRIVER),
    *(StorageKey(DRIVER, backend) for backend in BACKENDS),
    StorageKey("nfs.csi.k8s.io"),
    *(StorageKey("nfs.csi.k8s.io", f"10.20.0.{number}") for number in range(1, 5)),
)
_FAULTS = (
    (_STORAGES[0], Reason.DRIVER_NOT_RESPONDING),
    (_STORAGES[1], Reason.ENDPOINT_TIMEOUT),
    (_STORAGES[2], Reason.MOUNT_HUNG),
    (_STORAGES[1], Reason.ENDPOINT_REFUSED),
)


def fault(number: int) -> tuple[StorageKey, Reason] | None:
    """What makes node `number` UNHEALTHY for the pod, or None."""
    return _FAULTS[number // 10 % len(_FAULTS)] if number % 10 == 3 else None


def degraded(number: int) -> bool:
    """Whether node `number` is slow: allowed, with a low score."""
    return number % 10 == 8


def rejections(count: int = NODES) -> dict[str, str]:
    """The right answer for the pod: node to reply text, for the first `count` nodes."""
    faults = ((number, fault(number)) for number in range(count))
    return {node_name(number): reply_text(found[1], DRIVER) for number, found in faults if found}


def report(number: int, sequence: Sequence) -> NodeReport:
    """What the collector of node `number` says."""
    return NodeReport(
        node=node_name(number),
        sequence=sequence,
        interval_s=10.0,
        storages=tuple(_status(key, number) for key in _STORAGES),
        node_uid=f"0c9b6f3e-45d1-4e0a-a4b1-{number:012x}",
        boot_id=f"7d8d1f1e-6f2a-4d6e-9d0f-{number:012x}",
        labels=node_labels(number),
        facts=facts(sequence.seq),
    )


def facts(seq: int) -> dict[str, float | str]:
    """Facts of an idle node, which move a little with every report, as in life, and change no score."""
    return {
        "cpu.count": 16.0,
        "cpu.idle": round(0.6 + seq % 100 / 1000, 3),
        "memory.availableShare": 0.5,
        "pressure.io.someAvg10": 0.01,
    }


def _status(key: StorageKey, number: int) -> StorageStatus:
    state, reason = State.HEALTHY, None
    if found := fault(number):
        state, reason = (State.UNHEALTHY, found[1]) if key == found[0] else (state, reason)
    elif degraded(number) and key == _STORAGES[1]:
        state, reason = State.DEGRADED, Reason.HIGH_LATENCY
    if reason is None:
        return StorageStatus(key, state, since_epoch_s=1_780_000_000.0, latency_s=0.004)
    message = f"{reason.value} seen by three probes in a row"
    return StorageStatus(key, state, reason, evidence_of(reason), message, 1_780_000_000.0, 3.0)


def write_extender_state(path: Path, scores: dict[str, int]) -> None:
    """Tell the Go extender what the reports tell Leadsman; `scores` is node to 0-10."""
    path.write_text(json.dumps({"rejected": rejections(), "score": scores}), encoding="utf-8")


def write_manifests(folder: Path) -> None:
    """The pod's claims, their volumes and their class, for the gateway's `--manifests` (JSON is YAML too)."""
    folder.mkdir()
    for manifest in manifests():
        (folder / f"{manifest['kind']}-{_name(manifest)}.yaml".lower()).write_text(json.dumps(manifest))


def manifests() -> Iterator[Json]:
    """The objects of `write_manifests`."""
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "block"},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    for claim, backend in zip(CLAIMS, BACKENDS, strict=True):
        yield _claim(claim)
        yield _volume(claim, backend)


def _claim(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "block",
            "volumeName": f"pv-{name}",
            "resources": {"requests": {"storage": "100Gi"}},
        },
        "status": {"phase": "Bound"},
    }


def _volume(claim: str, backend: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{claim}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "100Gi"},
            "storageClassName": "block",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": claim},
            "csi": {"driver": DRIVER, "volumeHandle": claim, "volumeAttributes": {BACKEND_ATTRIBUTE: backend}},
        },
        "status": {"phase": "Bound"},
    }


def _name(manifest: Json) -> str:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])
