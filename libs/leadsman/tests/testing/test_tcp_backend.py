"""The storage server that probes are tried on."""

import contextlib
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from leadsman.testing.tcp_backend import CEPH_BANNER, GREETING, answer_rpc


def call(version: int, program: int = 100003, procedure: int = 0) -> bytes:
    return struct.pack(">11I", 0x8000_0028, 7, 0, 2, program, version, procedure, 0, 0, 0, 0)


def reply(*words: int) -> bytes:
    return struct.pack(f">{6 + len(words)}I", 0x8000_0000 | (20 + 4 * len(words)), 7, 1, 0, 0, 0, *words)


@pytest.mark.parametrize(
    ("received", "answer"),
    [
        (call(4), reply(0)),
        (call(3), reply(0)),
        (call(2), reply(2, 3, 4)),
        (call(4, procedure=1), reply(3)),
        (call(3, program=100005), reply(1)),
        (call(4) + call(3), reply(0) + reply(0)),
        (b"", b""),
    ],
)
def test_null_of_nfs_is_answered_and_nothing_else(received, answer):
    """RFC 5531: success, version mismatch with the range served, procedure and program unavailable."""
    assert answer_rpc(received) == (answer, b"")


def test_half_a_call_waits_for_the_rest_and_what_is_no_call_is_no_call():
    """TCP cuts where it likes."""
    assert answer_rpc(call(4) + call(3)[:10]) == (reply(0), call(3)[:10])
    assert answer_rpc(b"GET / HTTP/1.1\r\n") is None
    assert answer_rpc(struct.pack(">I", 0x8000_0001) + b"x") is None


@contextlib.contextmanager
def backend(protocol: str, delay: str = "0") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A backend as a process, and its port."""
    command = [sys.executable, "-P", "-m", "leadsman.testing.tcp_backend", "--listen", "127.0.0.1:0"]
    options = ["--protocol", protocol, "--delay", delay]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, int(process.stdout.readline().rpartition(":")[2])
            process.terminate()
            assert process.wait(5) == 0
        finally:
            process.kill()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def test_it_serves_nfs_and_drops_its_clients_when_it_falls_silent_and_serves_them_when_mended():
    """As a server that cannot be reached any more and then can."""
    with backend("nfs") as (process, port), connected(port) as client:
        client.sendall(call(4))
        assert client.recv(100) == reply(0)
        process.send_signal(signal.SIGUSR1)
        client.sendall(call(3))
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(100)
        client.settimeout(5)
        process.send_signal(signal.SIGUSR2)
        assert client.recv(100) == reply(0)
        with connected(port) as other:
            other.sendall(b"hello, world; this is no RPC")
            assert other.recv(100) == b""


@pytest.mark.parametrize(("protocol", "said"), [("ceph", CEPH_BANNER), ("greeting", GREETING), ("silent", b"")])
def test_other_servers_say_what_they_say(protocol, said):
    """The banner of a monitor, a line and the end, or nothing at all."""
    with backend(protocol) as (_, port), connected(port) as client:
        if said:
            assert client.recv(100) == said
        else:
            client.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.recv(100)


def test_a_slow_server_says_the_same_later():
    """As storage that is far away or busy."""
    with backend("nfs", delay="0.2") as (_, port):
        started = time.monotonic()
        with connected(port) as client:
            client.sendall(call(4))
            assert client.recv(100) == reply(0)
            assert time.monotonic() - started >= 0.2
