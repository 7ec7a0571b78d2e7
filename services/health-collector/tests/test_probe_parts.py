"""Small rules inside the probes and their rounds."""

import pytest

from leadsman_health_collector.plugin_sockets import claimed_name, match_names, scan_plugin_sockets
from leadsman_health_collector.probes.mount_liveness import MAX_PER_KEY, _in_turn
from leadsman_health_collector.rounds import first_wait, spread


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


@pytest.mark.parametrize(
    ("file", "driver"),
    [("nfs.csi.k8s.io-reg.sock", "nfs.csi.k8s.io"), ("-reg.sock", ""), ("a b-reg.sock", "")],
)
def test_a_registration_socket_claims_the_driver_of_its_name(file, driver):
    """What is not a driver's name is nobody's."""
    assert claimed_name(f"/var/lib/kubelet/plugins_registry/{file}") == driver


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
