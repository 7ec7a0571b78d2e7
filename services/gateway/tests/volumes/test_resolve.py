"""Claims, bound and unbound, and generic ephemeral volumes, resolved from memory."""

from __future__ import annotations

import pytest

from leadsman.domain.requirements import Requirement
from leadsman_gateway.volumes import ObjectRef, Resolution, VolumeResolver
from leadsman_gateway.volumes.records import Claim, StorageClass, Volume

from .pods import CEPH, EBS, NFS, claim_volume, ephemeral, needs, pod

PVC, PV, SC = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"


@pytest.fixture
def resolver(catalogue):
    return VolumeResolver(catalogue, {})


def test_bound_claim_is_resolved_by_its_volume(catalogue, resolver):
    """Driver and backend come from the PV; the requirement carries the PV's name."""
    catalogue.add(Claim("shop", "data", volume="pv-1"), Volume("pv-1", NFS, {"server": "nas-a"}))

    assert needs(Requirement(NFS, "nas-a", "pv-1")) == resolver.resolve(pod(claim_volume()))


def test_claim_of_another_namespace_is_not_used(catalogue, resolver):
    """A claim belongs to the pod's own namespace."""
    catalogue.add(Claim("other", "data", volume="pv-1"), Volume("pv-1", NFS, {"server": "nas-a"}))

    assert Resolution((), (ObjectRef(PVC, "shop", "data"),), ("data",)) == resolver.resolve(pod(claim_volume()))


def test_missing_claim_is_asked_for_and_named(resolver):
    """A claim that is not in memory is neither skipped nor failed."""
    assert Resolution((), (ObjectRef(PVC, "shop", "data"),), ("data",)) == resolver.resolve(pod(claim_volume()))


def test_missing_volume_is_asked_for_and_named(catalogue, resolver):
    """A bound claim whose PV is not in memory needs the PV."""
    catalogue.add(Claim("shop", "data", volume="pv-1"))

    assert Resolution((), (ObjectRef(PV, "", "pv-1"),), ("data",)) == resolver.resolve(pod(claim_volume()))


def test_missing_volume_falls_back_to_the_provisioner_on_the_claim(catalogue, resolver):
    """What the volume controller wrote on the claim names the driver, and the class of that driver the backend."""
    catalogue.add(
        Claim("shop", "data", volume="pv-1", storage_class="fast", provisioner=CEPH),
        StorageClass("fast", CEPH, {"clusterID": "east"}),
    )

    expected = Resolution((Requirement(CEPH, "east", "pv-1"),), (ObjectRef(PV, "", "pv-1"),), ())
    assert expected == resolver.resolve(pod(claim_volume()))


def test_class_of_another_driver_says_nothing_about_the_backend(catalogue, resolver):
    """A class that was replaced since does not lend its parameters."""
    catalogue.add(
        Claim("shop", "data", volume="pv-1", storage_class="fast", provisioner=CEPH),
        StorageClass("fast", NFS, {"server": "nas-a", "clusterID": "east"}),
    )

    assert (Requirement(CEPH, "", "pv-1"),) == resolver.resolve(pod(claim_volume())).requirements


def test_deleted_class_does_not_matter_once_a_volume_is_bound(catalogue, resolver):
    """The PV decides; the class it came from may be gone."""
    catalogue.add(Claim("shop", "data", volume="pv-1", storage_class="gone"), Volume("pv-1", CEPH, {"clusterID": "e"}))

    assert needs(Requirement(CEPH, "e", "pv-1")) == resolver.resolve(pod(claim_volume()))


def test_unbound_claim_is_resolved_by_its_class(catalogue, resolver):
    """Before binding, provisioner and parameters of the class stand for the volume."""
    catalogue.add(
        Claim("shop", "data", storage_class="fast"), StorageClass("fast", CEPH, {"clusterID": "east"}, waits=True)
    )

    assert needs(Requirement(CEPH, "east", "data")) == resolver.resolve(pod(claim_volume()))


def test_class_that_provisions_nothing_needs_no_driver(catalogue, resolver):
    """kubernetes.io/no-provisioner stands for local volumes."""
    catalogue.add(Claim("shop", "data", storage_class="local"), StorageClass("local", "", waits=True))

    assert needs() == resolver.resolve(pod(claim_volume()))


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (Claim("shop", "data", storage_class="gone"), Resolution((), (ObjectRef(SC, "", "gone"),), ("data",))),
        (
            Claim("shop", "data", storage_class="gone", provisioner=EBS),
            Resolution((Requirement(EBS, "", "data"),), (ObjectRef(SC, "", "gone"),), ()),
        ),
        (Claim("shop", "data"), Resolution((), (), ("data",))),
    ],
    ids=["class-deleted", "class-deleted-provisioner-known", "no-class"],
)
def test_unbound_claim_without_usable_class_is_named(catalogue, resolver, claim, expected):
    """A class that is gone is asked for; nothing is skipped, nothing fails."""
    catalogue.add(claim)

    assert expected == resolver.resolve(pod(claim_volume()))


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (Volume("pv-1", ""), Resolution()),
        (Volume("pv-1", None), Resolution((), (), ("data",))),
        (
            Volume("pv-1", "kubernetes.io/nfs", {"server": "nas-c", "share": "/c"}),
            needs(Requirement("kubernetes.io/nfs", "nas-c", "pv-1")),
        ),
        (Volume("pv-1", EBS), needs(Requirement(EBS, "", "pv-1"))),
        (
            Volume("pv-1", "smb.csi.k8s.io", {"source": "//files/share"}),
            needs(Requirement("smb.csi.k8s.io", "files", "pv-1")),
        ),
        (Volume("pv-1", NFS), needs(Requirement(NFS, "", "pv-1"))),
    ],
    ids=["local", "unknown-source", "in-tree-nfs", "migrated", "smb", "no-server"],
)
def test_bound_volume_of_any_source(catalogue, resolver, volume, expected):
    """Local volumes need nothing, unknown sources are named, the rest gives a requirement."""
    catalogue.add(Claim("shop", "data", volume="pv-1"), volume)

    assert expected == resolver.resolve(pod(claim_volume()))


