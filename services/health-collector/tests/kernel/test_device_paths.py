"""The ways to disks, on trees that look like the sysfs of machines with iSCSI, Fibre Channel, NVMe and multipath."""

import errno
import os

import pytest

from leadsman.domain.reasons import Reason
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.probes.device_paths import REMEMBERED_S, WALK_AGAIN_S, DevicePathsProbe

GOOD = (Outcome.GOOD, None)
SOME = (Outcome.IMPAIRED, Reason.PATHS_DEGRADED)
NONE = (Outcome.ERROR, Reason.ALL_PATHS_DOWN)
BLIND = (Outcome.NOT_RUN, None)


@pytest.fixture
def probe(machine):
    return DevicePathsProbe(machine.table, machine.sys.root, machine.clock)


class Disk:
    """One mounted device under the eyes of the probe."""

    def __init__(self, probe, machine, name: str) -> None:
        self.probe, self.machine, self.name = probe, machine, name
        machine.mount(machine.staged(name))

    async def seen(self):
        assert self.name in self.probe.discover()
        return await self.now()

    async def now(self):
        self.machine.clock.advance(1)
        found = await self.probe.look(self.name)
        return (found.outcome, found.reason)

    async def words(self):
        self.machine.clock.advance(1)
        return (await self.probe.look(self.name)).message


async def test_an_iscsi_disk_stands_and_falls_with_its_session(probe, machine):
    """The disk itself says `running` until the session has been given up."""
    machine.sys.iscsi_disk("sda", "8:0", session=1)
    machine.sys.session(2, "FAILED")
    disk = Disk(probe, machine, "8:0")
    assert await disk.seen() == GOOD
    assert await disk.words() == "1 of 1 paths up"
    machine.sys.session(1, "FAILED")
    assert await disk.now() == NONE
    assert await disk.words() == "0 of 1 paths up (session1 FAILED)"
    machine.sys.session(1, "LOGGED_IN")
    assert await disk.now() == GOOD


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("running", GOOD),
        ("offline", NONE),
        ("transport-offline", NONE),
        ("blocked", NONE),
        ("quiesce", NONE),
        ("", BLIND),
        ("RUNNING", BLIND),
        ("\x1b[31m" + "x" * 9000, BLIND),
    ],
)
async def test_states_of_a_scsi_device(probe, machine, word, expected):
    """What the kernel says in words that nobody knows is no verdict, and nothing unprintable comes out of it."""
    device = machine.sys.iscsi_disk("sda", "8:0", session=1)
    machine.sys.write(f"{device}/state", word)
    disk = Disk(probe, machine, "8:0")
    assert await disk.seen() == expected
    words = await disk.words()
    assert words.isprintable()
    assert len(words) < 100


async def multipath(probe, machine):
    for number, (host, port) in enumerate([(1, 0), (1, 1), (2, 0), (2, 1)]):
        machine.sys.fc_disk(f"sd{'abcd'[number]}", f"8:{16 * number}", host, port)
    machine.sys.device_mapper("dm-0", "252:0", "mpath-3600a0980", ["sda", "sdb", "sdc", "sdd"])
    disk = Disk(probe, machine, "252:0")
    assert await disk.seen() == GOOD
    assert await disk.words() == "4 of 4 paths up"
    return disk


async def test_multipath_over_fibre_channel_loses_some_and_then_all_paths(probe, machine):
    """Adapters that nobody uses are down by design and nobody's way."""
    machine.sys.fc_host(7, "Linkdown")
    machine.sys.fc_port(1, 9, "Not Present")
    disk = await multipath(probe, machine)
    machine.sys.fc_host(1, "Linkdown")
    assert await disk.now() == SOME
    assert await disk.words() == "2 of 4 paths up (FC host1 Linkdown, FC host1 Linkdown)"
    machine.sys.fc_port(2, 0, "Blocked")
    machine.sys.fc_port(2, 1, "Offline")
    assert await disk.now() == NONE
    machine.sys.fc_host(1)
    assert await disk.now() == SOME
    machine.sys.fc_port(2, 0)
    machine.sys.fc_port(2, 1)
    assert await disk.now() == GOOD


async def test_a_port_that_the_fabric_warns_of_impairs_and_one_that_does_not_tell_decides_nothing(probe, machine):
    """Marginal paths carry IO; some adapters never tell the state of their own port."""
    disk = await multipath(probe, machine)
    machine.sys.fc_port(1, 0, "Marginal")
    assert await disk.now() == SOME
    assert await disk.words() == "4 of 4 paths up (rport-1:0-0 Marginal)"
    machine.sys.fc_port(1, 0)
    machine.sys.fc_host(1, "Unknown")
    assert await disk.now() == GOOD


