"""Small rules inside the probes and their rounds."""

import os
from pathlib import Path

import pytest

from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey
from leadsman_health_collector.mount_worker import look
from leadsman_health_collector.observation import Outcome
from leadsman_health_collector.orphans import find_orphans, worker_arguments
from leadsman_health_collector.plugin_sockets import match_names, registered_names, scan_plugin_sockets
from leadsman_health_collector.probes.mount_liveness import MAX_PER_KEY, _in_turn, read_answer
from leadsman_health_collector.rounds import first_wait, spread
from leadsman_health_collector.volumes import VolumeMount

MOUNT = VolumeMount("0:52", "/x", "nfs4", StorageKey("d", "b"))


@pytest.mark.parametrize(
    ("answer", "outcome", "reason"),
    [
        ("ok 0:52 0.001", Outcome.GOOD, None),
        ("ok 8:1 0.001", Outcome.NOT_RUN, None),
        ("error 116 stat", Outcome.ERROR, Reason.STALE_FILE_HANDLE),
        ("error 107 statvfs", Outcome.ERROR, Reason.MOUNT_DISCONNECTED),
        ("error 5 stat", Outcome.ERROR, Reason.MOUNT_IO_ERROR),
        ("error 13 stat", Outcome.ERROR, Reason.ACCESS_REVOKED),
        ("error 2 stat", Outcome.NOT_RUN, None),
        ("", Outcome.NOT_RUN, None),
        ("nonsense", Outcome.NOT_RUN, None),
    ],
)
def test_what_a_worker_says(answer, outcome, reason):
    """Another device means that something else is mounted; no answer says nothing about storage."""
    seen = read_answer(answer, MOUNT)
    assert (seen.outcome, seen.reason) == (outcome, reason)


def test_subvolumes_have_device_numbers_of_their_own():
    """btrfs is not mistaken for a foreign mount."""
    assert read_answer("ok 0:99 0.001", VolumeMount("0:52", "/x", "btrfs", MOUNT.key)).outcome is Outcome.GOOD


def test_the_worker_tells_device_and_error(tmp_path):
    """The line that the probe reads."""
    device = tmp_path.stat().st_dev
    assert look(os.fsencode(tmp_path)).startswith(f"ok {os.major(device)}:{os.minor(device)} ")
    assert look(os.fsencode(tmp_path / "absent")) == "error 2 statvfs"


def test_mounts_take_turns_and_suspects_never_wait():
    """All are seen within a few rounds, also when some are suspects."""
    devices = [f"0:{n}" for n in range(30)]
    suspects = {"0:3", "0:4"}
    rounds = [_in_turn(devices, suspects, turn) for turn in range(8)]
    assert all(len(one) == MAX_PER_KEY and suspects <= set(one) for one in rounds)
    assert set().union(*rounds) == set(devices)
    assert set(_in_turn(devices[:5], set(), 9)) == set(devices[:5])
    assert len(_in_turn(devices, set(devices), 1)) == MAX_PER_KEY


def test_nodes_are_spread_over_the_period_and_stay_where_they_are():
    """A thousand nodes must not look at one server together."""
    moments = [spread(f"node-{n}", 10.0) for n in range(1000)]
    assert spread("node-1", 10.0) == moments[1]
    per_second = [sum(second <= moment < second + 1 for moment in moments) for second in range(10)]
    assert min(per_second) > 60
    assert max(per_second) < 140


@pytest.mark.parametrize("now", [0.0, 3.0, 7.9, 8.0, 8.1, 12.5, 1_790_000_003.3])
def test_the_second_round_is_at_the_nodes_moment(now):
    """Never sooner than half a period after the first, never later than one and a half."""
    wait = first_wait(now, 8.0, 10.0)
    assert 5.0 <= wait < 15.0
    assert (now + wait) % 10.0 == pytest.approx(8.0)


def test_sockets_are_found_one_and_two_levels_down(tmp_path):
    """And nowhere else; directories are noted to tell a vanished socket from a vanished driver."""
    plugins = tmp_path / "plugins"
    for place in ("csi-nfsplugin", "vendor/driver", "a/b/c"):
        (plugins / place).mkdir(parents=True)
        (plugins / place / "csi.sock").touch()
    (plugins / "csi.sock").touch()
    (plugins / "other.sock").touch()
    (plugins / "link").symlink_to(plugins / "csi-nfsplugin")
    found = scan_plugin_sockets(tmp_path)
    assert found.sockets == {f"{plugins}/csi-nfsplugin/csi.sock", f"{plugins}/vendor/driver/csi.sock"}
    assert f"{plugins}/a/b" in found.directories
    with pytest.raises(FileNotFoundError):
        scan_plugin_sockets(tmp_path / "absent")


def test_registration_sockets_are_read_by_name_only(tmp_path):
    """What is not a driver's name is nobody's."""
    assert registered_names(tmp_path) == []
    (tmp_path / "plugins_registry").mkdir()
    for file in ("nfs.csi.k8s.io-reg.sock", "-reg.sock", "a b-reg.sock", "device.sock"):
        (tmp_path / "plugins_registry" / file).touch()
    assert registered_names(tmp_path) == ["nfs.csi.k8s.io"]


@pytest.mark.parametrize(
    ("sockets", "names", "matched"),
    [
        (["/p/csi-nfs/csi.sock"], ["nfs.csi.k8s.io"], {"/p/csi-nfs/csi.sock": "nfs.csi.k8s.io"}),
        (["/p/csi-nfs/csi.sock"], [], {}),
        (["/p/csi-nfs/csi.sock"], ["a.io", "b.io"], {}),
        (["/p/x/csi.sock", "/p/y/csi.sock"], ["a.io"], {}),
        (["/p/x/csi.sock", "/p/y/csi.sock"], ["a.io", "b.io"], {}),
        (["/p/x/csi.sock", "/p/v/a.io/csi.sock"], ["a.io"], {"/p/v/a.io/csi.sock": "a.io"}),
        (["/p/x/csi.sock", "/p/a.io/csi.sock"], ["a.io", "b"], {"/p/x/csi.sock": "b", "/p/a.io/csi.sock": "a.io"}),
    ],
)
def test_a_socket_gets_a_registered_name_only_if_no_other_is_possible(sockets, names, matched):
    """A guess could put one driver's fault on another."""
    assert match_names(sockets, names) == matched


def test_orphans_are_known_by_marker_node_and_boot(tmp_path):
    """Other nodes' workers on the same machine, other boots and chance look-alikes are not ours."""

    def process(pid: int, *argv: str, parent: int = 1, comm: str = "leadsman-mount") -> None:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes("\0".join([*argv, ""]).encode())
        (tmp_path / str(pid) / "comm").write_text(f"{comm}\n")
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (py) thon) S {parent} 1 1")

    ours = worker_arguments("node-1", "boot-1", "0:52", "/x y")
    process(10, "python", "-I", "-S", "mount_worker.py", *ours)
    process(11, "python", "-I", "-S", "mount_worker.py", *ours, parent=os.getpid())
    process(12, "python", *worker_arguments("node-2", "boot-1", "0:53", "/x"))
    process(13, "python", *worker_arguments("node-1", "boot-0", "0:54", "/x"))
    process(14, "grep", "leadsman-mount-worker")
    process(15, "python", *worker_arguments("node-1", "boot-1", "0:55", "/x"), comm="python3")
    (tmp_path / "self").mkdir()
    assert [(orphan.pid, orphan.device) for orphan in find_orphans("node-1", "boot-1", tmp_path)] == [(10, "0:52")]
    assert find_orphans("node-1", "boot-1", Path("/proc")) == []
