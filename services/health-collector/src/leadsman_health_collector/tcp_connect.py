"""A TCP connection to an endpoint, and what it means when there is none. For all probes that need one."""

import asyncio
import errno
import os
import socket

from leadsman.domain.reasons import Reason
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.observation import Observation, Outcome, not_run
from leadsman_health_collector.resolver import LookupsBusyError, NameLookupError, Resolver

RECEIVE_BUFFER = 8 * 1024
"""Bytes that the kernel takes from a server before anybody reads them; what probes expect is far less."""

_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN})
_RESET = frozenset({errno.ECONNREFUSED, errno.ECONNRESET})


async def connect(endpoint: Endpoint, resolver: Resolver) -> socket.socket:
    """A connection to the address that a mount would use, which the caller closes.

    Raises:
        NameLookupError, LookupsBusyError: the name has no address, or that cannot be told.
        OSError: no connection.
    """
    address = await resolver.address(endpoint.host)
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV  # an address by now, so this asks nobody
    found = socket.getaddrinfo(address, endpoint.port, type=socket.SOCK_STREAM, flags=flags)
    family, _, _, _, where = found[0]
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        await _establish(connection, where)
    except BaseException:
        connection.close()
        raise
    return connection


async def readable(connection: socket.socket) -> None:
    """Wait until `connection` can be read."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)


async def writable(connection: socket.socket) -> None:
    """Wait until `connection` can be written."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(connection)


async def _establish(connection: socket.socket, where: tuple[object, ...]) -> None:
    """Connect. Not by the loop's `sock_connect`: uvloop's loses the scope of link-local addresses."""
    number = connection.connect_ex(where)
    if number == errno.EINPROGRESS:
        await writable(connection)
        number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))


def why_not(error: OSError | NameLookupError | LookupsBusyError, endpoint: Endpoint, resolver: Resolver) -> Observation:
    """What the failure of `connect` says; the address in use is then looked up again, as it may have changed."""
    match error:
        case LookupsBusyError():
            return not_run(f"{endpoint.host} cannot be looked up: {error}")
        case NameLookupError():
            return Observation(Outcome.TIMEOUT, Reason.NAME_RESOLUTION_FAILED, str(error))
        case _:
            resolver.refresh(endpoint.host)
            return _failed(error, endpoint.address)


def silent(endpoint: Endpoint, resolver: Resolver, deadline_s: float) -> Observation:
    """What it says when `connect` has not come back after `deadline_s` seconds."""
    if resolver.known(endpoint.host) is not None:
        resolver.refresh(endpoint.host)
        words = f"no connection to {endpoint.address} within {deadline_s:g} s"
        return Observation(Outcome.TIMEOUT, Reason.ENDPOINT_TIMEOUT, words)
    return unresolved(endpoint.host, resolver, deadline_s)


def unresolved(host: str, resolver: Resolver, deadline_s: float) -> Observation:
    """What it says when a lookup has not come back after `deadline_s` seconds."""
    if resolver.waits_for_turn(host):
        return not_run(f"{host} has not been looked up yet: lookups of other names do not come back")
    words = f"{host} is not resolved within {deadline_s:g} s"
    return Observation(Outcome.TIMEOUT, Reason.NAME_RESOLUTION_FAILED, words)


def _failed(error: OSError, where: str) -> Observation:
    number = error.errno or 0
    if number in _RESET:
        return Observation(Outcome.ERROR, Reason.ENDPOINT_REFUSED, f"{where} refuses the connection")
    if number in _UNREACHABLE:
        return Observation(Outcome.ERROR, Reason.ENDPOINT_TIMEOUT, f"{where}: {os.strerror(number)}")
    if number == errno.ETIMEDOUT:
        return Observation(Outcome.TIMEOUT, Reason.ENDPOINT_TIMEOUT, f"no connection to {where}")
    return not_run(f"cannot connect to {where}: {error.strerror or error}")
