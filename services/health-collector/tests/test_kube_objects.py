"""What a collector reads of Node, CSINode and CSIDriver objects, and what odd ones do to it."""

import msgspec
import pytest

from leadsman_health_collector.cluster_view import KubeletVerdict
from leadsman_health_collector.kube.objects import (
    MAX_LABEL_BYTES,
    MAX_VERDICTS,
    OwnCsiNode,
    short_labels,
    watched_csi_drivers,
    watched_csi_node,
    watched_node,
)

DRIVER = "nfs.csi.k8s.io"


def raw(value):
    return msgspec.Raw(msgspec.json.encode(value))


def csi_node(status=None, drivers=({"name": DRIVER, "nodeID": "worker-1", "topologyKeys": None},)):
    body = {"metadata": {"name": "worker-1", "resourceVersion": "12"}, "spec": {"drivers": drivers}}
    return watched_csi_node("worker-1").decode(raw(body if status is None else {**body, "status": status})).kept


def health(*conditions, name=DRIVER):
    """`status.storageHealth` with one driver."""
    return {"storageHealth": [{"name": name, "healthConditions": [*conditions]}]}


def unreachable(**more):
    return {"status": "StorageUnreachable", "reason": "MonitorsDown", "message": "no quorum", **more}


def test_node_is_its_uid_and_labels():
    """Annotations, managed fields and whatever else is there are not kept."""
    body = {
        "metadata": {
            "name": "worker-1",
            "uid": "u-1",
            "resourceVersion": "7",
            "labels": {"zone": "a"},
            "annotations": {"large": "x" * 100_000},
            "managedFields": [{"manager": "kubelet"}],
        }
    }
    decoded = watched_node("worker-1").decode(raw(body))
    assert decoded.key == ("", "worker-1")
    assert decoded.version == "7"
    assert (decoded.kept.uid, decoded.kept.labels, decoded.kept.labels_cut) == ("u-1", {"zone": "a"}, 0)


def test_labels_beyond_the_limit_are_cut_longest_first():
    """What node-feature-discovery writes about the CPU goes before what people select by, and it is counted."""
    features = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE-{number:03}": "true" for number in range(500)}
    labels = {**features, "zone": "a", "topology.kubernetes.io/region": "eu-west-1"}
    decoded = watched_node("worker-1").decode(raw({"metadata": {"name": "worker-1", "labels": labels}}))
    assert {"zone", "topology.kubernetes.io/region"} < set(decoded.kept.labels)
    assert len(decoded.kept.labels) + decoded.kept.labels_cut == len(labels)
    assert len(msgspec.json.encode(decoded.kept.labels)) <= MAX_LABEL_BYTES + 2
    assert short_labels(dict(reversed(labels.items()))) == decoded.kept.labels


def test_node_without_labels_has_none():
    """Null is absent, as in Kubernetes' own codec."""
    assert watched_node("n").decode(raw({"metadata": {"name": "n", "labels": None}})).kept.labels == {}


def attached(*volumes, **status):
    """What is read of a Node to which `volumes` are attached."""
    listed = [{"name": volume, "devicePath": "csi-1"} for volume in volumes]
    body = {"metadata": {"name": "n", "labels": {"zone": "a"}}, "status": {"volumesAttached": listed, **status}}
    kept = watched_node("n").decode(raw(body)).kept
    assert kept.labels == {"zone": "a"}
    return kept.attached


def test_attached_volumes_are_counted_by_csi_driver():
    """By the names that the attach-detach controller gives them; a handle may hold anything."""
    ebs, rbd = "kubernetes.io/csi/ebs.csi.aws.com^vol-1", "kubernetes.io/csi/rbd.csi.ceph.com^0001-a^b/c"
    found = attached(ebs, ebs.replace("vol-1", "vol-2"), rbd, "kubernetes.io/iscsi/1.2.3.4:lun", "odd")
    assert found == {"ebs.csi.aws.com": 2, "rbd.csi.ceph.com": 1}
    assert attached() == attached(volumesAttached=None) == {}


@pytest.mark.parametrize("odd", ["odd", 7, [7], [{"devicePath": "x"}], {"name": "x"}])
def test_attached_volumes_that_cannot_be_read_are_not_known_and_hide_no_label(odd):
    """None is not nought: a full node would look like an empty one."""
    assert attached(volumesAttached=odd) is None


def test_a_node_without_a_status_has_nothing_attached():
    """It is new."""
    assert watched_node("n").decode(raw({"metadata": {"name": "n"}})).kept.attached == {}


