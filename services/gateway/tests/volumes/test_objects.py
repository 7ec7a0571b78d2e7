"""API objects turned into records."""

import msgspec
import pytest

from leadsman_gateway.volumes.objects import record_of
from leadsman_gateway.volumes.records import Claim, CsiDriver, StorageClass, Volume

EBS = "ebs.csi.aws.com"


def record(kind, body):
    return record_of(kind, msgspec.json.encode(body))[0]


def volume(spec, annotations=None):
    return record("PersistentVolume", {"metadata": {"name": "pv", "annotations": annotations}, "spec": spec})


def test_claim_carries_what_decides():
    """Volume, class, provisioner and controlling owner; other owners do not count."""
    body = {
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "annotations": {"volume.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs"},
            "ownerReferences": [{"uid": "other"}, {"uid": "pod-1", "controller": True}],
        },
        "spec": {"volumeName": "pv-1", "storageClassName": "fast", "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Bound"},
    }

    expected = Claim("shop", "data", volume="pv-1", storage_class="fast", provisioner=EBS, owner_uid="pod-1")
    assert expected == record("PersistentVolumeClaim", body)


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        ({"volume.beta.kubernetes.io/storage-class": "beta"}, {"storageClassName": "field"}, ("beta", "")),
        ({}, {"storageClassName": "field"}, ("field", "")),
        ({}, {"storageClassName": None}, ("", "")),
        (None, {}, ("", "")),
        ({"volume.beta.kubernetes.io/storage-provisioner": "x.example.com"}, {}, ("", "x.example.com")),
        (
            {"pv.kubernetes.io/migrated-to": EBS, "volume.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs"},
            {},
            ("", EBS),
        ),
    ],
)
def test_class_and_provisioner_of_a_claim(annotations, spec, expected):
    """Annotations come before fields, the newer before the older."""
    body = {"metadata": {"name": "c", "namespace": "n", "annotations": annotations}, "spec": spec}

    claim = record("PersistentVolumeClaim", body)
    assert expected == (claim.storage_class, claim.provisioner)


@pytest.mark.parametrize(
    ("spec", "driver", "attributes", "read_only"),
    [
        ({"csi": {"driver": "d", "volumeHandle": "h", "readOnly": True}}, "d", {}, True),
        ({"csi": {"driver": "d", "volumeAttributes": {"server": "n"}}}, "d", {"server": "n"}, False),
        (
            {"nfs": {"server": "n", "path": "/p", "readOnly": True}},
            "kubernetes.io/nfs",
            {"server": "n", "share": "/p"},
            1,
        ),
        ({"awsElasticBlockStore": {"volumeID": "v"}}, EBS, {}, False),
        ({"portworxVolume": {"volumeID": "v"}}, "pxd.portworx.com", {}, False),
        (
            {"iscsi": {"targetPortal": "10.0.0.1:3260", "portals": ["10.0.0.2"]}},
            "kubernetes.io/iscsi",
            {"portal": "10.0.0.1:3260", "portals": "10.0.0.2"},
            False,
        ),
        ({"flexVolume": {"driver": "acme/disk", "readOnly": True}}, "acme/disk", {}, True),
        ({"local": {"path": "/d"}}, "", {}, False),
        ({"hostPath": {"path": "/d"}}, "", {}, False),
        ({"quobyte": {"volume": "v"}}, None, {}, False),
        ({}, None, {}, False),
    ],
)
def test_source_of_a_volume(spec, driver, attributes, read_only):
    """In-tree sources are written as their CSI driver; local ones need none; others are unknown."""
    assert Volume("pv", driver, attributes, bool(read_only)) == volume(spec)


def test_migrated_to_names_the_driver_of_an_in_tree_volume():
    """What the cluster says about migration stands above our table; a CSI volume names its own driver."""
    said = {"pv.kubernetes.io/migrated-to": "new.example.com"}

    assert volume({"rbd": {"image": "i"}}, said).driver == "new.example.com"
    assert volume({"csi": {"driver": "d"}}, said).driver == "d"


def test_mount_options_are_kept():
    """They can change the port of a backend."""
    assert volume({"csi": {"driver": "d"}, "mountOptions": ["port=2050"]}).mount_options == ("port=2050",)


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [
        ("kubernetes.io/aws-ebs", EBS),
        ("kubernetes.io/no-provisioner", ""),
        ("nfs.csi.k8s.io", "nfs.csi.k8s.io"),
    ],
)
def test_class_is_known_by_its_driver(provisioner, driver):
    """In-tree provisioners become CSI drivers, and no-provisioner becomes none."""
    body = {
        "metadata": {"name": "c"},
        "provisioner": provisioner,
        "parameters": {"a": "b"},
        "volumeBindingMode": "WaitForFirstConsumer",
    }

    assert StorageClass("c", driver, {"a": "b"}, waits=True) == record("StorageClass", body)


def test_driver_without_spec_attaches():
    """attachRequired defaults to true."""
    assert CsiDriver("d", attach_required=True) == record("CSIDriver", {"metadata": {"name": "d"}})
    body = {"metadata": {"name": "d"}, "spec": {"attachRequired": False}}
    assert CsiDriver("d", attach_required=False) == record("CSIDriver", body)


def test_status_is_no_part_of_a_record():
    """Two versions of a claim that differ in status and resourceVersion are one record."""
    first = {"metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"}, "status": {"phase": "Pending"}}
    second = {"metadata": {"name": "c", "namespace": "n", "resourceVersion": "2"}, "status": {"phase": "Bound"}}

    assert record("PersistentVolumeClaim", first) == record("PersistentVolumeClaim", second)
