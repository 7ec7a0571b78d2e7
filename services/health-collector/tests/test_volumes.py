"""Finding whose volume a mount is."""

import json
import os
from pathlib import Path

import pytest

from leadsman.domain.report import StorageKey
from leadsman_health_collector.filesystems import backend_of, is_storage
from leadsman_health_collector.mountinfo import Mount, parse_mounts
from leadsman_health_collector.volume_data import VolumeData, backend_in_handle, read_volume_data
from leadsman_health_collector.volumes import VolumeMap, VolumeMount

KUBELET = "/var/lib/kubelet"
POD = f"{KUBELET}/pods/0f0e/volumes"
CSI = f"{POD}/kubernetes.io~csi"
STAGED = f"{KUBELET}/plugins/kubernetes.io/csi"
PROVISIONED = "pvc-3f2504e0-4f89-11d3-9a0c-0305e82c3301"
CEPH_HANDLE = "0001-0009-rook-ceph-0000000000000002-b0285c97-a0ce-11eb-8c66-0242ac110002"
NFS4 = (
    "513 29 0:52 / {point} rw,relatime shared:290 - nfs4 10.0.0.9:/export "
    "rw,vers=4.1,hard,proto=tcp,timeo=600,retrans=2,sec=sys,addr=10.0.0.9"
)


def mount(fstype: str, source: str, *super_options: str) -> Mount:
    return Mount(1, 0, "0:52", "/", "/x", fstype, source, ("rw",), super_options)


class Node:
    """The mounts of a node and the files beside them, by directory."""

    def __init__(self, files: dict[str, VolumeData] | None = None, *, everything: bool = False) -> None:
        self.files = files or {}
        self.read: list[str] = []
        self.map = VolumeMap(Path(KUBELET), self._read, everything=everything)

    def _read(self, path: Path) -> VolumeData | None:
        assert path.name == "vol_data.json"
        self.read.append(str(path.parent))
        return self.files.get(str(path.parent))

    def superblocks(self, *text: str) -> dict[str, VolumeMount]:
        return self.map.superblocks(parse_mounts("\n".join(text).encode("utf-8", "surrogateescape")))

    def keys(self, *text: str) -> dict[str, StorageKey]:
        return {device: volume.key for device, volume in self.superblocks(*text).items()}


@pytest.mark.parametrize(
    ("fstype", "source", "backend"),
    [
        ("nfs4", "10.0.0.9:/export", "10.0.0.9"),
        ("nfs", "nfs.example.com:/", "nfs.example.com"),
        ("nfs4", "[fd00::9]:/export", "fd00::9"),
        ("nfs4", "[fe80::9%eth0]:/export", "fe80::9%eth0"),
        ("fuse.nfs4", "10.0.0.9:/export", "10.0.0.9"),
        ("cifs", "//server/share", "server"),
        ("smb3", "//10.0.0.5/share/sub dir", "10.0.0.5"),
        ("cifs", "//[fd00::5]/share", "fd00::5"),
        ("cifs", "server:/share", ""),
        (
            "ceph",
            "csi-user@b9127830-b0cc-4e34-aa47-9d1a2e9949a8.cephfs=/volumes",
            "b9127830-b0cc-4e34-aa47-9d1a2e9949a8",
        ),
        ("ceph", "10.0.0.1:6789,10.0.0.2:6789:/volumes", "10.0.0.1"),
        ("ceph", "[fd00::1]:6789,[fd00::2]:6789:/", "fd00::1"),
        ("ceph", "nonsense", ""),
        ("ext4", "10.0.0.1:6789:/volumes", ""),
        ("ext4", "/dev/sdb", ""),
        ("fuse.juicefs", "JuiceFS:data", ""),
        ("nfs4", "10.0.0.9\udcff:/x", ""),
        ("tmpfs", "tmpfs", ""),
    ],
)
def test_the_backend_is_the_host_of_the_source(fstype, source, backend):
    """What is not understood stays without a backend rather than with a wrong one."""
    assert backend_of(mount(fstype, source)) == backend


