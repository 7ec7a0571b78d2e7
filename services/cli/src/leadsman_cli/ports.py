"""Loopback ports for processes that must know each other's addresses before they start."""

import random
import socket

from leadsman_cli.errors import NotReadyError

_RANGE = range(20_000, 32_000)
"""Below the range from which the kernel draws the ports of outgoing connections."""


def free_ports(count: int) -> list[int]:
    """Distinct ports of 127.0.0.1 that nobody listens on now.

    Raises:
        NotReadyError: there are not enough.
    """
    free: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if len(free) == count:
            return free
        if _is_free(port):
            free.append(port)
    raise NotReadyError(f"fewer than {count} free TCP ports between {_RANGE.start} and {_RANGE.stop} on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