@pytest.mark.parametrize(
    ("in_claim", "in_volume", "expected"),
    [(None, False, False), (True, False, True), (False, True, True), (False, False, False)],
)
def test_access_comes_from_claim_source_or_volume(catalogue, resolver, in_claim, in_volume, expected):
    """Either of the two can make a use read-only."""
    catalogue.add(Claim("shop", "data", volume="pv-1"), Volume("pv-1", EBS, read_only=in_volume))

    (requirement,) = resolver.resolve(pod(claim_volume(read_only=in_claim))).requirements
    assert expected == requirement.read_only


def test_volume_used_twice_is_one_requirement_that_writes(catalogue, resolver):
    """One PV, read in one place and written in the other, is written."""
    catalogue.add(
        Claim("shop", "a", volume="pv-1"), Claim("shop", "b", volume="pv-1"), Volume("pv-1", NFS, {"server": "n"})
    )

    uses = [claim_volume("a", read_only=True), claim_volume("b")]
    for volumes in (uses, uses[::-1]):
        assert needs(Requirement(NFS, "n", "pv-1", read_only=False)) == resolver.resolve(pod(*volumes))


def test_order_of_volumes_does_not_matter(catalogue, resolver):
    """Requirements are sorted, so equal pods give equal requests."""
    catalogue.add(Claim("shop", "a", volume="pv-1"), Volume("pv-1", NFS, {"server": "n"}))
    volumes = [claim_volume("a"), {"name": "b", "csi": {"driver": "a.example.com"}}, claim_volume("z")]

    assert resolver.resolve(pod(*volumes)) == resolver.resolve(pod(*reversed(volumes)))
    assert [need.driver for need in resolver.resolve(pod(*volumes)).requirements] == ["a.example.com", NFS]


def test_ephemeral_volume_uses_the_claim_that_its_pod_controls(catalogue, resolver):
    """The claim is named <pod>-<volume> and must belong to this pod."""
    catalogue.add(
        Claim("shop", "db-0-scratch", volume="pv-9", owner_uid="uid-1"), Volume("pv-9", CEPH, {"clusterID": "west"})
    )

    assert needs(Requirement(CEPH, "west", "pv-9")) == resolver.resolve(pod(ephemeral()))


def test_ephemeral_volume_without_claim_uses_the_template(catalogue, resolver):
    """With a class that waits, the template says all that a claim would say."""
    catalogue.add(StorageClass("fast", CEPH, {"clusterID": "east"}, waits=True))

    assert needs(Requirement(CEPH, "east", "scratch")) == resolver.resolve(pod(ephemeral()))


def test_ephemeral_volume_of_an_immediate_class_also_asks_for_its_claim(catalogue, resolver):
    """Such a claim may be bound already, and then its volume decides."""
    catalogue.add(StorageClass("fast", CEPH, {"clusterID": "east"}, waits=False))

    expected = Resolution(
        (Requirement(CEPH, "east", "scratch"),), (ObjectRef(PVC, "shop", "db-0-scratch"),), unresolved=()
    )
    assert expected == resolver.resolve(pod(ephemeral()))


def test_foreign_claim_is_not_used_for_an_ephemeral_volume(catalogue, resolver):
    """A claim left by an earlier pod of the same name decides nothing; the new one is asked for."""
    catalogue.add(
        Claim("shop", "db-0-scratch", volume="pv-9", owner_uid="uid-0"),
        Volume("pv-9", NFS, {"server": "old"}),
        StorageClass("fast", CEPH, {"clusterID": "east"}, waits=True),
    )

    expected = Resolution((Requirement(CEPH, "east", "scratch"),), (ObjectRef(PVC, "shop", "db-0-scratch"),), ())
    assert expected == resolver.resolve(pod(ephemeral()))


def test_beta_annotation_of_a_template_comes_first(catalogue, resolver):
    """As in Kubernetes, the annotation overrides the field."""
    catalogue.add(StorageClass("fast", CEPH, waits=True), StorageClass("beta", EBS, waits=True))

    found = resolver.resolve(pod(ephemeral("fast", {"volume.beta.kubernetes.io/storage-class": "beta"})))
    assert needs(Requirement(EBS, "", "scratch")) == found


def test_ephemeral_volume_of_unknown_class_is_named(resolver):
    """Class and claim are both asked for."""
    missing = (ObjectRef(PVC, "shop", "db-0-scratch"), ObjectRef(SC, "", "fast"))
    assert Resolution((), missing, ("scratch",)) == resolver.resolve(pod(ephemeral()))