@pytest.mark.parametrize(
    ("driver", "handle", "backend"),
    [
        ("rbd.csi.ceph.com", CEPH_HANDLE, "rook-ceph"),
        ("rook-ceph.cephfs.csi.ceph.com", CEPH_HANDLE, "rook-ceph"),
        ("nfs.csi.ceph.com", CEPH_HANDLE.replace("0009-rook-ceph", "0003-a-b"), "a-b"),
        ("rbd.csi.ceph.com", CEPH_HANDLE.replace("0009", "0008"), ""),
        ("rbd.csi.ceph.com", CEPH_HANDLE.replace("0001", "0002", 1), ""),
        ("rbd.csi.ceph.com", CEPH_HANDLE[:-1], ""),
        ("rbd.csi.ceph.com", "0001-ffff-x", ""),
        ("rbd.csi.ceph.com", "my-static-volume", ""),
        ("rbd.csi.ceph.com", "", ""),
        ("ebs.csi.aws.com", CEPH_HANDLE, ""),
        ("nfs.csi.k8s.io", "10.0.0.9#export#pvc-1##", "10.0.0.9"),
        ("nfs.csi.k8s.io", "[fd00::9]#export#pvc-1##", "fd00::9"),
        ("nfs.csi.k8s.io", "nfs-server.default.svc/share##", ""),
        ("nfs.csi.k8s.io", "10.0.0.9", ""),
    ],
)
def test_some_drivers_write_the_backend_into_the_handle(driver, handle, backend):
    """A handle that was written by hand, or by another version, tells nothing."""
    assert backend_in_handle(driver, handle) == backend


def test_a_csi_mount_belongs_to_the_driver_in_the_file_beside_it():
    """The path names the volume, not the driver."""
    node = Node({f"{CSI}/pv-1": VolumeData("nfs.csi.k8s.io", "10.0.0.9#export#pv-1##", "pv-1")})
    (found,) = node.superblocks(NFS4.format(point=f"{CSI}/pv-1/mount")).values()
    assert (found.device, found.path, found.fstype) == ("0:52", f"{CSI}/pv-1/mount", "nfs4")
    assert found.key == StorageKey("nfs.csi.k8s.io", "10.0.0.9")
    assert (found.volumes, found.handles) == (("pv-1",), ("10.0.0.9#export#pv-1##",))
    assert found.mounts[0].super_option("addr") == "10.0.0.9"


def test_in_tree_nfs_is_known_by_its_path():
    """Its last part is a PV's name only if a provisioner gave it: a pod may call its inline volume anything."""
    node = Node()
    (found,) = node.superblocks(
        NFS4.format(point=f"{POD}/kubernetes.io~nfs/data"), NFS4.format(point=f"{POD}/kubernetes.io~nfs/{PROVISIONED}")
    ).values()
    assert found.key == StorageKey("kubernetes.io/nfs", "10.0.0.9")
    assert found.volumes == (PROVISIONED,)
    assert node.read == []


def test_a_staged_volume_has_its_driver_in_the_path_and_its_handle_in_the_file():
    """Also where the driver mounts one level below `globalmount`, as RBD does."""
    node = Node({f"{STAGED}/rbd.csi.ceph.com/ab12": VolumeData("rbd.csi.ceph.com", CEPH_HANDLE)})
    (found,) = node.superblocks(
        f"600 29 253:0 / {STAGED}/rbd.csi.ceph.com/ab12/globalmount/{CEPH_HANDLE} rw - ext4 /dev/rbd0 rw"
    ).values()
    assert (found.key, found.handles, found.volumes) == (
        StorageKey("rbd.csi.ceph.com", "rook-ceph"),
        (CEPH_HANDLE,),
        (),
    )
    assert Node().keys(f"600 29 253:0 / {STAGED}/ebs.csi.aws.com/ab12/globalmount rw - ext4 /dev/nvme1n1 rw") == {
        "253:0": StorageKey("ebs.csi.aws.com")
    }


def test_an_old_staging_path_names_the_volume_and_the_file_the_driver():
    """Kubelets before 1.24."""
    line = f"600 29 253:0 / {STAGED}/pv/pv-2/globalmount rw - ext4 /dev/sdc rw"
    (found,) = Node({f"{STAGED}/pv/pv-2": VolumeData("ebs.csi.aws.com", "vol-1")}).superblocks(line).values()
    assert (found.key, found.handles, found.volumes) == (StorageKey("ebs.csi.aws.com"), ("vol-1",), ("pv-2",))
    node = Node()
    assert node.superblocks(line) == {}
    assert node.map.unmapped == 1


