"""Which servers the mounts of a node use."""

from pathlib import Path

import pytest

from leadsman.domain.report import StorageKey
from leadsman.testing.clock import FakeClock
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.mount_endpoints import MAX_MONITORS, endpoints_of_mounts
from leadsman_health_collector.mount_table import FRESH_S, MountTable
from leadsman_health_collector.mountinfo import parse_mounts
from leadsman_health_collector.volume_data import VolumeData
from leadsman_health_collector.volumes import VolumeMap, VolumeMount

KEY = StorageKey("driver.example.com", "backend")


def volume(line: bytes, key: StorageKey = KEY) -> VolumeMount:
    (mount,) = parse_mounts(b"36 35 0:52 / /x rw - " + line)
    return VolumeMount(mount.device, mount.mount_point, mount.fstype, key, (mount,))


def found(line: bytes) -> list[tuple[str, int, str]]:
    return [(one.host, one.port, one.protocol) for one in endpoints_of_mounts([volume(line)])]


@pytest.mark.parametrize(
    ("line", "server"),
    [
        (b"nfs4 nfs.example.com:/e rw,proto=tcp,addr=10.0.0.9", ("10.0.0.9", 2049)),
        (b"nfs 10.0.0.9:/e rw,vers=3,mountaddr=10.0.0.8,mountport=1,proto=tcp,addr=10.0.0.9", ("10.0.0.9", 2049)),
        (b"nfs4 s:/e rw,port=20490,proto=tcp,addr=10.0.0.9", ("10.0.0.9", 20490)),
        (b"nfs4 [fd00::9]:/e rw,proto=tcp6,addr=fd00::9", ("fd00::9", 2049)),
        (b"nfs4 s:/e rw,proto=tcp6,addr=fe80::9%eth0", ("fe80::9%eth0", 2049)),
        (b"nfs4 nfs.example.com:/e rw", ("nfs.example.com", 2049)),
        (b"nfs4 s:/e rw,addr=10.0.0.9\\054port=1", None),
        (b"nfs4 s:/e rw,proto=rdma,port=20049,addr=10.0.0.9", None),
        (b"nfs s:/e rw,proto=udp,addr=10.0.0.9", None),
        (b"nfs4 s:/e rw,port=0,addr=10.0.0.9", ("10.0.0.9", 2049)),
        (b"nfs4 s:/e rw,port=99999,addr=10.0.0.9", None),
        (b"nfs4 s:/e rw,port=x,addr=10.0.0.9", None),
        (b"nfs4 s:/e rw,addr=\xff", None),
        (b"nfs4 s:/e rw,addr=a b", None),
        (b"nfs4 nonsense rw", None),
        (b"fuse.nfs4 10.0.0.9:/e rw,addr=10.0.0.9", None),
    ],
)
def test_nfs(line, server):
    """The address in use counts, over TCP only; FUSE and what is not understood give nothing."""
    assert found(line) == ([(*server, "nfs")] if server else [])


@pytest.mark.parametrize(
    ("line", "server"),
    [
        (b"cifs //files/home rw,vers=3.1.1,username=me,addr=10.0.0.5", ("10.0.0.5", 445)),
        (b"smb3 //files/home rw,addr=10.0.0.5,port=4450", ("10.0.0.5", 4450)),
        (
            b"cifs //files/home rw,addr=fd00:0000:0000:0000:0000:0000:0000:0005",
            ("fd00:0000:0000:0000:0000:0000:0000:0005", 445),
        ),
        (b"cifs //files/home rw", ("files", 445)),
        (b"cifs //files/home rw,addr=10.0.0.5,rdma", None),
        (b"cifs home rw", None),
    ],
)
def test_smb(line, server):
    """The same for shares."""
    assert found(line) == ([(*server, "smb")] if server else [])


