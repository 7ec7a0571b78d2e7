"""Names and addresses of backends, and the list that collectors get."""

import pytest

from leadsman.wire.notices import Backend
from leadsman_gateway.volumes import backend_list
from leadsman_gateway.volumes.naming import BackendNames
from leadsman_gateway.volumes.records import Claim, StorageClass, Volume

NFS, IN_TREE, SMB, CEPH = "nfs.csi.k8s.io", "kubernetes.io/nfs", "smb.csi.k8s.io", "rbd.csi.ceph.com"
ISCSI, OTHER = "kubernetes.io/iscsi", "x.example.com"


@pytest.mark.parametrize(
    ("driver", "attributes", "options", "name", "endpoints"),
    [
        (NFS, {"server": "nas"}, (), "nas", ["nas:2049"]),
        (NFS, {"Server": " nas "}, (), "nas", ["nas:2049"]),
        (NFS, {"server": "127.0.0.1:40123"}, (), "127.0.0.1:40123", ["127.0.0.1:40123"]),
        (NFS, {"server": "fd00::1"}, (), "fd00::1", ["[fd00::1]:2049"]),
        (NFS, {"server": "[fd00::1]"}, (), "fd00::1", ["[fd00::1]:2049"]),
        (NFS, {"server": "nas"}, ("nfsvers=4.1", "port=2050"), "nas", ["nas:2050"]),
        (NFS, {"server": "nas"}, ("nfsvers=4.1,port=2050",), "nas", ["nas:2050"]),
        (NFS, {"server": "nas"}, ("proto=rdma",), "nas", []),
        (NFS, {"server": "nas"}, ("proto=TCP",), "nas", ["nas:2049"]),
        (NFS, {"share": "/x"}, (), "", []),
        (NFS, {"server": "not a host"}, (), "not a host", []),
        (NFS, {"server": "nas:99999"}, (), "nas:99999", []),
        (IN_TREE, {"server": "nas"}, (), "nas", ["nas:2049"]),
        (SMB, {"source": "//files.example/share/x"}, (), "files.example", ["files.example:445"]),
        (SMB, {"source": "\\\\files\\share"}, (), "files", ["files:445"]),
        (SMB, {"source": "//files/share"}, ("port=1445",), "files", ["files:1445"]),
        (CEPH, {"clusterID": "b9127830-b0cc"}, (), "b9127830-b0cc", []),
        (f"rook-ceph.{CEPH}", {"clusterID": "rook-ceph"}, (), "rook-ceph", []),
        (CEPH, {"clusterID": "10.0.0.1:6789"}, (), "10.0.0.1:6789", []),
        (
            ISCSI,
            {"portal": "10.0.0.1", "portals": "10.0.0.2:3261,10.0.0.3"},
            (),
            "10.0.0.1",
            ["10.0.0.1:3260", "10.0.0.2:3261", "10.0.0.3:3260"],
        ),
        (ISCSI, {"portal": "10.0.0.1:3260", "portals": "10.0.0.1:3260,1"}, (), "10.0.0.1:3260", ["10.0.0.1:3260"]),
        ("org.democratic-csi.nfs", {"node_attach_driver": "nfs", "server": "nas"}, (), "nas", ["nas:2049"]),
        (
            "org.democratic-csi.nvmeof",
            {"node_attach_driver": "nvmeof", "portal": "tcp://10.0.0.1:4420"},
            (),
            "10.0.0.1:4420",
            ["10.0.0.1:4420"],
        ),
        (OTHER, {"server": "nas"}, (), "", []),
    ],
)
def test_names_and_addresses(driver, attributes, options, name, endpoints):
    """The attribute names the backend; a port is added only where the protocol is known, and never changed."""
    names = BackendNames({})

    assert name == names.name(driver, attributes)
    assert endpoints == list(names.endpoints(driver, attributes, options))


@pytest.mark.parametrize(
    ("value", "name", "endpoints"),
    [
        ("10.0.0.1:8443", "10.0.0.1:8443", ["10.0.0.1:8443"]),
        ("https://array.example:8443/api", "array.example:8443", ["array.example:8443"]),
        ("array.example", "array.example", []),
        ("pool:/export", "pool", []),
    ],
)
def test_attribute_of_the_operator_keeps_its_port(value, name, endpoints):
    """No port is guessed for a driver that we do not know: a wrong one would condemn a healthy backend."""
    names = BackendNames({OTHER: "endpoint"})

    assert name == names.name(OTHER, {"endpoint": value})
    assert endpoints == list(names.endpoints(OTHER, {"endpoint": value}))


def test_list_joins_volumes_and_classes_without_repeats(catalogue):
    """One entry per (driver, backend), sorted, with every address that any volume gives it."""
    catalogue.add(
        *(Volume(f"pv-{number}", NFS, {"server": "nas-b", "share": f"/{number}"}) for number in range(50)),
        Volume("pv-x", NFS, {"server": "nas-b"}, mount_options=("port=2050",)),
        Volume("pv-y", CEPH, {"clusterID": "east"}),
        Volume("pv-z", OTHER, {"server": "nas"}),
        Volume("local", ""),
        Volume("odd", None),
        StorageClass("new", NFS, {"server": "nas-a"}),
        Claim("shop", "data", volume="pv-1"),
    )

    expected = [
        Backend(NFS, "nas-a", ["nas-a:2049"]),
        Backend(NFS, "nas-b", ["nas-b:2049", "nas-b:2050"]),
        Backend(CEPH, "east", []),
    ]
    assert expected == backend_list(catalogue, {}).backends


def test_list_uses_the_operators_attributes(catalogue):
    """The same mapping as in resolving, so that names agree."""
    catalogue.add(Volume("pv", OTHER, {"address": "10.1.1.1:9000"}))

    assert [Backend(OTHER, "10.1.1.1:9000", ["10.1.1.1:9000"])] == backend_list(catalogue, {OTHER: "address"}).backends


def test_addresses_of_one_backend_are_bounded(catalogue):
    """Whatever a portal list says, collectors get at most 16 addresses."""
    portals = ",".join(f"10.0.0.{number}" for number in range(1, 200))
    catalogue.add(Volume("pv", ISCSI, {"portal": "10.0.0.1", "portals": portals}))

    (backend,) = backend_list(catalogue, {}).backends
    assert len(backend.endpoints) == 16