def test_the_pod_and_staging_mounts_of_a_volume_are_one_superblock():
    """Together they tell the PV, the handle and both places."""
    handle = "vol-0a1b"
    node = Node(
        {
            f"{CSI}/pv-1": VolumeData("ebs.csi.aws.com", handle, "pv-1"),
            f"{STAGED}/ebs.csi.aws.com/ab12": VolumeData("ebs.csi.aws.com", handle),
        }
    )
    (found,) = node.superblocks(
        f"600 29 253:0 / {STAGED}/ebs.csi.aws.com/ab12/globalmount rw - ext4 /dev/nvme1n1 rw",
        f"601 29 253:0 / {CSI}/pv-1/mount ro - ext4 /dev/nvme1n1 rw",
    ).values()
    assert (found.volumes, found.handles) == (("pv-1",), (handle,))
    assert {one.mount_point: one.options for one in found.mounts} == {
        f"{STAGED}/ebs.csi.aws.com/ab12/globalmount": ("rw",),
        f"{CSI}/pv-1/mount": ("ro",),
    }
    assert found.path == found.mounts[0].mount_point


def test_all_volumes_of_a_shared_export_are_listed_and_it_is_seen_at_its_root():
    """A deleted subdirectory of an export says nothing about the export."""
    names = [f"pv-{n}" for n in range(3)]
    node = Node({f"{CSI}/{name}": VolumeData("nfs.csi.k8s.io", f"h-{name}", name) for name in names})
    (found,) = node.superblocks(
        f"500 29 0:52 /pv-0 {CSI}/pv-0/mount rw - nfs4 10.0.0.9:/export/pv-0 rw",
        f"501 29 0:52 /pv-1 {CSI}/pv-1/mount rw - nfs4 10.0.0.9:/export/pv-1 rw",
        f"502 29 0:52 / {CSI}/pv-2/mount rw - nfs4 10.0.0.9:/export rw",
    ).values()
    assert found.volumes == ("pv-0", "pv-1", "pv-2")
    assert found.handles == ("h-pv-0", "h-pv-1", "h-pv-2")
    assert found.path == found.mounts[0].mount_point == f"{CSI}/pv-2/mount"


def test_volumes_of_another_driver_on_the_same_superblock_are_not_put_on_this_one():
    """A PV is refused by driver and name together."""
    node = Node({f"{CSI}/pv-1": VolumeData("nfs.csi.k8s.io", "", "pv-1")})
    (found,) = node.superblocks(
        f"500 29 0:52 / {CSI}/pv-1/mount rw - nfs4 10.0.0.9:/export rw",
        f"501 29 0:52 /x {POD}/kubernetes.io~nfs/{PROVISIONED} rw - nfs4 10.0.0.9:/export rw",
    ).values()
    assert (found.key.driver, found.volumes, len(found.mounts)) == ("nfs.csi.k8s.io", ("pv-1",), 1)


def test_a_ceph_volume_without_a_telling_handle_counts_for_the_driver():
    """A cluster's id is not always its name, and nobody would ask for a made-up one."""
    node = Node({f"{CSI}/pv-1": VolumeData("cephfs.csi.ceph.com", "by-hand", "pv-1")})
    source = "u@b9127830-b0cc-4e34-aa47-9d1a2e9949a8.fs=/v"
    assert node.keys(f"500 29 0:52 / {CSI}/pv-1/mount rw - ceph {source} rw,mon_addr=10.0.0.1:3300") == {
        "0:52": StorageKey("cephfs.csi.ceph.com")
    }


def test_other_mounts_of_the_kubelet_are_none_of_our_business():
    """Secrets, subpaths, memory filesystems of drivers, and block devices, which are shown as devtmpfs."""
    node = Node(
        {
            f"{CSI}/inline": VolumeData("secrets-store.csi.k8s.io"),
            f"{STAGED}/rbd.csi.ceph.com/ab": VolumeData("rbd.csi.ceph.com", CEPH_HANDLE),
        }
    )
    assert (
        node.superblocks(
            f"500 29 0:60 / {POD}/kubernetes.io~secret/token rw - tmpfs tmpfs rw",
            f"501 29 0:61 / {KUBELET}/pods/0f0e/volume-subpaths/pv/c/0 rw - nfs4 10.0.0.9:/e rw",
            f"502 29 0:62 / {CSI}/inline/mount rw - tmpfs tmpfs rw",
            f"503 29 0:5 /sdb {STAGED}/volumeDevices/publish/pv-1/0f0e rw - devtmpfs udev rw",
            f"504 29 0:5 /sdb {STAGED}/rbd.csi.ceph.com/ab/globalmount rw - devtmpfs udev rw",
            "505 29 8:1 / / rw - ext4 /dev/sda1 rw",
        )
        == {}
    )
    assert node.map.unmapped == 0


