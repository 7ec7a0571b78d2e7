"""Volumes written into the pod itself, volumes that need nothing, and pods recorded from kube-scheduler."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from leadsman.domain.requirements import Requirement
from leadsman.wire.pod import Pod
from leadsman_gateway.volumes import Resolution, VolumeResolver, needs_storage
from leadsman_gateway.volumes.records import Claim, StorageClass, Volume

from .pods import CEPH, EBS, NFS, claim_volume, needs, pod

CORPUS = Path(__file__).parent / "corpus"


class Body(msgspec.Struct, rename="pascal"):
    """The part of an extender request that matters here."""

    pod: Pod


@pytest.fixture
def resolver(catalogue):
    return VolumeResolver(catalogue, {})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"csi": {"driver": NFS, "volumeAttributes": {"server": "n"}, "readOnly": True}}, (NFS, "n", "v", True)),
        ({"csi": {"driver": "x.example.com"}}, ("x.example.com", "", "v", False)),
        ({"nfs": {"server": "nas-c", "path": "/c"}}, ("kubernetes.io/nfs", "nas-c", "v", False)),
        ({"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}}, (EBS, "", "v", True)),
        ({"gcePersistentDisk": {"pdName": "d"}}, ("pd.csi.storage.gke.io", "", "v", False)),
        ({"azureDisk": {"diskName": "d"}}, ("disk.csi.azure.com", "", "v", False)),
        ({"azureFile": {"shareName": "s"}}, ("file.csi.azure.com", "", "v", False)),
        ({"cinder": {"volumeID": "v"}}, ("cinder.csi.openstack.org", "", "v", False)),
        ({"vsphereVolume": {"volumePath": "p"}}, ("csi.vsphere.vmware.com", "", "v", False)),
        ({"portworxVolume": {"volumeID": "v"}}, ("pxd.portworx.com", "", "v", False)),
        ({"rbd": {"monitors": ["m"], "image": "i"}}, (CEPH, "", "v", False)),
        ({"cephfs": {"monitors": ["m"]}}, ("kubernetes.io/cephfs", "", "v", False)),
        ({"iscsi": {"targetPortal": "10.0.0.9:3260"}}, ("kubernetes.io/iscsi", "10.0.0.9:3260", "v", False)),
        ({"fc": {"lun": 1}}, ("kubernetes.io/fc", "", "v", False)),
        ({"glusterfs": {"endpoints": "e", "path": "p"}}, ("kubernetes.io/glusterfs", "", "v", False)),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_volume_written_into_the_pod(resolver, source, expected):
    """Inline CSI and every in-tree source name their driver themselves."""
    found = pod({"name": "v", **source})

    assert needs(Requirement(*expected)) == resolver.resolve(found)
    assert needs_storage(found)


def test_inline_csi_without_driver_is_named(resolver):
    """The API server would not accept it; if it comes, it is unknown."""
    assert Resolution((), (), ("v",)) == resolver.resolve(pod({"name": "v", "csi": {}}))


def test_operator_names_the_attribute(catalogue):
    """The mapping adds drivers and overrides the built-in ones, for PV, class and inline volume alike."""
    resolver = VolumeResolver(catalogue, {"x.example.com": "pool", NFS: "share"})
    catalogue.add(
        Claim("shop", "a", volume="pv-1"),
        Volume("pv-1", "x.example.com", {"pool": "p1"}),
        Claim("shop", "b", storage_class="fast"),
        StorageClass("fast", "x.example.com", {"pool": "p2"}),
    )
    inline = {"name": "c", "csi": {"driver": NFS, "volumeAttributes": {"share": "s", "server": "n"}}}

    found = resolver.resolve(pod(claim_volume("a"), claim_volume("b"), inline))
    assert [need.backend for need in found.requirements] == ["s", "p1", "p2"]


@pytest.mark.parametrize(
    "source",
    [{"emptyDir": {}}, {"configMap": {"name": "c"}}, {"projected": {}}, {"hostPath": {"path": "/"}}, {"secret": {}}],
    ids=lambda value: next(iter(value)),
)
def test_volumes_without_a_driver_need_no_storage(resolver, source):
    """The projected token that every pod has must not cost the slow path."""
    found = pod({"name": "v", **source})

    assert not needs_storage(found)
    assert needs() == resolver.resolve(found)


CORPUS_NEEDS = {
    "bound-nfs": [(NFS, "nas-a.example.net", "nfs-pv")],
    "preemptor": [(NFS, "nas-a.example.net", "nfs-pv")],
    "intree-nfs-pvc": [("kubernetes.io/nfs", "nas-b.example.net", "intree-pv")],
    "intree-nfs-inline": [("kubernetes.io/nfs", "nas-c.example.net", "d")],
    "inline-csi": [("csi.example.com", "", "d")],
    "multi": [("csi.example.com", "", "b"), (NFS, "nas-a.example.net", "nfs-pv")],
    "wffc": [("csi.example.com", "", "d")],
    "ephemeral": [("csi.example.com", "", "scratch")],
    "ephemeral-legacy": [(EBS, "", "scratch")],
    "novol": [],
}


@pytest.mark.contract
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.json")), ids=lambda path: path.name.split("-names.")[0])
def test_pods_as_kube_scheduler_sends_them(catalogue, resolver, path):
    """Each pod recorded from kube-scheduler 1.36.2 resolves to the storage it had in that cluster."""
    catalogue.add(
        Claim("default", "nfs-claim", volume="nfs-pv"),
        Volume("nfs-pv", NFS, {"server": "nas-a.example.net", "share": "/a"}),
        Claim("default", "intree-nfs-claim", volume="intree-pv"),
        Volume("intree-pv", "kubernetes.io/nfs", {"server": "nas-b.example.net", "share": "/b"}),
        Claim("default", "wffc-claim", storage_class="wffc"),
        StorageClass("wffc", "csi.example.com", waits=True),
        StorageClass("legacy-ebs", EBS, waits=True),
    )
    sent = msgspec.json.decode(path.read_bytes(), type=Body).pod

    expected = CORPUS_NEEDS[path.name.split("-names.")[0]]
    assert needs(*(Requirement(*need) for need in expected)) == resolver.resolve(sent)
    assert bool(expected) == needs_storage(sent)
