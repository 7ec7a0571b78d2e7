"""Our faster reading of message headers finds what nats-py's own finds."""

import pytest
from nats.aio.client import Client

from leadsman.bus.client import OneConnectionClient


@pytest.mark.parametrize(
    "raw",
    [
        b"Nats-Stream: LEADSMAN_STATUS\r\nNats-Sequence: 7\r\nNats-Time-Stamp: 2026-01-02T03:04:05.6Z\r\n\r\n",
        b"A:1\r\nB:\t 2 \r\n C : 3\r\nA: 4\r\n",
        b"no colon\r\nbad name: x\r\n\xffname: x\r\nvalue: \xff\r\nforged: a\nNats-Stream: b\r\n\r\n",
        b"",
    ],
)
def test_headers_are_read_as_nats_py_reads_them(raw: bytes) -> None:
    """Also repeated, misspelt and forged ones: what may enter the cache depends on them."""
    assert OneConnectionClient._parse_header_lines(raw) == Client._parse_header_lines(raw)
