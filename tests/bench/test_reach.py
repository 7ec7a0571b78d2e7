"""The reach benchmark: what it counts, how it judges, and one short run on a small node."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

import reach
from leadsman_bench import reach_ledger
from leadsman_bench.reach_node import why_impossible
from leadsman_bench.reach_run import per_minute
from leadsman_bench.reach_usage import MIB, Sample, Usage, summarise, take_sample
from leadsman_bench.reach_work import shortcomings
from leadsman_bench.reach_world import DRIVERS

PROGRAM = Path(reach.__file__)


def sample(at_s: float, *, rss_mib: float = 80.0, cpu_s: float = 0.0, worker_cpu_s: float = 0.0) -> Sample:
    return Sample(at_s, rss_mib * MIB, rss_mib * MIB / 2, rss_mib * MIB - 9 * MIB, 2, cpu_s, worker_cpu_s)


def usage(*, rss_mib: float = 80.0, cpu_s: float = 0.6) -> Usage:
    return summarise([sample(0.0, rss_mib=rss_mib), sample(100.0, rss_mib=rss_mib, cpu_s=cpu_s)])


def burn(seconds: float) -> None:
    """Use the processor for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def page_of(*, state: str = "HEALTHY", mounts: int = 20, watches: int = 3) -> str:
    sources = {"csi_plugin": 5, "mount_liveness": mounts, "protocol_ping": 9, "tcp_endpoint": 1, "name_resolution": 1}
    lines = [f'leadsman_collector_sources{{probe="{probe}"}} {number}.0' for probe, number in sources.items()]
    lines += [f'leadsman_collector_kube_watch_up{{kind="{kind}"}} 1.0' for kind in range(watches)]
    for one in ("HEALTHY", "UNHEALTHY"):
        labels = f'driver="nfs.csi.k8s.io",backend="nfs-a",state="{one}"'
        lines.append(f"leadsman_collector_storage_state{{{labels}}} {float(one == state)}")
    return "\n".join(lines) + "\n"


def test_the_world_has_the_reach_of_the_contract() -> None:
    """Five drivers, twenty volumes of distinct names, and every server belongs to a backend."""
    volumes = [volume.name for driver in DRIVERS for volume in driver.volumes]
    assert (len(DRIVERS), len(volumes), len(set(volumes))) == (5, 20, 20)
    assert all(server.backend for driver in DRIVERS for server in driver.servers)


def test_processor_time_is_that_of_the_run_as_a_share_of_one_core() -> None:
    """What was used before the first sample does not count."""
    found = summarise([sample(1000.0, cpu_s=5.0, worker_cpu_s=1.0), sample(1100.0, cpu_s=6.5, worker_cpu_s=1.25)])
    assert found.minutes == pytest.approx(100 / 60)
    assert (found.cpu_percent, found.worker_cpu_percent) == (1.5, 0.25)


def test_memory_is_told_at_most_on_average_and_in_its_growth() -> None:
    """Growth is from the first tenth of the samples to the last, so one odd sample between does not look like it."""
    run = [sample(float(at), rss_mib=200.0 if at == 10 else 80.0 + at / 10) for at in range(20)]
    found = summarise(run)
    assert (found.rss_max_mib, found.samples) == (200.0, 20)
    assert found.growth_mib == pytest.approx(1.8)
    assert found.own_rss_max_mib == pytest.approx(191.0)
    assert found.pss_max_mib == pytest.approx(100.0)


PARENT = """
import subprocess, sys
print("alone", flush=True)
sys.stdin.readline()
burn = "import sys, time\\nwhile time.process_time() < 0.1: pass\\nprint(flush=True)\\nsys.stdin.read()"
with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    child.stdout.readline()
    print("with a child", flush=True)
    sys.stdin.readline()
    child.stdin.close()
print("alone again", flush=True)
sys.stdin.readline()
"""


def test_children_count_with_the_process() -> None:
    """A worker's memory and processor time are the collector's, also once it has ended."""
    samples = []
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin
        assert parent.stdout
        for _ in range(3):
            parent.stdout.readline()
            samples.append(take_sample(parent.pid))
            parent.stdin.write(b"\n")
            parent.stdin.flush()
    alone, together, after = samples
    assert [one.processes for one in samples] == [1, 2, 1]
    assert alone.rss == alone.own_rss
    assert together.rss - together.own_rss > 2 * MIB
    assert 0 < together.pss < together.rss
    assert together.worker_cpu_s >= 0.09
    assert after.worker_cpu_s >= together.worker_cpu_s


