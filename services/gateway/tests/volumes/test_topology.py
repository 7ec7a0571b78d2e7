"""Where a volume is, by what Kubernetes and CSI provisioners write on objects; and where a pod's data is."""

from typing import Any

import msgspec
import pytest

from leadsman.domain.requirements import NEAR_REGION, NEAR_ZONE, NOWHERE, Near
from leadsman_gateway.volumes import VolumeResolver, annotated_near
from leadsman_gateway.volumes.objects import record_of
from leadsman_gateway.volumes.records import Claim, StorageClass, Volume

from .pods import CEPH, EBS, claim_volume, ephemeral, pod

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
EAST, WEST = Near(("east-a",), ("east",)), Near(("west-b",), ("west",))


def expression(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}}


def volume(labels: dict[str, str] | None, node_affinity: dict[str, Any] | None) -> Volume:
    spec = {"csi": {"driver": EBS, "volumeHandle": "h"}, "nodeAffinity": node_affinity}
    body = msgspec.json.encode({"metadata": {"name": "pv", "labels": labels}, "spec": spec})
    record = record_of("PersistentVolume", body)[0]
    assert isinstance(record, Volume)
    return record


@pytest.mark.parametrize(
    ("labels", "node_affinity", "near"),
    [
        ({ZONE: "east-a", REGION: "east"}, None, EAST),
        ({ZONE: "a__c__b"}, None, Near(("a", "b", "c"))),
        ({ZONE: "a"}, affinity([expression(ZONE, "b"), expression(REGION, "east")]), Near(("a",), ("east",))),
        (None, affinity([expression("topology.ebs.csi.aws.com/zone", "east-a")]), Near(("east-a",))),
        (None, affinity([expression("topology.gke.io/zone", "b", "a")], [expression(ZONE, "c")]), Near(tuple("abc"))),
        (None, affinity([expression("topology.disk.csi.azure.com/zone", "")]), NOWHERE),
        (None, affinity([expression(ZONE, "a", operator="NotIn")]), NOWHERE),
        (None, affinity([expression("kubernetes.io/hostname", "node-1")]), NOWHERE),
        ({"zone": "a"}, {"required": {"nodeSelectorTerms": [{"matchExpressions": None}]}}, NOWHERE),
        (None, {"required": None}, NOWHERE),
        (None, None, NOWHERE),
    ],
)
def test_volume_is_where_its_labels_or_its_affinity_say(
    labels: dict[str, str] | None, node_affinity: dict[str, Any] | None, near: Near
) -> None:
    """Labels go before affinity, each for zone and for region; alternatives all count."""
    assert volume(labels, node_affinity).near == near


def test_class_is_where_its_volumes_may_be() -> None:
    """`allowedTopologies` have no operator."""
    terms = [
        {"matchLabelExpressions": [{"key": ZONE, "values": ["b", "a"]}]},
        {"matchLabelExpressions": [{"key": REGION, "values": ["east"]}]},
    ]
    body = {"metadata": {"name": "fast"}, "provisioner": EBS, "allowedTopologies": terms}
    record = record_of("StorageClass", msgspec.json.encode(body))[0]

    assert isinstance(record, StorageClass)
    assert record.near == Near(("a", "b"), ("east",))


def test_pod_is_near_all_its_volumes_together(catalogue: Any) -> None:
    """Sorted and without repeats; a volume that may be reached from everywhere adds nothing, a local one neither."""
    claims = [Claim("shop", name, volume=f"pv-{name}") for name in "abcde"]
    places = (WEST, EAST, NOWHERE, EAST)
    volumes = [Volume(f"pv-{name}", EBS, near=near) for name, near in zip("abcd", places, strict=True)]
    catalogue.add(*claims, *volumes, Volume("pv-e", "", near=Near(("local",))))

    def near(*names: str) -> Near:
        return VolumeResolver(catalogue, {}).resolve(pod(*[claim_volume(name) for name in names])).near

    assert near("a", "b", "c", "d", "e") == Near(("east-a", "west-b"), ("east", "west"))
    assert near("b", "d") == EAST
    assert near("c") == NOWHERE


@pytest.mark.parametrize(("waits", "near"), [(True, EAST), (False, NOWHERE)])
def test_class_counts_only_for_a_volume_that_is_still_to_be_placed(catalogue: Any, waits: bool, near: Near) -> None:
    """One that is made at once has a place already, which its class does not tell; a bound one has its own."""
    catalogue.add(
        StorageClass("fast", CEPH, waits=waits, near=EAST),
        Claim("shop", "unbound", storage_class="fast"),
        Claim("shop", "bound", volume="pv-1", storage_class="fast"),
        Volume("pv-1", CEPH, near=WEST),
    )
    resolve = VolumeResolver(catalogue, {}).resolve

    assert resolve(pod(claim_volume("unbound"))).near == near
    assert resolve(pod(ephemeral("fast"))).near == near
    assert resolve(pod(claim_volume("bound"))).near == WEST


@pytest.mark.parametrize(
    ("annotations", "near"),
    [
        ({NEAR_ZONE: "b, a,,b"}, Near(("a", "b"))),
        ({NEAR_REGION: "west"}, Near((), ("west",))),
        ({NEAR_ZONE: ""}, NOWHERE),
        ({"other": "x"}, EAST),
        (None, EAST),
    ],
)
def test_annotations_of_the_pod_stand_above_its_volumes(
    catalogue: Any, annotations: dict[str, str] | None, near: Near
) -> None:
    """Also an empty one: near nothing."""
    catalogue.add(Claim("shop", "data", volume="pv-1"), Volume("pv-1", EBS, near=EAST))
    one = pod(claim_volume())
    one.metadata.annotations = annotations

    assert VolumeResolver(catalogue, {}).resolve(one).near == near
    assert annotated_near(one) == (None if near is EAST else near)


def test_backends_go_by_other_attributes_once_told(catalogue: Any) -> None:
    """A policy may change while the gateway runs."""
    catalogue.add(Claim("shop", "data", volume="pv-1"), Volume("pv-1", "x.csi", {"pool": "east", "cluster": "c1"}))
    resolver = VolumeResolver(catalogue, {"x.csi": "pool"})
    assert resolver.resolve(pod(claim_volume())).requirements[0].backend == "east"

    resolver.name_backends_by({"x.csi": "cluster"})
    assert resolver.resolve(pod(claim_volume())).requirements[0].backend == "c1"


def test_what_a_pod_writes_about_its_place_is_bounded() -> None:
    """Neither many places nor values that no label can have cross the hop."""
    one = pod()
    one.metadata.annotations = {NEAR_ZONE: ",".join(f"zone-{number}" for number in range(1000))}
    near = annotated_near(one)
    assert near is not None
    assert len(near.zones) == 16
    one.metadata.annotations = {NEAR_ZONE: "x" * 64 + ",b"}
    assert annotated_near(one) == Near(("b",))
