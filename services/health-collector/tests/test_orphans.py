"""Finding workers that an earlier run has left behind."""

from pathlib import Path

import pytest

from leadsman_health_collector.orphans import Orphan, find_orphans, still_out, worker_arguments

GONE = "77"


@pytest.fixture
def process(tmp_path):
    """Makes a process in a tree that stands in for /proc."""

    def make(pid, node="node-1", boot="boot-1", started_by=GONE, parent=1, comm="lm 0:52"):
        marker = worker_arguments(node, boot)[0]
        argv = ["python", "-I", "-S", "mount_worker.py", marker, node, boot, started_by, ""]
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes("\0".join(argv).encode())
        (folder / "comm").write_text(f"{comm}\n")
        (folder / "stat").write_text(f"{pid} (py) thon) S {parent} 1 1")

    return make


def test_orphans_are_known_by_marker_node_boot_and_a_parent_that_has_gone(tmp_path, process):
    """Other nodes' workers on the same machine, other boots, idle ones and chance look-alikes are not ours."""
    process(10)
    process(11, comm="lm 4095:1048575")
    process(12, node="node-2")
    process(13, boot="boot-0")
    process(14, comm="leadsman-idle")
    process(15, comm="lm")
    (tmp_path / "self").mkdir()
    (tmp_path / "16").mkdir()
    found = find_orphans("node-1", "boot-1", tmp_path)
    assert {(orphan.pid, orphan.place) for orphan in found} == {(10, "0:52"), (11, "4095:1048575")}
    assert find_orphans("node-1", "boot-1", Path("/proc")) == []


def test_the_workers_of_a_collector_that_lives_are_not_orphans(tmp_path, process):
    """A sidecar beside the agent, or a single check, must not kill the agent's workers."""
    process(10, started_by="500", parent=500)
    process(11, started_by="500", parent=1)
    assert [orphan.pid for orphan in find_orphans("node-1", "boot-1", tmp_path)] == [11]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("comm", b"lm 0:53\n"),
        ("comm", b"leadsman-idle\n"),
        ("cmdline", b""),
        ("cmdline", b"vi\0leadsman-worker\0node-1\0"),
        ("cmdline", b"vi\0leadsman-worker\0node-1\0boot-1\0x\0"),
        ("cmdline", b"vi\0leadsman-worker\0node-1\0boot-10\x0077\0"),
    ],
)
def test_an_orphan_has_ended_once_anything_of_it_has_changed(tmp_path, process, file, content):
    """Process ids are used again, and a zombie has no command line; garbage is nobody's."""
    process(10)
    orphan = Orphan(10, "0:52")
    assert still_out(orphan, "node-1", "boot-1", tmp_path)
    (tmp_path / "10" / file).write_bytes(content)
    assert not still_out(orphan, "node-1", "boot-1", tmp_path)
    (tmp_path / "10" / file).unlink()
    assert not still_out(orphan, "node-1", "boot-1", tmp_path)
