"""Parsing the kernel's list of mounts."""

import os
from pathlib import Path

import pytest

from leadsman_health_collector.mountinfo import parse_mounts, printable, visible_below


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
    "line",
    [
        b"",
        b"garbage",
        b"36 35 0:5 / /a rw",
        b"x 35 0:5 / /a rw - nfs s rw",
        b" - nfs s rw",
        b"9" * 5000 + b" 35 0:5 / /a rw - nfs s rw",
    ],
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


def test_options_of_the_mount_point_and_of_the_superblock_are_told_apart():
    """A read-only bind mount of a writable filesystem has `ro` in the former only."""
    (mount,) = parse_mounts(
        b"36 35 0:5 / /a ro,relatime shared:1 - nfs4 s:/e rw,vers=4.1,addr=10.0.0.9,local_lock=none"
    )
    assert mount.options == ("ro", "relatime")
    assert mount.super_options == ("rw", "vers=4.1", "addr=10.0.0.9", "local_lock=none")
    assert (mount.super_option("addr"), mount.super_option("port"), mount.super_option("add")) == (
        "10.0.0.9",
        None,
        None,
    )
    assert parse_mounts(b"36 35 0:5 / /a ro - nfs4 s:/e")[0].super_options == ()


def test_an_escaped_comma_does_not_make_a_second_option():
    """Whoever may choose a user name for a mount must not choose the server that we look at."""
    (mount,) = parse_mounts(rb"36 35 0:5 / /a rw - cifs //s/x rw,username=me\054addr=6.6.6.6,addr=10.0.0.5")
    assert mount.super_option("addr") == "10.0.0.5"
    assert "username=me,addr=6.6.6.6" in mount.super_options


def test_options_with_blanks_are_read_to_the_end():
    """Some filesystems do not escape what they print."""
    (mount,) = parse_mounts(b"36 35 0:5 / /a rw - x s rw,name=a b,last=1")
    assert mount.super_options == ("rw", "name=a b", "last=1")


def test_a_carriage_return_in_a_path_is_no_end_of_line():
    """The kernel does not escape it."""
    found = parse_mounts(b"36 35 0:5 / /a\rb rw - nfs s:/e rw\n37 35 0:6 / /c rw - nfs s:/e rw\n")
    assert [mount.mount_point for mount in found] == ["/a\rb", "/c"]
