"""A collector as a process on a stage, with a real nats-server and a listener on the node's subject."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable

import nats
import pytest
from nats.aio.client import Client

from leadsman.bus.subjects import status_subject
from leadsman.domain.reasons import Reason
from leadsman.domain.report import NodeReport, StorageKey
from leadsman.domain.states import State
from leadsman.testing.nats import NatsServer
from leadsman.wire.report import decode_report

NODE = "worker-1.example.com"


class Listener:
    """What arrives on the node's subject."""

    def __init__(self) -> None:
        self.reports: list[NodeReport] = []

    async def hear(self, msg) -> None:
        """Take one message."""
        self.reports.append(decode_report(msg.data))

    def brief(self, key: StorageKey) -> tuple[State, Reason | None] | None:
        """State and reason in the latest report."""
        found = {status.key: status for status in self.reports[-1].storages} if self.reports else {}
        return (found[key].state, found[key].reason) if key in found else None


@pytest.fixture
async def bus() -> AsyncIterator[tuple[NatsServer, Client, Listener]]:
    """A nats-server, a client, and a listener on the node's subject."""
    with NatsServer() as server:
        client = await nats.connect(server.url)
        listener = Listener()
        await client.subscribe(status_subject(NODE), cb=listener.hear)
        await client.flush()
        yield server, client, listener
        await client.close()


class Node:
    """A collector process on a stage."""

    def __init__(self, stage, url: str) -> None:
        self.name = NODE
        self.stage = stage
        self.url = url
        self.state_file = stage.directory / "state.json"
        self.port_file = stage.directory / "ports.json"

    def start(self, *arguments: str):
        """Start the collector; of an option given twice the last one counts."""
        self.port_file.unlink(missing_ok=True)
        return self.stage.start(
            "leadsman_health_collector",
            "run",
            *("--node-name", NODE, "--kubelet-dir", str(self.stage.kubelet), "--state-file", str(self.state_file)),
            *("--nats-url", self.url, "--period", "200ms", "--probe-deadline", "150ms", "--heartbeat", "1s"),
            *("--admin-listen", "127.0.0.1:0", "--port-file", str(self.port_file), "--log-format", "json", *arguments),
        )

    def get(self, path: str) -> tuple[int, str]:
        """Ask the admin server; (0, "") while it is not there."""
        with contextlib.suppress(OSError, ValueError):
            port = json.loads(self.port_file.read_text())["admin"]
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()
        return 0, ""

    def metric(self, line_start: str) -> float:
        """The value of the first series that starts so."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(line_start):
                return float(line.rpartition(" ")[2])
        return -1.0

    def check(self, name: str) -> str:
        """The line of one check on /readyz?verbose; empty if there is none."""
        lines = self.get("/readyz?verbose")[1].splitlines()
        return next((line for line in lines if line[3:].startswith(f"{name} ")), "")


@pytest.fixture
def collector_on(stage) -> Callable[[str], Node]:
    """The node of this test, its collector to report to the NATS server with the given URL."""
    return lambda url: Node(stage, url)
