"""What one busy node looks like: which drivers, volumes and servers the reach benchmark puts there. Pure.

Five drivers of different kinds and twenty mounted volumes, the reach that the collector is measured at: NFS on three
servers, CephFS and RBD on one cluster with three monitors, cloud disks without an address to ask, and a filesystem in
userspace behind a server of which only the TCP port is known.
"""

from dataclasses import dataclass

NODE = "reach-1"

_CLUSTER = "b7b4c1a0-6f3e-4f0a-9d0c-2f6f5d1e8a11"
_STATS = ("STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS")


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume that a pod uses: its name, its handle, and the source of its mount.

    Without a source it is a block volume: ext4 on a device of its own.
    """

    name: str
    handle: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """One address of a backend: what it speaks, by `leadsman.testing.tcp_backend`, and the name it is reached by."""

    backend: str
    protocol: str
    number: int = 0
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Driver:
    """A CSI driver with what its node plugin can do, its volumes on this node, and the servers behind it."""

    name: str
    capabilities: tuple[str, ...]
    volumes: tuple[Volume, ...]
    servers: tuple[Server, ...] = ()


def _nfs(count: int) -> tuple[Volume, ...]:
    hosts = [f"nfs-{'abc'[number % 3]}" for number in range(count)]
    return tuple(
        Volume(f"pvc-nfs-{number}", f"{host}#exports#pvc-{number}", f"{host}:/exports/pvc-{number}")
        for number, host in enumerate(hosts)
    )


def _ceph_handle(number: int) -> str:
    pool, image = f"{1:016x}", f"{number:08x}-0000-4000-8000-000000000000"
    return f"0001-{len(_CLUSTER):04x}-{_CLUSTER}-{pool}-{image}"


def _monitors() -> tuple[Server, ...]:
    return tuple(Server(_CLUSTER, "ceph", number) for number in range(3))


DRIVERS = (
    Driver("nfs.csi.k8s.io", _STATS, _nfs(8), tuple(Server(f"nfs-{letter}", "nfs") for letter in "abc")),
    Driver(
        "cephfs.csi.ceph.com",
        (*_STATS, "VOLUME_CONDITION"),
        tuple(Volume(f"pvc-cephfs-{number}", _ceph_handle(number), f"mon:/volumes/{number}") for number in range(4)),
        _monitors(),
    ),
    Driver(
        "rbd.csi.ceph.com",
        _STATS,
        tuple(Volume(f"pvc-rbd-{number}", _ceph_handle(100 + number)) for number in range(3)),
        _monitors(),
    ),
    Driver("ebs.csi.aws.com", _STATS, tuple(Volume(f"pvc-ebs-{number}", f"vol-{number:017x}") for number in range(3))),
    Driver(
        "csi.juicefs.com",
        (*_STATS, "GET_VOLUME_HEALTH", "GET_STORAGE_HEALTH"),
        tuple(Volume(f"pvc-juice-{number}", f"juice-{number}", f"JuiceFS:vol-{number}") for number in range(2)),
        (Server("meta", "silent", host="localhost"),),
    ),
)
"""5 drivers, 20 mounts, 10 endpoints of 6 backends."""
