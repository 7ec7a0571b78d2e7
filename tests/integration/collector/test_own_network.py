"""What needs a network of its own: queries that vanish, and addresses that count on one link only."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

NAMES = 12
ROUNDS = 3
DEADLINE_S = 0.3

PREPARE = "ip link set lo up && mount --bind {resolv_conf} /etc/resolv.conf && exec {python} {script} {arguments}"

DNS_DROPPED = """
import asyncio, json, socket, sys, threading, uvloop
from leadsman.domain.clock import SystemClock
from leadsman.domain.report import StorageKey
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.probes.name_resolution import NameResolutionProbe
from leadsman_health_collector.probes.protocol_ping import ProtocolPingProbe
from leadsman_health_collector.resolver import Resolver

names, rounds, deadline_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))  # takes queries and never answers

async def main():
    clock = SystemClock()
    resolver = Resolver(clock)
    wanted = {}
    for n in range(names):
        endpoint = Endpoint(StorageKey("d", str(n)), f"nfs-{n}.example.com", 2049, "nfs")
        wanted[endpoint.name] = endpoint
    probes = [NameResolutionProbe(lambda: wanted, resolver, clock, deadline_s),
              ProtocolPingProbe(lambda: wanted, resolver, clock, deadline_s)]
    seen, threads = [], 0
    for _ in range(rounds):
        looks = [probe.look(name) for probe in probes for name in probe.discover()]
        for one in await asyncio.gather(*looks):
            seen.append([one.outcome, one.reason])
        threads = max(threads, threading.active_count())
    print(json.dumps({"seen": seen, "threads": threads}), flush=True)

uvloop.run(main())
"""

LINK_LOCAL = """
import subprocess, sys, uvloop
from leadsman.domain.clock import SystemClock
from leadsman.domain.report import StorageKey
from leadsman_health_collector.endpoints import Endpoint
from leadsman_health_collector.probes.protocol_ping import ProtocolPingProbe
from leadsman_health_collector.resolver import Resolver

for command in ("ip link add link0 type veth peer name link1", "ip link set link0 up", "ip link set link1 up",
                "ip addr add fe80::9/64 dev link0 nodad"):
    subprocess.run(command.split(), check=True)
server = subprocess.Popen([sys.executable, "-m", "leadsman.testing.tcp_backend", "--listen", "[::]:2049"],
                          stdout=subprocess.PIPE)
server.stdout.readline()

async def main():
    clock = SystemClock()
    endpoint = Endpoint(StorageKey("d", "b"), "fe80::9%link0", 2049, "nfs")
    probe = ProtocolPingProbe(lambda: {endpoint.name: endpoint}, Resolver(clock), clock, 2.0)
    probe.discover()
    seen = await probe.look(endpoint.name)
    print(seen.outcome, seen.message)

try:
    uvloop.run(main())
finally:
    server.kill()
    server.wait()
"""


@pytest.fixture
def alone(tmp_path: Path):
    """Run a script in a network and with mounts of its own, where DNS goes to 127.0.0.1."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip", "mount"))):
        pytest.skip("a network of our own needs root and the programs unshare, ip and mount")
    if subprocess.run(["unshare", "--mount", "--net", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces can be made here")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")

    def run(script: str, *arguments: object) -> str:
        (tmp_path / "script.py").write_text(script)
        command = PREPARE.format(
            resolv_conf=tmp_path / "resolv.conf",
            python=sys.executable,
            script=tmp_path / "script.py",
            arguments=" ".join(map(str, arguments)),
        )
        ended = subprocess.run(
            ["unshare", "--mount", "--net", "sh", "-c", command],
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


def test_dropped_dns_takes_a_few_threads_and_does_not_hold_up_the_end(alone):
    """Every lookup blocks for 10 s and more; looks come back in time, and so does the end of the process."""
    begin = time.monotonic()
    told = json.loads(alone(DNS_DROPPED, NAMES, ROUNDS, DEADLINE_S))
    took = time.monotonic() - begin
    assert {tuple(one) for one in told["seen"]} == {("timeout", "NameResolutionFailed"), ("not_run", None)}
    assert told["threads"] == 5, "the main one and four lookups"
    assert took < 8, "a lookup takes 10 s"


def test_a_server_is_reached_at_an_address_of_one_link(alone):
    """The link is part of the address, which uvloop's own connect forgets."""
    assert alone(LINK_LOCAL) == "good \n"
