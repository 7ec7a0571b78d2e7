"""Parsing mountinfo and finding whose volume a mount is."""

import json
import os
from pathlib import Path

import pytest

from leadsman.domain.report import StorageKey
from leadsman_health_collector.mountinfo import parse_mounts, printable, visible_below
from leadsman_health_collector.volumes import VolumeMap, backend_of, read_driver

POD = "/var/lib/kubelet/pods/0f0e/volumes"
NFS4 = (
    "513 29 0:52 / {point} rw,relatime shared:290 - nfs4 10.0.0.9:/export "
    "rw,vers=4.1,hard,proto=tcp,timeo=600,retrans=2,sec=sys,addr=10.0.0.9"
)


def lines(*text: str) -> bytes:
    return "\n".join(text).encode() + b"\n"


def test_a_line_with_and_without_optional_fields():
    """The number of fields before the dash varies."""
    plain, tagged = parse_mounts(
        lines(
            "36 35 98:0 /mnt1 /mnt2 rw,noatime - ext3 /dev/root rw,errors=continue",
            "37 35 98:0 / /mnt3 rw,noatime master:1 propagate_from:2 unbindable - ext3 /dev/root rw",
        )
    )
    assert (plain.mount_id, plain.parent_id, plain.device, plain.root, plain.mount_point) == (
        36,
        35,
        "98:0",
        "/mnt1",
        "/mnt2",
    )
    assert (tagged.fstype, tagged.source, tagged.mount_point) == ("ext3", "/dev/root", "/mnt3")


def test_octal_escapes_and_bytes_that_are_not_utf8():
    """Blank, tab, newline, backslash and '#' are escaped; any other byte may stand as it is."""
    (mount,) = parse_mounts(rb"36 35 0:5 / /a\040b\011c\134d rw - nfs srv:/e\040f rw")
    assert (mount.mount_point, mount.source) == ("/a b\tc\\d", "srv:/e f")
    (mount,) = parse_mounts(b"36 35 0:5 / /vol\xff rw - nfs srv:/e rw")
    assert os.fsencode(mount.mount_point) == b"/vol\xff"
    assert printable(mount.mount_point) == "/vol\ufffd"


@pytest.mark.parametrize(
    "line", [b"", b"garbage", b"36 35 0:5 / /a rw", b"x 35 0:5 / /a rw - nfs s rw", b" - nfs s rw"]
)
def test_what_is_not_mountinfo_is_left_out(line):
    """A newer kernel must not stop the probe."""
    assert [mount.mount_id for mount in parse_mounts(line + b"\n36 35 0:5 / /a rw - nfs s:/e rw")] == [36]


def test_the_real_file_can_be_read():
    """The kernel under this test writes what we parse."""
    assert any(mount.mount_point == "/" for mount in parse_mounts(Path("/proc/self/mountinfo").read_bytes()))


def test_only_the_upper_of_stacked_mounts_is_visible_and_siblings_by_prefix_are_not_below():
    """`/var/lib/kubelet2` is not below `/var/lib/kubelet`."""
    found = visible_below(
        parse_mounts(
            lines(
                "1 0 0:1 / /var/lib/kubelet rw - ext4 /dev/a rw",
                "2 1 0:2 / /var/lib/kubelet/x rw - nfs a:/e rw",
                "3 2 0:3 / /var/lib/kubelet/x rw - nfs b:/e rw",
                "4 0 0:4 / /var/lib/kubelet2/x rw - nfs c:/e rw",
            )
        ),
        "/var/lib/kubelet",
    )
    assert [mount.device for mount in found] == ["0:3"]


@pytest.mark.parametrize(
    ("source", "backend"),
    [
        ("10.0.0.9:/export", "10.0.0.9"),
        ("nfs.example.com:/", "nfs.example.com"),
        ("[fd00::9]:/export", "fd00::9"),
        ("10.0.0.1:6789,10.0.0.2:6789:/volumes", ""),
        ("10.0.0.1:6789:/volumes", ""),
        ("csi-user@fsid.cephfs=/volumes", ""),
        ("/dev/sdb", ""),
        ("//server/share", ""),
        ("JuiceFS:data", ""),
        ("10.0.0.9\udcff:/x", ""),
        ("tmpfs", ""),
    ],
)
def test_the_backend_is_the_host_of_an_nfs_like_source(source, backend):
    """Anything else stays without a backend rather than with a wrong one."""
    assert backend_of(source) == backend


def volumes(text: bytes, drivers: dict[str, str]) -> tuple[VolumeMap, dict[str, tuple[str, StorageKey]]]:
    read: list[Path] = []

    def read_one(path: Path) -> str:
        read.append(path)
        return drivers.get(str(path), "")

    found = VolumeMap(Path("/var/lib/kubelet"), read_one)
    mounts = found.superblocks(parse_mounts(text))
    found.read_paths = [str(path) for path in read]  # type: ignore[attr-defined]
    return found, {device: (mount.path, mount.key) for device, mount in mounts.items()}


