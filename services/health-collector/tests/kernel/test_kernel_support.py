"""What the kernel needs for a driver, on trees that look like /proc, /sys and /lib/modules."""

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.kernel_modules import KernelModules
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.kernel_support import KernelSupportProbe

GOOD = (Outcome.GOOD, None)
MISSING = (Outcome.ERROR, Reason.KERNEL_SUPPORT_MISSING)
BLIND = (Outcome.NOT_RUN, None)
NFS = "nfs.csi.k8s.io"
RELEASE = "6.1.0-13-amd64"


class Kernel:
    """A probe for `drivers`, and the kernel that it sees."""

    def __init__(self, machine, *drivers: str, **needs: tuple[str, ...]) -> None:
        self.machine = machine
        self.folder = machine.proc.parent / "modules" / RELEASE
        machine.tell("sys/kernel/osrelease", f"{RELEASE}\n")
        machine.tell("filesystems", "nodev\tproc\n\text4\nnodev\tfuse\n")
        kernel = KernelModules(machine.proc, machine.sys.root, self.folder.parent)
        self.probe = KernelSupportProbe(lambda: drivers, machine.table, kernel, needs)

    def install(self, builtin: str = "kernel/fs/ext4/ext4.ko\n", dep: str = "") -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "modules.builtin").write_text(builtin)
        (self.folder / "modules.dep").write_text(dep)

    async def seen(self, driver: str = NFS):
        assert driver in self.probe.discover()
        found = await self.probe.look(driver)
        return (found.outcome, found.reason)


async def test_missing_only_if_both_lists_could_be_read_and_name_none(machine):
    """Without /lib/modules nobody can tell."""
    kernel = Kernel(machine, NFS)
    assert await kernel.seen() == BLIND
    kernel.install()
    assert await kernel.seen() == MISSING
    (kernel.folder / "modules.builtin").unlink()
    assert await kernel.seen() == BLIND
    kernel.install(builtin="")
    assert await kernel.seen() == BLIND


@pytest.mark.parametrize(
    "dep",
    [
        "kernel/fs/nfs/nfs.ko: kernel/fs/lockd/lockd.ko\n",
        "kernel/fs/nfs/nfs.ko.xz:\n",
        "kernel/a.ko:\nextra/nfs.ko.zst: kernel/a.ko\n",
    ],
)
async def test_absent_but_loadable_is_well(machine, dep):
    """Modules load on demand, be they compressed or from elsewhere."""
    kernel = Kernel(machine, NFS)
    kernel.install(dep=dep)
    assert await kernel.seen() == GOOD


@pytest.mark.parametrize(
    "dep", ["kernel/net/x.ko: kernel/fs/nfs/nfs.ko\n", "kernel/fs/nfs/blocklayout/nfsd.ko:\n", "nfs"]
)
async def test_what_only_looks_like_it_is_not_it(machine, dep):
    """A dependency of another line, a longer name, no module at all."""
    kernel = Kernel(machine, NFS)
    kernel.install(dep=dep)
    assert await kernel.seen() == MISSING


async def test_any_of_several_is_enough_wherever_it_shows(machine):
    """In the list of filesystems, among loaded modules, or built in; `-` and `_` are one."""
    kernel = Kernel(machine, NFS, "iscsi.csi.k8s.io", "rook-ceph.cephfs.csi.ceph.com", "local.csi.openebs.io")
    kernel.install(builtin="kernel/drivers/md/dm-mod.ko\n")
    assert await kernel.seen("rook-ceph.cephfs.csi.ceph.com") == GOOD
    assert await kernel.seen("local.csi.openebs.io") == GOOD
    assert await kernel.seen("iscsi.csi.k8s.io") == MISSING
    machine.sys.write("module/iscsi_tcp/refcnt", "1")
    assert await kernel.seen("iscsi.csi.k8s.io") == GOOD
    machine.tell("filesystems", "nodev\tnfs4\n")
    assert await kernel.seen() == GOOD


async def test_where_loading_is_switched_off_only_what_is_there_counts(machine):
    """`kernel.modules_disabled` cannot be taken back before the next boot."""
    kernel = Kernel(machine, NFS)
    kernel.install(dep="kernel/fs/nfs/nfs.ko:\n")
    machine.tell("sys/kernel/modules_disabled", "0\n")
    assert await kernel.seen() == GOOD
    machine.tell("sys/kernel/modules_disabled", "1\n")
    assert await kernel.seen() == MISSING


async def test_a_mounted_volume_has_proved_it(machine):
    """Whatever the lists say."""
    kernel = Kernel(machine, "disk.example.com", **{"disk.example.com": ("wonderfs",)})
    kernel.install()
    assert await kernel.seen("disk.example.com") == MISSING
    machine.mount(machine.staged("8:0"))
    machine.table.current()
    assert await kernel.seen("disk.example.com") == GOOD


async def test_modules_that_are_installed_later_are_found(machine):
    """The lists are read again when they have changed."""
    kernel = Kernel(machine, NFS)
    kernel.install()
    assert await kernel.seen() == MISSING
    kernel.install(dep="kernel/fs/nfs/nfs.ko:\n")
    assert await kernel.seen() == GOOD


async def test_drivers_that_nobody_knows_are_no_source_until_configured(machine):
    """Configuration adds and replaces."""
    kernel = Kernel(machine, "x.example.com", NFS, "csi.k8s.io")
    assert set(kernel.probe.discover()) == {NFS}
    assert kernel.probe.sources()[NFS].key == StorageKey(NFS)
    kernel = Kernel(machine, "x.example.com", NFS, **{"x.example.com": ("xfs-x",), NFS: ()})
    assert set(kernel.probe.discover()) == {"x.example.com"}


async def test_a_kernel_that_tells_nothing_and_garbage_are_no_verdict(machine):
    """Nor an exception."""
    kernel = Kernel(machine, NFS)
    kernel.install(builtin="\x00\x00\n" * 10, dep=":::\n.ko:\n/.ko:\n")
    assert await kernel.seen() == BLIND
    (machine.proc / "filesystems").unlink()
    assert await kernel.seen() == BLIND