def test_a_csi_mount_without_its_file_is_counted_and_left_alone():
    """Better not probed than blamed on the wrong driver; the file is looked for again until it is there."""
    node = Node()
    line = NFS4.format(point=f"{CSI}/pv-1/mount")
    assert node.superblocks(line) == {}
    assert node.map.unmapped == 1
    node.files[f"{CSI}/pv-1"] = VolumeData("nfs.csi.k8s.io", "", "pv-1")
    assert node.keys(line) == {"0:52": StorageKey("nfs.csi.k8s.io", "10.0.0.9")}
    assert node.map.unmapped == 0


def test_a_file_is_read_once_for_as_long_as_its_mount_is_there():
    """And what was learnt is forgotten with the mount."""
    node = Node({f"{CSI}/pv-1": VolumeData("nfs.csi.k8s.io", "", "pv-1")})
    line = NFS4.format(point=f"{CSI}/pv-1/mount")
    for _ in range(3):
        assert node.superblocks(line)["0:52"].volumes == ("pv-1",)
    assert node.read == [f"{CSI}/pv-1"]
    assert node.superblocks() == {}
    node.superblocks(line)
    assert len(node.read) == 2


def test_no_file_is_read_inside_another_volume():
    """A mount within a hung mount: reading beside it would hang the collector."""
    node = Node()
    assert set(
        node.superblocks(
            f"500 29 0:60 / {POD}/kubernetes.io~nfs/outer rw - nfs4 10.0.0.9:/e rw",
            f"501 500 0:61 / {CSI}/pv-1/mount rw - nfs4 10.0.0.8:/e rw",
        )
    ) == {"0:60"}
    assert node.read == []


def test_a_disk_of_its_own_for_pods_does_not_blind_us():
    """Being below a mount is harmless as long as that is no volume."""
    node = Node({f"{CSI}/pv-1": VolumeData("nfs.csi.k8s.io", "", "pv-1")})
    found = node.keys(
        f"500 29 8:2 / {KUBELET}/pods rw - ext4 /dev/sda2 rw", f"501 500 0:52 / {CSI}/pv-1/mount rw - nfs4 a:/e rw"
    )
    assert found == {"0:52": StorageKey("nfs.csi.k8s.io", "a")}


def test_hostile_names_of_mounts_do_no_harm():
    """Bytes that are not UTF-8, escapes, and names that look like more than they are."""
    node = Node()
    assert (
        node.superblocks(
            f"500 29 0:60 / {CSI}/pv\udcff/mount rw - nfs4 \udcff:/e rw,addr=\udcff",
            rf"501 29 0:61 / {CSI}/a\040b/../../x/mount rw - nfs4 10.0.0.9:/e rw",
            rf"502 29 0:62 / {STAGED}/a\057b/x/globalmount rw - nfs4 10.0.0.9:/e rw",
        )
        == {}
    )
    assert node.read == [os.fsdecode(f"{CSI}/pv".encode() + b"\xff")]


def test_everything_means_storage_outside_the_kubelet_too():
    """For `check` on a machine without Kubernetes; volumes keep their drivers."""
    node = Node({f"{CSI}/pv-1": VolumeData("hostpath.csi.k8s.io", "h", "pv-1")}, everything=True)
    found = node.superblocks(
        "20 1 8:1 / / rw - ext4 /dev/sda1 rw",
        "21 20 8:2 / /data rw - xfs /dev/sdb1 rw",
        f"22 20 8:1 /csi/pv-1 {CSI}/pv-1/mount rw - ext4 /dev/sda1 rw",
        "23 20 0:52 / /mnt/nfs rw - nfs4 nfs.example.com:/e rw,addr=10.0.0.9",
        "24 20 0:53 / /home rw - cifs //files/home rw,addr=10.0.0.5",
        "25 20 0:24 / /proc rw - proc proc rw",
        "26 20 0:25 / /run rw - tmpfs tmpfs rw",
        "27 20 0:26 / /var/lib/x/merged rw - overlay overlay rw",
        "28 20 7:1 / /snap/x ro - squashfs /dev/loop1 ro",
    )
    assert {device: (one.key, one.path) for device, one in found.items()} == {
        "8:1": (StorageKey("hostpath.csi.k8s.io"), f"{CSI}/pv-1/mount"),
        "8:2": (StorageKey(""), "/data"),
        "0:52": (StorageKey("", "nfs.example.com"), "/mnt/nfs"),
        "0:53": (StorageKey("", "files"), "/home"),
    }