@pytest.mark.parametrize(
    ("line", "monitors"),
    [
        (b"ceph 10.0.0.1:6789,10.0.0.2:6790:/v rw,name=u", [("10.0.0.1", 6789), ("10.0.0.2", 6790)]),
        (b"ceph 10.0.0.1,10.0.0.2:/v rw", [("10.0.0.1", 6789), ("10.0.0.2", 6789)]),
        (b"ceph [fd00::1]:6789,[fd00::2]:3300:/ rw", [("fd00::1", 6789), ("fd00::2", 3300)]),
        (b"ceph u@f.fs=/v rw,mon_addr=10.0.0.1:3300/10.0.0.2:3300", [("10.0.0.1", 3300), ("10.0.0.2", 3300)]),
        (b"ceph u@f.fs=/v rw,mon_addr=[fd00::1]:3300/[fd00::2]", [("fd00::1", 3300), ("fd00::2", 6789)]),
        (b"ceph u@f.fs=/v rw", []),
        (b"ceph u@f.fs=:/v rw", []),
        (b"ceph \xff:/v rw,mon_addr=//\xff/a b/:1", []),
        (b"ceph nonsense rw", []),
    ],
)
def test_ceph(line, monitors):
    """Both syntaxes of a CephFS mount; every monitor is an address of its own."""
    assert found(line) == [(host, port, "ceph") for host, port in monitors]


def test_a_mount_with_more_monitors_than_any_cluster_has_is_cut():
    """Nothing that one mount says may fill the list."""
    addresses = "/".join(f"10.0.{n // 250}.{n % 250}:3300" for n in range(1000))
    assert len(found(f"ceph u@f.fs=/v rw,mon_addr={addresses}".encode())) == MAX_MONITORS


def test_mounts_of_one_server_make_one_endpoint_and_a_driver_alone_makes_none():
    """Without a backend the key stands for all that a driver serves, which one server must not condemn."""
    line = b"nfs4 s:/e rw,addr=10.0.0.9"
    assert endpoints_of_mounts([volume(line), volume(line), volume(line, StorageKey("driver.example.com"))]) == (
        Endpoint(KEY, "10.0.0.9", 2049, "nfs", from_mount=True),
    )


def test_block_storage_has_no_endpoint():
    """Its paths are told by sysfs."""
    assert found(b"ext4 /dev/rbd0 rw") == []
    assert endpoints_of_mounts([VolumeMount("0:52", "/x", "nfs4", KEY)]) == ()


def test_the_table_is_read_once_a_second_for_all_who_ask(tmp_path):
    """Several probes look at the mounts in the same round."""
    path = tmp_path / "mountinfo"
    pod = "/k/pods/1/volumes/kubernetes.io~nfs/data"
    line = f"36 35 0:52 / {pod} rw - nfs4 10.0.0.9:/e rw,addr=10.0.0.9\n"
    clock = FakeClock()
    table = MountTable(path, VolumeMap(Path("/k")), clock)
    assert table.endpoints() == ()
    path.write_text(line)
    assert set(table.current()) == {"0:52"}
    expected = (Endpoint(StorageKey("kubernetes.io/nfs", "10.0.0.9"), "10.0.0.9", 2049, "nfs", from_mount=True),)
    assert table.endpoints() == expected
    path.write_text("")
    assert table.current() == table.latest
    assert table.endpoints() == expected
    clock.advance(FRESH_S)
    assert table.endpoints() == ()
    assert table.latest == {}


def test_a_list_that_has_not_changed_is_read_again_only_for_mounts_that_nobody_knows(tmp_path):
    """Their file may come later than they."""
    path = tmp_path / "mountinfo"
    asked: list[Path] = []

    def read(file: Path) -> VolumeData | None:
        asked.append(file)
        return VolumeData("nfs.csi.k8s.io") if len(asked) == 3 else None

    path.write_text("36 35 0:52 / /k/pods/1/volumes/kubernetes.io~csi/pv/mount rw - nfs4 10.0.0.9:/e rw\n")
    clock = FakeClock()
    table = MountTable(path, VolumeMap(Path("/k"), read), clock)
    for _ in range(2):
        assert table.current() == {}
        clock.advance(FRESH_S)
    first = table.current()
    assert set(first) == {"0:52"}
    clock.advance(FRESH_S)
    assert table.current() is first
    assert len(asked) == 3


def test_a_list_of_mounts_that_cannot_be_read_leaves_what_was_known(tmp_path):
    """Who discovers mounts says so; endpoints stand meanwhile."""
    path = tmp_path / "mountinfo"
    path.write_text("36 35 0:52 / /k/pods/1/volumes/kubernetes.io~nfs/data rw - nfs4 10.0.0.9:/e rw\n")
    clock = FakeClock()
    table = MountTable(path, VolumeMap(Path("/k")), clock)
    known = table.endpoints()
    assert len(known) == 1
    path.unlink()
    clock.advance(FRESH_S)
    assert table.endpoints() == known
    with pytest.raises(FileNotFoundError):
        table.current()
    assert set(table.latest) == {"0:52"}
