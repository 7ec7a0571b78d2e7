"""The objects that claims are made of, in short form."""

from __future__ import annotations

from typing import Any

from leadsman.testing.kube_api import Object


def pvc(name: str, **spec: Any) -> Object:
    """A claim in namespace shop."""
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def pv(name: str, server: str = "nas") -> Object:
    """A volume of the NFS driver."""
    csi = {"driver": "nfs.csi.k8s.io", "volumeHandle": name, "volumeAttributes": {"server": server}}
    return {"metadata": {"name": name}, "spec": {"csi": csi}}
