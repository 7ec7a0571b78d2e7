"""Free ports stay free until they are used, and listeners are seen."""

import socket
from pathlib import Path

import pytest

from leadsman.testing.pages import page
from leadsman.testing.sockets import PORT_RANGE, NoFreePortError, accepts, free_ports

FEW = set(range(31_000, 31_200))
REST = set(PORT_RANGE) - FEW


def test_ports_are_never_given_twice() -> None:
    """They are distinct, and below the range of outgoing connections."""
    first, second = free_ports(60, REST), free_ports(60, REST)
    assert len({*first, *second}) == 120
    lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(PORT_RANGE) < lowest_outgoing


def test_unwanted_ports_are_not_given() -> None:
    """When too few are left, the error says so."""
    assert FEW.issuperset(free_ports(3, REST))
    with pytest.raises(NoFreePortError, match="fewer than 201 free TCP ports"):
        free_ports(201, REST)


def test_who_listens_is_seen(tmp_path: Path) -> None:
    """On TCP and on a unix socket."""
    (port,) = free_ports(1)
    path = str(tmp_path / "s")
    assert not accepts(("127.0.0.1", port))
    assert not accepts(path)
    with socket.create_server(("127.0.0.1", port)), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        assert accepts(("127.0.0.1", port))
        assert accepts(path)


def test_a_page_of_nobody_has_status_0_and_says_why() -> None:
    """Callers poll until somebody answers."""
    status, words = page(free_ports(1)[0], "/readyz")
    assert status == 0
    assert "refused" in words
