"""`leadsman provision` against a real nats-server."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from leadsman.testing.nats import NatsServer


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


def _provision(server: NatsServer, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "leadsman_cli", "provision", "--nats-url", server.url, *options],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_it_creates_the_streams_and_says_so(server: NatsServer) -> None:
    """The second run finds them as they must be."""
    first, second = _provision(server), _provision(server)

    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == "LEADSMAN_STATUS created\nLEADSMAN_DECISIONS created\n"
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout == "LEADSMAN_STATUS unchanged\nLEADSMAN_DECISIONS unchanged\n"


def test_what_nats_refuses_is_one_line_and_exit_code_2(server: NatsServer) -> None:
    """A single server cannot keep three copies."""
    result = _provision(server, "--replicas", "3")

    assert result.returncode == 2
    assert result.stderr.startswith("error: NATS refuses stream LEADSMAN_STATUS: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
