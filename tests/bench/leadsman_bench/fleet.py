"""The 5,000 nodes that report, the storage behind the pod's claims, and what the right answer is.

A tenth of the nodes is UNHEALTHY for the pod, for four reasons, and another tenth DEGRADED; the rest is HEALTHY. Each
node also reports another driver that the pod does not use. A report is about 2 KiB, as in the facts on the bus.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

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
_STEADY_FACTS: dict[str, float | str] = {
    "cpu.count": 16.0,
    "cpu.mhz": 3500.0,
    "memory.totalBytes": 66_571_993_088.0,
    "memory.availableShare": 0.5,
    "disk.awaitMaxSeconds": 0.0009,
    "disk.queueMax": 0.02,
    **{
        f"pressure.{what}.{which}{window}": 0.0
        for what in ("io", "memory")
        for which in ("some", "full")
        for window in ("Avg10", "Avg60", "Share")
    },
}


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
        facts=facts(number, sequence.seq),
    )


def facts(number: int, seq: int) -> dict[str, float | str]:
    """All facts of node `number`, which has no GPU, in its report `seq`.

    As in life the load is another one in every report; it is always so low that no built-in score changes with it.
    """
    load = (number * 7919 + seq * 104_729) % 397 / 1000
    return _STEADY_FACTS | {
        "cpu.idle": round(1.0 - load, 3),
        "load.1m": round(load, 3),
        "load.5m": round(load, 2),
        "memory.availableBytes": 33_285_996_544.0 + 4096 * seq,
        "disk.utilizationMax": round(load / 10, 4),
        "pressure.cpu.someAvg10": round(load / 20, 4),
        "pressure.cpu.someAvg60": round(load / 25, 4),
        "pressure.cpu.someShare": round(load / 22, 5),
    }


def _status(key: StorageKey, number: int) -> StorageStatus:
    state, reason = State.HEALTHY, None
    if found := fault(number):
        state, reason = (State.UNHEALTHY, found[1]) if key == found[0] else (state, reason)
    elif degraded(number) and key == _STORAGES[1]:
        state, reason = State.DEGRADED, Reason.HIGH_LATENCY
    if reason is None:
        return StorageStatus(key, state, since_epoch_s=1_780_000_000.0, latency_s=0.004, used=0.4)
    message = f"{reason.value} seen by three probes in a row"
    return StorageStatus(key, state, reason, evidence_of(reason), message, 1_780_000_000.0, 3.0)


def extender_state(scores: Mapping[str, int], rules: Mapping[str, str] = MappingProxyType({})) -> Json:
    """What reports and policy tell Leadsman about the pod, for the Go extender.

    `scores` is node to 0-10, `rules` the reply texts of nodes that only rules reject.
    """
    return {"rejected": rejections() | dict(rules), "score": dict(scores)}


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