@pytest.mark.parametrize(
    ("allocatable", "limits"),
    [
        ({"count": 39}, {DRIVER: 39}),
        ({"count": 0}, {DRIVER: 0}),
        ({"count": None}, {}),
        ({}, {}),
        (None, {}),
        ("odd", {}),
        ({"count": "39"}, {}),
        ({"count": -1}, {}),
        ({"count": 2**31}, {}),
    ],
)
def test_attach_limit_is_what_the_driver_has_told_the_kubelet(allocatable, limits):
    """An odd one is not known, and the driver is registered all the same."""
    found = csi_node(drivers=[{"name": DRIVER, "allocatable": allocatable}])
    assert found.attach_limits == limits
    assert found.drivers == {DRIVER}
    assert found.odd_drivers == 0


@pytest.mark.parametrize(("drivers", "names"), [(None, set()), ([], set()), ([{"name": DRIVER}], {DRIVER})])
def test_registered_drivers_are_those_of_the_spec(drivers, names):
    """No driver is a fact of its own."""
    assert csi_node(drivers=drivers) == OwnCsiNode(frozenset(names))


@pytest.mark.parametrize("odd", [7, None, [], {}, {"name": 7}, {"name": ""}])
def test_an_odd_entry_hides_no_other_driver(odd):
    """One driver's mistake is not another's."""
    assert csi_node(drivers=[odd, {"name": DRIVER}]) == OwnCsiNode(frozenset({DRIVER}), odd_drivers=1)


@pytest.mark.parametrize("status", [{}, {"storageHealth": None}, {"storageHealth": []}, health(), {"other": 1}])
def test_no_finding_is_no_verdict(status):
    """Clusters before v1.37 have no such status, and later ones say nothing while nothing is wrong."""
    assert csi_node(status) == OwnCsiNode(frozenset({DRIVER}))


def test_findings_of_the_kubelet_are_read():
    """In the form of k8s.io/api v0.37.2."""
    entry = unreachable(lastTransitionTime="2026-07-24T10:00:00Z")
    found = csi_node(health(entry))
    assert found.verdicts == (KubeletVerdict(DRIVER, "StorageUnreachable", "MonitorsDown", "no quorum"),)
    assert found.unread == 0


def test_words_of_a_newer_version_are_passed_on():
    """An unknown status is a finding nevertheless, and unknown fields are no harm."""
    found = csi_node(health({"status": "StorageOnFire", "heat": [1]}))
    assert found.verdicts == (KubeletVerdict(DRIVER, "StorageOnFire"),)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"accessMode": "ReadWriteMany"}, "only ReadWriteMany: no quorum"),
        ({"volumeMode": "Block"}, "only Block: no quorum"),
        ({"accessMode": "ReadWriteMany", "volumeMode": "Block"}, "only ReadWriteMany, Block: no quorum"),
    ],
)
def test_what_is_unreachable_in_some_modes_only_is_degraded(limits, words):
    """The driver's other volumes work."""
    found = csi_node(health(unreachable(**limits)))
    assert found.verdicts == (KubeletVerdict(DRIVER, "StorageDegraded", "MonitorsDown", words),)


@pytest.mark.parametrize("status", ["odd", 7, {"storageHealth": "odd"}, {"storageHealth": {"a": 1}}])
def test_odd_status_does_not_hide_the_registered_drivers(status):
    """The status is alpha and may change its shape."""
    assert csi_node(status).drivers == {DRIVER}


def test_odd_findings_are_counted_and_the_others_read():
    """One entry that cannot be read must not hide the rest, and too many are too many."""
    conditions = [unreachable(), 7, {"status": 7}, {"reason": "no status"}]
    found = csi_node(health(*conditions))
    assert len(found.verdicts) == 1
    assert found.unread == 3
    mixed = csi_node({"storageHealth": [7, {"healthConditions": []}, *health(unreachable())["storageHealth"]]})
    assert (len(mixed.verdicts), mixed.unread) == (1, 2)
    flood = csi_node(health(*[unreachable()] * 1000))
    assert len(flood.verdicts) == MAX_VERDICTS
    assert flood.unread == 1000 - MAX_VERDICTS


def test_long_texts_are_cut():
    """A driver decides what it writes there."""
    verdict = csi_node(health(unreachable(message="m" * 100_000, reason="r" * 100_000))).verdicts[0]
    assert len(verdict.message) == len(verdict.reason) == 512


def test_driver_is_its_name():
    """Of a CSIDriver only the name is asked for."""
    watched = watched_csi_drivers()
    assert watched.metadata_only
    assert watched.decode(raw({"metadata": {"name": DRIVER, "resourceVersion": "3"}})) == (("", DRIVER), None, "3")


@pytest.mark.parametrize("body", [{}, {"metadata": {}}, {"metadata": {"name": 7}}, {"metadata": {"name": "n"}}, [], 1])
def test_what_is_no_csi_node_cannot_be_read(body):
    """The watch counts and skips it."""
    with pytest.raises(msgspec.DecodeError):
        watched_csi_node("n").decode(raw(body))
