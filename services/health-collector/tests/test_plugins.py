"""CSI plugins as they are found on a node: sockets, processes, names."""

import os

import pytest

from leadsman_health_collector.cluster_view import NOTHING_KNOWN, ClusterView
from leadsman_health_collector.plugin_sockets import (
    claimed_name,
    find_only_socket,
    find_socket,
    registration_sockets,
    scan_plugin_sockets,
)
from leadsman_health_collector.plugins import Instance, Plugin, by_driver, is_uninstalled

NAME = "nfs.csi.k8s.io"


def test_of_several_sockets_the_one_that_answers_is_asked_else_the_newest():
    """An upgrade may leave a dead one."""
    old = Plugin(NAME, "/old", Instance(1, 10))
    new = Plugin(NAME, "/new", Instance(2, 20))
    gone = Plugin(NAME, "/gone")
    answering = Plugin(NAME, "/answering", Instance(3, 5), answers=True)
    assert by_driver([old, new, gone])[NAME] is new
    assert by_driver([new, gone, old])[NAME] is new
    assert by_driver([new, answering, old])[NAME] is answering
    assert not gone.present


def test_what_is_not_advertised_cannot_be_done():
    """Nor can anything before the driver has told."""
    assert not Plugin(NAME, "/x").can(7)
    assert Plugin(NAME, "/x", capabilities=frozenset({7})).can(7)
    assert not Plugin(NAME, "/x", capabilities=frozenset({7})).can(8)


@pytest.mark.parametrize(
    ("view", "uninstalled"),
    [
        (NOTHING_KNOWN, False),
        (ClusterView(registered=frozenset()), False),
        (ClusterView(registered=frozenset(), cluster_drivers=frozenset({"a.io"})), True),
        (ClusterView(registered=frozenset(), cluster_drivers=frozenset({NAME})), False),
        (ClusterView(registered=frozenset({NAME}), cluster_drivers=frozenset({"a.io"})), False),
        (ClusterView(cluster_drivers=frozenset({"a.io"})), False),
    ],
)
def test_a_driver_is_uninstalled_only_if_the_api_server_knows_others(view, uninstalled):
    """A list that could not be read is empty, too."""
    assert is_uninstalled(view, NAME) is uninstalled


def test_a_socket_that_is_bound_anew_is_another_process_even_with_the_same_inode(tmp_path):
    """The kernel gives the number of a removed file to the next one."""
    path = tmp_path / "csi.sock"
    path.touch()
    before = find_only_socket(path).instances[str(path)]
    assert find_only_socket(path).instances[str(path)] == before
    path.unlink()
    path.touch()
    os.utime(path, ns=(0, 0))
    assert find_only_socket(path).instances[str(path)] != before


def test_a_missing_socket_has_a_place_as_long_as_its_directory_stands(tmp_path):
    """Which tells a restart from an uninstalled driver."""
    (tmp_path / "plugins" / "a").mkdir(parents=True)
    assert find_socket(tmp_path, f"{tmp_path}/plugins/a/x.sock").directories == {f"{tmp_path}/plugins/a"}
    assert find_socket(tmp_path, f"{tmp_path}/plugins/b/x.sock").directories == frozenset()
    assert not find_socket(tmp_path, f"{tmp_path}/plugins/a/x.sock").sockets


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "{}/../{}/plugins/a/csi.sock", "{}/plugins//csi.sock", "{}/plugins/./csi.sock", "{}", "{}/x", ""],
)
def test_crooked_paths_are_not_looked_for(tmp_path, path):
    """They come from other processes and from a file of an earlier run."""
    (tmp_path / "plugins" / "a").mkdir(parents=True)
    (tmp_path / "plugins" / "csi.sock").touch()
    (tmp_path / "plugins" / "a" / "csi.sock").touch()
    found = find_socket(tmp_path, path.format(tmp_path, tmp_path.name))
    assert not found.sockets
    assert not found.directories


def test_sockets_that_are_links_are_left_out(tmp_path):
    """A link may lead onto a volume that hangs."""
    for folder in ("real", "link"):
        (tmp_path / "plugins" / folder).mkdir(parents=True)
    (tmp_path / "plugins" / "real" / "csi.sock").touch()
    (tmp_path / "plugins" / "link" / "csi.sock").symlink_to(tmp_path / "plugins" / "real" / "csi.sock")
    assert scan_plugin_sockets(tmp_path).sockets == {f"{tmp_path}/plugins/real/csi.sock"}


def test_sockets_whose_path_is_no_text_are_left_out(tmp_path):
    """Neither gRPC nor a report could hold it."""
    folder = tmp_path / "plugins" / os.fsdecode(b"\xff")
    folder.mkdir(parents=True)
    (folder / "csi.sock").touch()
    assert not scan_plugin_sockets(tmp_path).sockets


def test_registration_sockets_are_told_by_their_ending(tmp_path):
    """Other plugins register in the same directory; a kubelet may have none yet."""
    assert not registration_sockets(tmp_path).sockets
    (tmp_path / "plugins_registry" / "folder-reg.sock").mkdir(parents=True)
    for file in (f"{NAME}-reg.sock", "-reg.sock", "gpu.sock"):
        (tmp_path / "plugins_registry" / file).touch()
    found = registration_sockets(tmp_path).sockets
    assert found == {f"{tmp_path}/plugins_registry/{NAME}-reg.sock", f"{tmp_path}/plugins_registry/-reg.sock"}
    assert {claimed_name(path) for path in found} == {NAME, ""}
