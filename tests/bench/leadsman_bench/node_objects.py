"""Node objects as kube-scheduler sends them in full mode: 7-10 KB each, of a cluster on EKS, always the same ones.

19 labels, the annotations of three CSI drivers and a network plugin, five conditions, 14-27 images, no managedFields.
"""

import json
import random

Json = dict[str, object]

_ZONES = ("eu-central-1a", "eu-central-1b", "eu-central-1c")
_TYPES = ("m6i.4xlarge", "r6i.4xlarge", "m6a.8xlarge", "i4i.4xlarge")
_REGISTRY = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
_IMAGES = (
    "payments-api",
    "orders-worker",
    "search-indexer",
    "web-frontend",
    "auth-proxy",
    "ml-inference",
    "fluent-bit",
    "node-exporter",
    "csi-block-driver",
    "csi-node-driver-registrar",
    "livenessprobe",
    "cilium",
    "kube-proxy",
    "coredns",
    "cluster-autoscaler",
    "pause",
    "istio-proxyv2",
    "vector",
    "postgres-operator",
    "kafka-broker",
    "redis",
    "opentelemetry-collector",
    "cert-manager-controller",
    "external-dns",
    "velero",
    "trivy-operator",
    "falco",
    "nginx-ingress-controller",
    "grafana-agent",
)
_CONDITIONS = (
    ("NetworkUnavailable", "False", "CiliumIsUp", "Cilium is running on this node"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_CAPACITY = {
    "cpu": "16",
    "ephemeral-storage": "104845292Ki",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "memory": "64942016Ki",
    "pods": "234",
}
_ALLOCATABLE = {**_CAPACITY, "cpu": "15890m", "ephemeral-storage": "95551679124", "memory": "61837248Ki"}


def node_name(number: int) -> str:
    """The name of node `number`, about 50 characters as EKS makes them."""
    address = _address(number).replace(".", "-")
    return f"ip-{address}-{number:05d}.eu-central-1.compute.internal"


def node_labels(number: int) -> dict[str, str]:
    """The 19 labels of node `number`."""
    zone, machine, name = _ZONES[number % 3], _TYPES[number % 4], node_name(number)
    dice = random.Random(f"labels {number}")
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": machine,
        "beta.kubernetes.io/os": "linux",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "eks.amazonaws.com/nodegroup": f"workers-{zone}",
        "eks.amazonaws.com/nodegroup-image": f"ami-0{hexadecimal(dice, 16)}",
        "failure-domain.beta.kubernetes.io/region": "eu-central-1",
        "failure-domain.beta.kubernetes.io/zone": zone,
        "k8s.io/cloud-provider-aws": hexadecimal(dice, 32),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine,
        "storage.example.com/pool": f"pool-{number % 7}",
        "team.example.com/tier": "gold" if number % 5 else "silver",
        "topology.ebs.csi.aws.com/zone": zone,
        "topology.example.com/rack": f"rack-{number // 40:03d}",
        "topology.kubernetes.io/region": "eu-central-1",
        "topology.kubernetes.io/zone": zone,
    }


def node_object(number: int) -> Json:
    """The whole Node `number`, without apiVersion and kind, as an informer holds it."""
    dice = random.Random(f"node {number}")
    return {"metadata": _metadata(number, dice), "spec": _spec(number, dice), "status": _status(number, dice)}


def hexadecimal(dice: random.Random, digits: int) -> str:
    """`digits` hexadecimal digits."""
    return f"{dice.getrandbits(4 * digits):0{digits}x}"


def _instance_id(number: int) -> str:
    return f"i-0{hexadecimal(random.Random(f'instance {number}'), 16)}"


def _address(number: int) -> str:
    return f"10.{64 + number // 4096}.{number // 16 % 256}.{16 + number % 16 * 13}"


def _metadata(number: int, dice: random.Random) -> Json:
    instance = _instance_id(number)
    csi_ids = {"ebs.csi.aws.com": instance, "efs.csi.aws.com": instance, "block.csi.example.com": node_name(number)}
    return {
        "name": node_name(number),
        "uid": "-".join(hexadecimal(dice, digits) for digits in (8, 4, 4, 4, 12)),
        "resourceVersion": str(900_000_000 + number),
        "creationTimestamp": "2026-03-02T09:15:33Z",
        "labels": node_labels(number),
        "annotations": {
            "alpha.kubernetes.io/provided-node-ip": _address(number),
            "cluster.example.com/machine": f"workers/machine-{hexadecimal(dice, 10)}",
            "csi.volume.kubernetes.io/nodeid": json.dumps(csi_ids, separators=(",", ":")),
            "io.cilium.network.ipv4-cilium-host": f"10.0.{number % 256}.{number % 199}",
            "io.cilium.network.ipv4-health-ip": f"10.0.{number % 256}.{number % 197}",
            "node.alpha.kubernetes.io/ttl": "0",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        },
    }


def _spec(number: int, dice: random.Random) -> Json:
    network = f"10.{number // 256}.{number % 256}.0/24"
    provider = f"aws:///{_ZONES[number % 3]}/{_instance_id(number)}"
    spec: Json = {"podCIDR": network, "podCIDRs": [network], "providerID": provider}
    if dice.random() < 0.1:
        spec["taints"] = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    return spec


def _status(number: int, dice: random.Random) -> Json:
    day, minute = 1 + number % 28, number % 60
    times = {
        "lastHeartbeatTime": f"2026-05-{day:02d}T10:{minute:02d}:11Z",
        "lastTransitionTime": f"2026-04-{day:02d}T08:{minute:02d}:42Z",
    }
    return {
        "capacity": _CAPACITY,
        "allocatable": _ALLOCATABLE,
        "conditions": [
            {"type": kind, "status": status, **times, "reason": reason, "message": message}
            for kind, status, reason, message in _CONDITIONS
        ],
        "addresses": [
            {"type": "InternalIP", "address": _address(number)},
            {"type": "InternalDNS", "address": node_name(number)},
            {"type": "Hostname", "address": node_name(number)},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(dice),
        "images": [_image(name, number, dice) for name in dice.sample(_IMAGES, dice.randint(14, 27))],
    }


def _node_info(dice: random.Random) -> Json:
    return {
        "machineID": hexadecimal(dice, 32),
        "systemUUID": hexadecimal(dice, 36),
        "bootID": hexadecimal(dice, 36),
        "kernelVersion": "6.1.134-150.224.amzn2023.x86_64",
        "osImage": "Amazon Linux 2023.7.20250428",
        "containerRuntimeVersion": "containerd://1.7.27",
        "kubeletVersion": "v1.33.1",
        "kubeProxyVersion": "v1.33.1",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _image(name: str, number: int, dice: random.Random) -> Json:
    digest = f"{_REGISTRY}/{name}@sha256:{hexadecimal(dice, 64)}"
    tag = f"{_REGISTRY}/{name}:v{len(name)}.{number % 9}.{dice.randint(0, 30)}"
    return {"names": [digest, tag], "sizeBytes": dice.randint(700_000, 900_000_000)}
