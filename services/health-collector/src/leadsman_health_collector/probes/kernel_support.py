"""Has the kernel what a driver needs to mount its volumes?

Source: `/proc/filesystems`, `/sys/module`, and `modules.builtin` and `modules.dep` of the running release below
`/lib/modules`.
Period: 30 x the collector's. Deadline: none; the lists are local and read again only when they have changed.
Thresholds: 1 and 1, without a second look.
Evidence: control plane.

A driver is known by the table below or by configuration. It is well off if any of the things it can use is in the
kernel or can be loaded: modules load on demand. They are missing only if both lists of the running kernel could be read
and name none of them, or if loading has been switched off. Where the lists are not to be had (no `/lib/modules` in the
container) the look was not had, unless the kernel itself shows one of them. A driver with a volume mounted has proved
what it needs. A driver that is not known is no source.

What it cannot tell: tools that a driver needs beside the kernel (iscsid, mount.nfs); a blocklisted or unsigned module;
whether a module that loads also works.
"""

from collections.abc import Callable, Collection, Mapping

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.kernel_modules import KernelModules, Support
from leadsman_health_collector.mount_table import MountTable
from leadsman_health_collector.observation import Kind, Observation, Outcome, not_run
from leadsman_health_collector.probes.probe import Schedule, Source
from leadsman_health_collector.strikes import Thresholds

_NFS = ("nfs", "nfs4")
_SMB = ("cifs", "smb3")
_ISCSI = ("iscsi_tcp",)
_NVME_OF = ("nvme_tcp", "nvme_rdma", "nvme_fc")

NEEDS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/nfs": _NFS,
    "nfs.csi.k8s.io": _NFS,
    "smb.csi.k8s.io": _SMB,
    "iscsi.csi.k8s.io": _ISCSI,
    "cephfs.csi.ceph.com": ("ceph", "fuse"),
    "nfs.csi.ceph.com": _NFS,
    "rbd.csi.ceph.com": ("rbd", "nbd"),
    "nvmeof.csi.ceph.com": _NVME_OF,
    "org.democratic-csi.nfs": _NFS,
    "org.democratic-csi.smb": _SMB,
    "org.democratic-csi.iscsi": _ISCSI,
    "org.democratic-csi.nvmeof": _NVME_OF,
    "csi.juicefs.com": ("fuse",),
    "driver.longhorn.io": (*_ISCSI, *_NVME_OF),
    "io.openebs.csi-mayastor": _NVME_OF,
    "local.csi.openebs.io": ("dm_mod",),
    "topolvm.io": ("dm_mod",),
    "zfs.csi.openebs.io": ("zfs",),
    "efs.csi.aws.com": _NFS,
    "fsx.csi.aws.com": ("lustre",),
    "s3.csi.aws.com": ("fuse",),
    "file.csi.azure.com": (*_SMB, *_NFS),
    "filestore.csi.storage.gke.io": _NFS,
    "gcsfuse.csi.storage.gke.io": ("fuse",),
}
"""Drivers, and filesystems or modules of which any one is enough; a name stands also for `<prefix>.<name>`, as Rook
calls its Ceph drivers. A driver that can do several protocols has all of them here."""


class KernelSupportProbe:
    """Looks for what the `drivers` on this node need; `needs` adds to NEEDS and replaces entries of the same name."""

    kind = Kind.KERNEL
    schedule = Schedule(period=30.0, thresholds=Thresholds(definite=1, failures=1, up=1), second_look=False)

    def __init__(
        self,
        drivers: Callable[[], Collection[str]],
        table: MountTable,
        kernel: KernelModules,
        needs: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._drivers = drivers
        self._table = table
        self._kernel = kernel
        self._needs = {**NEEDS, **(needs or {})}
        self._sources: dict[str, Source] = {}

    def discover(self) -> Collection[str]:
        """See `Probe.discover`: names of drivers whose needs are known."""
        self._sources = {
            driver: Source(StorageKey(driver), place="kernel") for driver in self._drivers() if self.needs_of(driver)
        }
        return self._sources.keys()

    def choose(self, suspects: Collection[str]) -> Collection[str]:  # noqa: ARG002 - all, they cost little
        """See `Probe.choose`: all of them."""
        return self._sources.keys()

    def sources(self) -> Mapping[str, Source]:
        """See `Probe.sources`."""
        return self._sources

    async def look(self, name: str) -> Observation:
        """See `Probe.look`."""
        needs = self.needs_of(name)
        words = " or ".join(needs)
        if any(mount.key.driver == name for mount in self._table.latest.values()):
            return Observation(Outcome.GOOD, message="a volume of it is mounted")
        try:
            support = self._kernel.support(needs)
            folder = self._kernel.folder
        except OSError as error:
            return not_run(f"the kernel's own lists cannot be read: {error}")
        match support:
            case Support.PRESENT | Support.LOADABLE:
                return Observation(Outcome.GOOD, message=f"{words}: {support.value}")
            case Support.MISSING:
                why = f"the kernel has no {words} and cannot load it ({folder})"
                return Observation(Outcome.ERROR, Reason.KERNEL_SUPPORT_MISSING, why)
            case Support.UNKNOWN:
                return not_run(f"cannot tell whether {words} could be loaded: {folder} has no lists of modules")

    def needs_of(self, driver: str) -> tuple[str, ...]:
        """What `driver` needs, any one of which is enough; empty if that is not known."""
        while driver and driver not in self._needs:
            driver = driver.partition(".")[2]
        return self._needs.get(driver, ())