def test_a_csi_mount_belongs_to_the_driver_in_the_file_beside_it():
    """The path names the volume, not the driver."""
    point = f"{POD}/kubernetes.io~csi/pv-1/mount"
    _, found = volumes(
        lines(NFS4.format(point=point)), {f"{POD}/kubernetes.io~csi/pv-1/vol_data.json": "nfs.csi.k8s.io"}
    )
    assert found == {"0:52": (point, StorageKey("nfs.csi.k8s.io", "10.0.0.9"))}


def test_an_in_tree_nfs_mount_and_a_staged_mount_are_known_by_their_path():
    """No file is needed."""
    staged = "/var/lib/kubelet/plugins/kubernetes.io/csi/rbd.csi.ceph.com/ab12/globalmount"
    _, found = volumes(
        lines(
            NFS4.format(point=f"{POD}/kubernetes.io~nfs/data"),
            f"600 29 253:0 / {staged} rw - ext4 /dev/rbd0 rw",
        ),
        {},
    )
    assert found["0:52"][1] == StorageKey("kubernetes.io/nfs", "10.0.0.9")
    assert found["253:0"][1] == StorageKey("rbd.csi.ceph.com")


def test_many_mounts_of_one_superblock_are_one_source_seen_at_its_root():
    """A deleted subdirectory of an export says nothing about the export."""
    whole = f"{POD}/kubernetes.io~nfs/zz"
    part = f"{POD}/kubernetes.io~nfs/aa"
    _, found = volumes(
        lines(
            f"500 29 0:52 /sub {part} rw - nfs4 10.0.0.9:/export rw",
            f"501 29 0:52 / {whole} rw - nfs4 10.0.0.9:/export rw",
        ),
        {},
    )
    assert found == {"0:52": (whole, StorageKey("kubernetes.io/nfs", "10.0.0.9"))}


def test_other_mounts_of_the_kubelet_are_none_of_our_business():
    """Secrets, subpaths and memory filesystems of drivers."""
    found, mounts = volumes(
        lines(
            f"500 29 0:60 / {POD}/kubernetes.io~secret/token rw - tmpfs tmpfs rw",
            "501 29 0:61 / /var/lib/kubelet/pods/0f0e/volume-subpaths/pv/c/0 rw - nfs4 10.0.0.9:/e rw",
            f"502 29 0:62 / {POD}/kubernetes.io~csi/inline/mount rw - tmpfs tmpfs rw",
        ),
        {f"{POD}/kubernetes.io~csi/inline/vol_data.json": "secrets-store.csi.k8s.io"},
    )
    assert mounts == {}
    assert found.unmapped == 0


def test_a_csi_mount_without_its_file_is_counted_and_left_alone():
    """Better not probed than blamed on the wrong driver; old staging paths name no driver either."""
    found, mounts = volumes(
        lines(
            NFS4.format(point=f"{POD}/kubernetes.io~csi/pv-1/mount"),
            "514 29 0:53 / /var/lib/kubelet/plugins/kubernetes.io/csi/pv/pv-2/globalmount rw - nfs4 10.0.0.9:/e rw",
        ),
        {},
    )
    assert mounts == {}
    assert found.unmapped == 2


def test_no_file_is_read_inside_another_volume():
    """A mount within a hung mount: reading beside it would hang the collector."""
    outer = f"{POD}/kubernetes.io~nfs/outer"
    trap = "/var/lib/kubelet/pods/0f0e/volumes/kubernetes.io~csi/pv-1/mount"
    found, mounts = volumes(
        lines(
            f"500 29 0:60 / {outer} rw - nfs4 10.0.0.9:/e rw",
            f"501 500 0:61 / {trap} rw - nfs4 10.0.0.8:/e rw",
        ),
        {},
    )
    assert found.read_paths == []  # type: ignore[attr-defined]
    assert list(mounts) == ["0:60"]


@pytest.mark.parametrize(
    ("content", "driver"),
    [
        (json.dumps({"driverName": "nfs.csi.k8s.io", "specVolID": "x", "n": 1}).encode(), "nfs.csi.k8s.io"),
        (b"{}", ""),
        (b"not json", ""),
        (b"\xff\xfe", ""),
        (b'{"driverName": 5}', ""),
        (b'{"driverName": "../../etc"}', ""),
    ],
)
def test_vol_data_is_read_with_suspicion(tmp_path, content, driver):
    """Half-written, foreign and hostile files name no driver."""
    (tmp_path / "vol_data.json").write_bytes(content)
    assert read_driver(tmp_path / "vol_data.json") == driver
    assert read_driver(tmp_path / "absent.json") == ""
