"""Ports that nobody listens on yet, and whether somebody listens."""

import random
import socket
from collections.abc import Collection

from leadsman.domain.errors import LeadsmanError

PORT_RANGE = range(20_000, 32_000)
"""Below the range from which the kernel draws the ports of outgoing connections: any client could take one of those
before the server that it is meant for listens."""

_given: set[int] = set()


class NoFreePortError(LeadsmanError):
    """Not enough loopback ports are free."""


def free_ports(count: int, besides: Collection[int] = ()) -> list[int]:
    """Distinct ports of 127.0.0.1 that nobody listens on now; none of `besides`, none given by an earlier call.

    Raises:
        NoFreePortError: there are not enough.
    """
    candidates = set(PORT_RANGE).difference(besides, _given)
    free: list[int] = []
    for port in random.sample(sorted(candidates), len(candidates)):
        if len(free) == count:
            break
        if _is_free(port):
            free.append(port)
    if len(free) < count:
        raise NoFreePortError(
            f"fewer than {count} free TCP ports between {PORT_RANGE.start} and {PORT_RANGE.stop} on 127.0.0.1"
        )
    _given.update(free)
    return free


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def accepts(address: str | tuple[str, int]) -> bool:
    """Whether a plain connect succeeds: to a unix socket's path, or to an IPv4 host and port."""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(address) == 0