@pytest.mark.parametrize(
    ("fstype", "source", "options", "storage"),
    [
        ("ext4", "/dev/mapper/vg-lv", (), True),
        ("btrfs", "/dev/sda3", (), True),
        ("zfs", "tank/home", (), True),
        ("bcachefs", "/dev/sda:/dev/sdb", (), True),
        ("nfs", "s:/e", (), True),
        ("lustre", "10.0.0.1@tcp:/fs", (), True),
        ("fuse.sshfs", "host:/", ("user_id=0", "allow_other"), True),
        ("fuse.sshfs", "host:/", ("user_id=1000", "group_id=1000"), False),
        ("fuse.sshfs", "host:/", ("user_id=1000", "allow_other"), True),
        ("fuseblk", "/dev/sdc1", ("user_id=0", "allow_other"), True),
        ("fuse.gvfsd-fuse", "gvfsd-fuse", ("user_id=1000",), False),
        ("fuse.portal", "portal", ("user_id=1000",), False),
        ("fuse.lxcfs", "lxcfs", ("user_id=0", "allow_other"), False),
        ("fuse.snapfuse", "snapfuse", ("user_id=0", "allow_other"), False),
        ("fusectl", "fusectl", (), False),
        ("squashfs", "/dev/loop3", (), False),
        ("overlay", "overlay", (), False),
        ("tmpfs", "tmpfs", (), False),
        ("devtmpfs", "/dev/x", (), False),
        ("cgroup2", "cgroup2", (), False),
        ("autofs", "systemd-1", (), False),
        ("nsfs", "nsfs", (), False),
    ],
)
def test_what_is_storage(fstype, source, options, storage):
    """Devices and servers are; what nobody but its user may enter cannot be judged."""
    assert is_storage(mount(fstype, source, "rw", *options)) is storage


PUBLISHED = {
    "attachmentID": "csi-1",
    "driverName": "nfs.csi.k8s.io",
    "nodeName": "n",
    "specVolID": "pv-1",
    "volumeHandle": "h-1",
    "volumeLifecycleMode": "Persistent",
}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (PUBLISHED, VolumeData("nfs.csi.k8s.io", "h-1", "pv-1")),
        (PUBLISHED | {"volumeLifecycleMode": "Ephemeral"}, VolumeData("nfs.csi.k8s.io", "h-1")),
        ({"driverName": "nfs.csi.k8s.io", "volumeHandle": "h-1"}, VolumeData("nfs.csi.k8s.io", "h-1")),
        (PUBLISHED | {"specVolID": "../x"}, VolumeData("nfs.csi.k8s.io", "h-1")),
        (PUBLISHED | {"volumeHandle": "a\nb"}, VolumeData("nfs.csi.k8s.io", "", "pv-1")),
        (PUBLISHED | {"volumeHandle": "h" * 5000}, VolumeData("nfs.csi.k8s.io", "", "pv-1")),
        (PUBLISHED | {"driverName": "../../etc"}, None),
        (PUBLISHED | {"driverName": 5}, None),
        ({}, None),
    ],
)
def test_vol_data_is_read_with_suspicion(tmp_path, content, told):
    """Foreign and hostile files name no driver; an inline volume of a pod is no PersistentVolume."""
    path = tmp_path / "vol_data.json"
    path.write_text(json.dumps(content))
    assert read_volume_data(path) == told


@pytest.mark.parametrize("content", [b"", b"not json", b"\xff\xfe", b'{"driverName":"a', b"[" * 100_000])
def test_vol_data_that_is_no_json_says_nothing(tmp_path, content):
    """Half-written or broken files."""
    path = tmp_path / "vol_data.json"
    path.write_bytes(content)
    assert read_volume_data(path) is None
    assert read_volume_data(tmp_path / "absent.json") is None


def test_neither_a_pipe_nor_a_link_in_place_of_vol_data_makes_us_wait(tmp_path):
    """A link could lead into a hung volume."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "target").write_text(json.dumps(PUBLISHED))
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert read_volume_data(tmp_path / "pipe") is None
    assert read_volume_data(tmp_path / "link") is None