async def test_paths_that_vanish_count_as_down_for_a_day(probe, machine):
    """After `dev_loss_tmo` the disks are gone, and what is left is not all there was."""
    disk = await multipath(probe, machine)
    for name in ("8:0", "8:16"):
        machine.sys.unplug(name)
    machine.sys.device_mapper("dm-0", "252:0", "mpath-3600a0980", ["sdc", "sdd"])
    machine.clock.advance(WALK_AGAIN_S)
    assert await disk.seen() == SOME
    assert await disk.words() == "2 of 4 paths up"
    machine.clock.advance(REMEMBERED_S)
    assert await disk.seen() == GOOD
    machine.sys.device_mapper("dm-0", "252:0", "mpath-3600a0980", [])
    machine.clock.advance(WALK_AGAIN_S)
    assert await disk.seen() == NONE
    assert await disk.words() == "0 of 2 paths up (no path left)"


async def test_a_path_whose_files_have_gone_is_noticed_at_once(probe, machine):
    """Not only when the tree is walked again."""
    disk = await multipath(probe, machine)
    device = (machine.sys.root / "class" / "block" / "sda").resolve().parent.parent
    (device / "state").unlink()
    machine.sys.device_mapper("dm-0", "252:0", "mpath-3600a0980", ["sdb", "sdc", "sdd"])
    assert await disk.now() == SOME
    assert await disk.words() == "3 of 4 paths up"


async def test_new_paths_are_found_within_a_minute(probe, machine):
    """And belong to the device from then on."""
    machine.sys.iscsi_disk("sda", "8:0", session=1)
    machine.sys.device_mapper("dm-0", "252:0", "mpath-1", ["sda"])
    disk = Disk(probe, machine, "252:0")
    assert await disk.seen() == GOOD
    machine.sys.iscsi_disk("sdb", "8:16", session=2)
    machine.sys.session(2, "FAILED")
    machine.sys.device_mapper("dm-0", "252:0", "mpath-1", ["sda", "sdb"])
    assert await disk.seen() == GOOD
    machine.clock.advance(WALK_AGAIN_S)
    assert await disk.seen() == SOME


async def test_a_map_without_any_path_is_down_from_the_start(probe, machine):
    """The collector may have started after the last path had gone."""
    machine.sys.device_mapper("dm-0", "252:0", "mpath-1", [])
    assert await Disk(probe, machine, "252:0").seen() == NONE


async def test_partitions_and_layers_lead_to_the_disks_below(probe, machine):
    """LVM on crypt on a partition of a multipath map."""
    machine.sys.iscsi_disk("sda", "8:0", session=1)
    machine.sys.iscsi_disk("sdb", "8:16", session=2)
    machine.sys.device_mapper("dm-0", "252:0", "mpath-1", ["sda", "sdb"])
    machine.sys.partition("dm-0p1", "259:9", "dm-0")
    machine.sys.device_mapper("dm-1", "252:1", "CRYPT-LUKS2-x", ["dm-0p1"])
    machine.sys.device_mapper("dm-2", "252:2", "LVM-x", ["dm-1"])
    disk = Disk(probe, machine, "252:2")
    assert await disk.seen() == GOOD
    machine.sys.session(2, "FAILED")
    assert await disk.now() == SOME


@pytest.mark.parametrize("state", ["connecting", "resetting", "deleting (no IO)", "dead"])
async def test_nvme_over_fabrics_with_native_multipath(probe, machine, state):
    """Its controllers are the ways."""
    folder = "devices/virtual/nvme-fabrics/ctl"
    machine.sys.nvme_subsystem("nvme0n1", "259:0", {"nvme0": "live", "nvme1": "live"})
    disk = Disk(probe, machine, "259:0")
    assert await disk.seen() == GOOD
    machine.sys.write(f"{folder}/nvme1/state", state)
    assert await disk.now() == SOME
    assert await disk.words() == f"1 of 2 paths up (nvme1 {state})"
    machine.sys.write(f"{folder}/nvme0/state", state)
    assert await disk.now() == NONE


