"""The pod that the benchmark schedules: one replica of a database, 4 KB, as kube-scheduler sends it."""

import random

from leadsman_bench.node_objects import Json, hexadecimal

NAMESPACE = "shop"
CLAIMS = ("data-orders-db-2", "wal-orders-db-2")
"""The pod's two claims; `leadsman_bench.fleet` says what storage stands behind each."""

_CONTAINERS = ("postgres", "postgres-exporter")


def pod_object(*, storage: bool) -> Json:
    """The pod with its two claims, or the same pod on `emptyDir` volumes: the fast path."""
    return {
        "metadata": _metadata(),
        "spec": {
            "volumes": _volumes(storage=storage),
            "containers": [_container(name) for name in _CONTAINERS],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 120,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "orders-db",
            "serviceAccount": "orders-db",
            "securityContext": {"fsGroup": 999},
            "affinity": _anti_affinity(),
            "schedulerName": "default-scheduler",
            "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _metadata() -> Json:
    return {
        "name": "orders-db-2",
        "generateName": "orders-db-",
        "namespace": NAMESPACE,
        "uid": "7d8d1f1e-6f2a-4d6e-9d0f-6c6f1a3f0c11",
        "resourceVersion": "912345678",
        "creationTimestamp": "2026-05-02T10:11:12Z",
        "labels": {
            "app.kubernetes.io/name": "orders-db",
            "app.kubernetes.io/instance": "orders",
            "apps.kubernetes.io/pod-index": "2",
            "controller-revision-hash": "orders-db-6d5b7c9f8d",
            "statefulset.kubernetes.io/pod-name": "orders-db-2",
        },
        "annotations": {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "9187",
            "placement.example.com/policy": "replicas=3,spread=rack",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": "orders-db",
                "uid": "0c9b6f3e-45d1-4e0a-a4b1-cc7d0f1e2a33",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def _volumes(*, storage: bool) -> list[Json]:
    sources: list[Json] = [
        {"persistentVolumeClaim": {"claimName": claim}} if storage else {"emptyDir": {}} for claim in CLAIMS
    ]
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    return [
        {"name": "data", **sources[0]},
        {"name": "wal", **sources[1]},
        {"name": "config", "configMap": {"name": "orders-db-config", "defaultMode": 420}},
        {"name": "kube-api-access-x7k2p", "projected": {"sources": [token, authority], "defaultMode": 420}},
    ]


def _container(name: str) -> Json:
    dice = random.Random(f"container {name}")
    return {
        "name": name,
        "image": f"123456789012.dkr.ecr.eu-central-1.amazonaws.com/{name}:v16.3",
        "ports": [{"name": "tcp", "containerPort": 5432, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{number}", "value": hexadecimal(dice, 24)} for number in range(10)],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "2", "memory": "16Gi"}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/postgresql/data"},
            {"name": "wal", "mountPath": "/var/lib/postgresql/wal"},
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _anti_affinity() -> Json:
    term = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "orders-db"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _toleration(condition: str) -> Json:
    key = f"node.kubernetes.io/{condition}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
