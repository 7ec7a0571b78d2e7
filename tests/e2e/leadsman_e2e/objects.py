"""Builders of the Kubernetes objects tests create: plain dicts, as the API server takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadsman_e2e.api import Api, Object

# An image nobody pulls: there are no kubelets.
IMAGE = "pause"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"


def namespace(name: str) -> Object:
    """A Namespace."""
    return _object("v1", "Namespace", name)


def priority_class(name: str, value: int) -> Object:
    """A PriorityClass; pods of a higher value may evict those of a lower one."""
    return _object("scheduling.k8s.io/v1", "PriorityClass", name) | {"value": value}


def node(name: str, labels: Mapping[str, str] | None = None) -> Object:
    """A Node that carries the host name label a kubelet would set."""
    return _object("v1", "Node", name, labels={"kubernetes.io/hostname": name, **(labels or {})})


def node_status(cpu: str = "4", memory: str = "8Gi", pods: int = 110) -> Object:
    """The status of a Node that is ready, as its kubelet would report it."""
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    ready = {"type": "Ready", "status": "True", "reason": "E2E", "message": "no kubelet here"}
    return {"capacity": resources, "allocatable": resources, "conditions": [ready]}


def ready_node(
    api: Api,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    cpu: str = "4",
    drivers: Sequence[str] = (),
) -> Object:
    """Create a Node pods can be bound to, and its CSINode with these drivers; return the Node."""
    api.create(node(name, labels))
    api.patch_status("Node", name, node_status(cpu))
    api.create(csi_node(name, drivers))
    # A new Node is given this taint; a kubelet's heartbeat and the node lifecycle controller,
    # neither of which is here, would take it away.
    current = api.get("Node", name)
    taints = [taint for taint in current["spec"].get("taints", []) if not _is_not_ready(taint)]
    return api.patch("Node", name, {"spec": {"taints": taints or None}})


def csi_driver(name: str, *, ephemeral: bool = True, attach_required: bool = False) -> Object:
    """A CSIDriver; `ephemeral` allows it inline in pods."""
    modes = ["Persistent", "Ephemeral"] if ephemeral else ["Persistent"]
    spec = {
        "attachRequired": attach_required,
        "volumeLifecycleModes": modes,
        "storageCapacity": False,
    }
    return _object("storage.k8s.io/v1", "CSIDriver", name) | {"spec": spec}


def csi_node(node_name: str, drivers: Sequence[str]) -> Object:
    """A CSINode that says these drivers are installed on the node."""
    spec = {"drivers": [{"name": name, "nodeID": node_name} for name in drivers]}
    return _object("storage.k8s.io/v1", "CSINode", node_name) | {"spec": spec}


def storage_class(
    name: str,
    provisioner: str,
    mode: str = "WaitForFirstConsumer",
    parameters: Mapping[str, str] | None = None,
) -> Object:
    """A StorageClass; `mode` is its volume binding mode (WaitForFirstConsumer or Immediate)."""
    return _object("storage.k8s.io/v1", "StorageClass", name) | {
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "parameters": dict(parameters or {}),
    }


def pv(
    name: str,
    driver: str,
    *,
    handle: str | None = None,
    attributes: Mapping[str, str] | None = None,
    claim: tuple[str, str] | None = None,
    nodes: Sequence[str] = (),
    storage_class: str = "",
    access_mode: str = "ReadWriteMany",
) -> Object:
    """A PersistentVolume of a CSI driver.

    `claim` (namespace, name) reserves it for that claim; `nodes` limits it to these host names.
    """
    csi = {
        "driver": driver,
        "volumeHandle": handle or name,
        "volumeAttributes": dict(attributes or {}),
    }
    spec: Object = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [access_mode],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class,
        "csi": csi,
    }
    if claim is not None:
        spec["claimRef"] = {"namespace": claim[0], "name": claim[1]}
    if nodes:
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    return _object("v1", "PersistentVolume", name) | {"spec": spec}


def pvc(
    namespace: str,
    name: str,
    *,
    volume: str | None = None,
    storage_class: str = "",
    access_mode: str = "ReadWriteMany",
) -> Object:
    """A PersistentVolumeClaim, for the named volume or for any of its storage class."""
    spec = _claim_spec(storage_class, access_mode)
    if volume is not None:
        spec["volumeName"] = volume
    return _object("v1", "PersistentVolumeClaim", name, namespace) | {"spec": spec}


def claim_volume(claim: str, name: str = "data") -> Object:
    """A pod's volume that is a claim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def ephemeral_volume(storage_class: str, name: str = "scratch") -> Object:
    """A generic ephemeral volume: the controller manager makes a claim `<pod>-<name>` for it."""
    spec = _claim_spec(storage_class, "ReadWriteOnce")
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def inline_csi_volume(driver: str, attributes: Mapping[str, str] | None = None, name: str = "inline") -> Object:
    """A CSI volume written into the pod itself."""
    return {"name": name, "csi": {"driver": driver, "volumeAttributes": dict(attributes or {})}}


def pod(
    namespace: str,
    name: str,
    *,
    volumes: Sequence[Object] = (),
    scheduler: str = "default-scheduler",
    priority_class: str | None = None,
    cpu: str | None = None,
    node_selector: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Object:
    """A Pod of one container; `cpu` is its request."""
    spec = _pod_spec(volumes, scheduler, priority_class, cpu, node_selector)
    return _object("v1", "Pod", name, namespace, labels) | {"spec": spec}


def deployment(
    namespace: str,
    name: str,
    replicas: int,
    *,
    volumes: Sequence[Object] = (),
    scheduler: str = "default-scheduler",
    cpu: str | None = None,
) -> Object:
    """A Deployment; its pods carry the label `app=<name>`."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": _pod_spec(volumes, scheduler, None, cpu, None),
    }
    return _object("apps/v1", "Deployment", name, namespace, labels) | {
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    }


def _pod_spec(
    volumes: Sequence[Object],
    scheduler: str,
    priority_class: str | None,
    cpu: str | None,
    node_selector: Mapping[str, str] | None,
) -> Object:
    container: Object = {"name": "main", "image": IMAGE}
    if cpu is not None:
        container["resources"] = {"requests": {"cpu": cpu}}
    spec: Object = {
        "schedulerName": scheduler,
        "containers": [container],
        "volumes": list(volumes),
        "nodeSelector": dict(node_selector or {}),
        "terminationGracePeriodSeconds": 0,  # no kubelet would ever say that it has ended
    }
    if priority_class is not None:
        spec["priorityClassName"] = priority_class
    return spec


def _claim_spec(storage_class: str, access_mode: str) -> Object:
    return {
        "accessModes": [access_mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }


def _is_not_ready(taint: Object) -> bool:
    return bool(taint["key"] == NOT_READY_TAINT)


def _object(
    api_version: str,
    kind: str,
    name: str,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Object:
    metadata: Object = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