async def test_an_nvme_disk_with_a_single_controller(probe, machine):
    """A partition of it, as local disks have them."""
    folder = machine.sys.nvme_disk("nvme3n1", "259:0", "nvme3")
    machine.sys.partition("nvme3n1p2", "259:2", "nvme3n1")
    disk = Disk(probe, machine, "259:2")
    assert await disk.seen() == GOOD
    machine.sys.write(f"{folder}/state", "dead")
    assert await disk.now() == NONE


async def test_a_state_that_cannot_be_read_never_improves_anything(probe, machine):
    """With some paths down it is still impaired; with no other path up nobody knows."""
    disk = await multipath(probe, machine)
    machine.sys.fc_port(1, 0, "gibberish")
    assert await disk.now() == BLIND
    machine.sys.fc_port(1, 1, "Offline")
    assert await disk.now() == SOME
    machine.sys.fc_host(2, "Linkdown")
    assert await disk.now() == BLIND


async def test_disks_of_which_nothing_is_told_are_no_source_until_they_vanish(probe, machine):
    """virtio, rbd and zram have no state; but a device that is gone is gone."""
    machine.sys.block("254:0", "devices/pci0000:00/virtio1/block/vda")
    machine.sys.link("devices/pci0000:00/virtio1/block/vda/device", "devices/pci0000:00/virtio1")
    machine.sys.block("253:0", "devices/virtual/block/zram0")
    machine.mount(machine.staged("254:0"), machine.staged("0:52", volume="v2"), machine.staged("253:0", volume="v3"))
    assert list(probe.discover()) == []
    machine.sys.unplug("254:0")
    assert list(probe.discover()) == ["254:0"]
    found = await probe.look("254:0")
    assert (found.outcome, found.reason) == NONE
    assert "vanished" in found.message


async def test_without_sysfs_there_are_no_sources(tmp_path, machine):
    """A container that has another /sys must not lose all disks at once."""
    machine.mount(machine.staged("8:0"))
    assert list(DevicePathsProbe(machine.table, tmp_path / "none", machine.clock).discover()) == []


async def test_a_number_that_now_belongs_to_another_volume_starts_afresh(probe, machine):
    """The new volume never had the paths of the old one."""
    await multipath(probe, machine)
    machine.sys.device_mapper("dm-0", "252:0", "LVM-x", ["sda"])
    machine.mount(machine.staged("252:0", volume="another"))
    probe.discover()
    found = await probe.look("252:0")
    assert (found.outcome, found.message) == (Outcome.GOOD, "1 of 1 paths up")


async def test_links_in_a_circle_and_towers_end(probe, machine):
    """A hostile or broken tree costs little and says nothing."""
    machine.sys.device_mapper("dm-0", "252:0", "LVM-0", [])
    machine.sys.device_mapper("dm-1", "252:1", "LVM-1", ["dm-0"])
    machine.sys.device_mapper("dm-0", "252:0", "LVM-0", ["dm-1"])
    machine.sys.link("devices/virtual/block/dm-2/slaves/x", "devices/virtual/block/dm-2/slaves/x")
    machine.sys.block("252:2", "devices/virtual/block/dm-2")
    machine.mount(machine.staged("252:0"), machine.staged("252:2", volume="v2"))
    assert list(probe.discover()) == []


async def test_layers_that_share_what_is_below_are_walked_once(probe, machine):
    """Six ways down on every floor are six million walks, but one disk."""
    machine.sys.iscsi_disk("sda", "8:0", session=1)
    below = ["sda"]
    for floor in range(8):
        names = [f"dm-{10 * floor + room}" for room in range(6)]
        for room, name in enumerate(names):
            machine.sys.device_mapper(name, f"252:{10 * floor + room}", "LVM-x", below)
        below = names
    disk = Disk(probe, machine, "252:70")
    assert await disk.seen() == GOOD
    assert await disk.words() == "1 of 1 paths up"


async def test_an_unmounted_device_is_no_verdict(probe, machine):
    """Between two looks."""
    machine.sys.iscsi_disk("sda", "8:0", session=1)
    disk = Disk(probe, machine, "8:0")
    assert await disk.seen() == GOOD
    machine.mount()
    assert await disk.now() == BLIND


async def test_a_sysfs_that_cannot_be_read_is_not_one_without_the_disk(probe, machine, monkeypatch):
    """Out of descriptors, for instance."""
    disk = await multipath(probe, machine)

    def refuse(*arguments, **options):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        patched.setattr(os, "listdir", refuse)
        machine.clock.advance(WALK_AGAIN_S)
        machine.table.current()
        patched.setattr(os, "readlink", refuse)
        assert await disk.seen() == BLIND
    assert await disk.seen() == GOOD
