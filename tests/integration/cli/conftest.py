"""A real nats-server with the reports of a few nodes, real filters and scorers, and the leadsman command."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import pytest

from leadsman.bus.streams import STATUS_STREAM, ensure_streams
from leadsman.bus.subjects import status_subject
from leadsman.domain.report import NodeReport
from leadsman.testing.nats import NatsServer
from leadsman.testing.pages import page
from leadsman.testing.process import Process
from leadsman.wire.report import encode_report


class Installation:
    """What runs somewhere, as far as the command sees it."""

    def __init__(self, server: NatsServer, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.processes: list[Process] = []

    async def report(self, *reports: NodeReport) -> None:
        """Publish `reports`, and wait until all are in the stream, which does not acknowledge."""
        client = await nats.connect(self.server.url)
        try:
            for one in reports:
                await client.publish(status_subject(one.node, one.scope), encode_report(one))
            async with asyncio.timeout(10):
                while (await client.jetstream().stream_info(STATUS_STREAM)).state.messages < len(reports):
                    pass
        finally:
            await client.close()

    def start(self, component: str, policy: str = "") -> None:
        """Start a filter or a scorer by the document `policy`, and wait until it is ready."""
        name = f"{component}-{len(self.processes)}"
        ports = self.directory / f"{name}.json"
        options = []
        if policy:
            path = self.directory / f"{name}.yaml"
            path.write_text(policy)
            options = ["--policy", str(path)]
        command = [
            *(sys.executable, "-m", f"leadsman_{component}", "--nats-url", self.server.url, "--stream-settle", "0s"),
            *("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--port-file", str(ports), *options),
        ]
        process = Process.start(name, command, self.directory / f"{name}.log")
        self.processes.append(process)
        process.wait_for("ports", ports.exists, within_s=20)
        admin = json.loads(ports.read_bytes())["admin"]
        process.wait_for("ready", lambda: page(admin, "/readyz")[0] == 200, within_s=20)

    def leadsman(self, *arguments: str, nats_url: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command against this NATS."""
        command = [sys.executable, "-m", "leadsman_cli", *arguments, "--nats-url", nats_url or self.server.url]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=self.directory)


@pytest.fixture
def nats_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
async def installation(nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[Installation]:
    await ensure_streams((nats_server.url,))
    installation = Installation(nats_server, tmp_path)
    yield installation
    for process in installation.processes:
        await asyncio.to_thread(process.kill)