@pytest.mark.parametrize(("figures", "met"), [({}, True), ({"rss_mib": 100.1}, False), ({"cpu_s": 1.51}, False)])
def test_each_limit_is_judged(figures: dict[str, float], *, met: bool) -> None:
    """Memory and processor time must both be within theirs."""
    found = usage(**figures)
    assert reach.met(found) is met
    assert ("not yet" in [row[-1] for row in reach.limits(found)]) is not met


def test_parts_are_shares_of_all_and_small_ones_stand_together() -> None:
    """The column adds up."""
    rows = reach.share_rows(per_minute({"small": 0.0004, "large": 0.3, "tiny": 0.0003, "half": 0.1}, 60.0))
    assert [row[0] for row in rows] == ["large", "half", "the rest", "all"]
    assert [row[1] for row in rows] == ["300.0", "100.0", "0.7", "400.7"]
    assert rows[-1][2] == "100.0 %"


def test_a_collector_that_does_all_its_work_has_no_shortcomings() -> None:
    """Its own metrics tell so."""
    assert shortcomings(page_of(), DRIVERS, api=True) == []
    assert shortcomings(page_of(watches=0), DRIVERS, api=False) == []


def test_figures_of_a_collector_that_does_less_are_not_taken() -> None:
    """A mount that is not looked at, a watch that is not there, a backend that is down: each is told."""
    assert shortcomings(page_of(mounts=19), DRIVERS, api=True) == ["19 of 20 mounts"]
    assert shortcomings(page_of(watches=0), DRIVERS, api=True) == ["0 of 3 watches of the API server"]
    assert shortcomings(page_of(state="UNHEALTHY"), DRIVERS, api=True) == ["nfs.csi.k8s.io nfs-a is UNHEALTHY"]
    assert shortcomings("", DRIVERS, api=False) == ["0 of 5 drivers", "0 of 20 mounts", "0 of 10 endpoints"]


def test_the_ledger_counts_every_moment_once() -> None:
    """What a part within another one takes is not the outer one's."""
    ledger = reach_ledger.Ledger()

    def outer() -> None:
        burn(0.02)
        ledger.timed("inner", burn, 0.03)
        ledger.timed("inner", burn, 0.03)

    ledger.timed("outer", outer)
    assert 0.019 < ledger.spent["outer"] < 0.05
    assert 0.059 < ledger.spent["inner"] < 0.12


async def test_the_ledger_puts_tasks_down_to_whoever_started_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that a part starts is that part's, whatever runs in between."""
    ledger = reach_ledger.Ledger()
    monkeypatch.setattr(reach_ledger, "ledger", ledger)

    async def work(seconds: float) -> None:
        await asyncio.sleep(0)
        burn(seconds)

    class Part:
        def __init__(self, name: str) -> None:
            self.name = name

        async def run(self, seconds: float) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(work(seconds))

    reach_ledger.put_down_tasks(lambda part: part.name, Part, "run")
    loop = asyncio.get_running_loop()
    loop.set_task_factory(reach_ledger.new_task)
    await asyncio.gather(loop.create_task(Part("a").run(0.02)), loop.create_task(Part("b").run(0.04)))
    assert 0.019 < ledger.spent["a"] < 0.05
    assert 0.039 < ledger.spent["b"] < 0.1


def test_a_short_run_measures_a_real_collector_and_leaves_nothing() -> None:
    """One driver, two FUSE mounts, a server, an API server over TLS: figures come out, and mounts and processes go."""
    if why := why_impossible():
        pytest.skip(why)
    options = ["--only", "juicefs", "--minutes", "0.05", "--warm-up", "1", "--shares", "2", "-o", "json"]
    command = [sys.executable, str(PROGRAM), *options]
    with tempfile.TemporaryDirectory(prefix="r-") as base:  # short, because the path of a unix socket must be
        environ = {**os.environ, "TMPDIR": base}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=50)
        left = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if base in line]
        left += [str(path) for path in Path(base).iterdir()]
        commands = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
        left += [command for command in commands if base in command]
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert 10 < told["usage"]["rss_max_mib"] < 200
    assert told["usage"]["processes_max"] == 2
    assert told["ms_per_minute"]["bus connection"] > 0
    assert left == []
