"""Pods and their volumes, as kube-scheduler sends them, in short form."""

from __future__ import annotations

from typing import Any

import msgspec

from leadsman.domain.requirements import Requirement
from leadsman.wire.pod import Pod
from leadsman_gateway.volumes import Resolution

NFS, EBS, CEPH = "nfs.csi.k8s.io", "ebs.csi.aws.com", "rbd.csi.ceph.com"


def pod(*volumes: dict[str, Any], uid: str = "uid-1") -> Pod:
    metadata = {"name": "db-0", "namespace": "shop", "uid": uid}
    return msgspec.convert({"metadata": metadata, "spec": {"volumes": list(volumes)}}, Pod)


def claim_volume(name: str = "data", *, read_only: bool | None = None) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": name, "readOnly": read_only}}


def ephemeral(storage_class: str | None = "fast", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    template = {"metadata": {"annotations": annotations}, "spec": {"storageClassName": storage_class}}
    return {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}


def needs(*requirements: Requirement) -> Resolution:
    return Resolution(requirements=requirements)
