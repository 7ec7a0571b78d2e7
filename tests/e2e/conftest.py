"""What all e2e tests share: the binaries, the control plane, and a cluster with Leadsman in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman_e2e.api import Api
from leadsman_e2e.cluster import Cluster
from leadsman_e2e.collector import collector_nodes
from leadsman_e2e.plane import ControlPlane
from leadsman_e2e.rights import GATEWAY, NAMESPACE
from leadsman_e2e.timings import Timings

BUILD = Path(__file__).parent / "controlplane" / "build.py"
BIN_DIR = pytest.StashKey[Path | None]()
TIMINGS = pytest.StashKey[Timings]()

# Service accounts of our own manifests that run with the rights those manifests give them.
SERVICE_ACCOUNTS = ((NAMESPACE, GATEWAY),)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Provide the binaries before the first test.

    A build takes minutes: here its progress shows, and it counts against no test's time limit.
    """
    wanted = any(item.path.is_relative_to(BUILD.parent.parent) for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        run = subprocess.run([sys.executable, str(BUILD)], stdout=subprocess.PIPE, text=True, check=False)
    session.config.stash[BIN_DIR] = Path(run.stdout.splitlines()[-1]) if run.returncode == 0 else None


@pytest.fixture(scope="session")
def kube_bin_dir(request: pytest.FixtureRequest) -> Path:
    """The directory of the Kubernetes binaries."""
    directory = request.config.stash[BIN_DIR]
    if directory is None:
        pytest.fail("no Kubernetes binaries: build.py said why before the first test", pytrace=False)
    return directory


@pytest.fixture(scope="session")
def plane(kube_bin_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running control plane without a scheduler and without nodes."""
    workdir = tmp_path_factory.mktemp("plane")
    with ControlPlane.start(kube_bin_dir, workdir, SERVICE_ACCOUNTS) as plane:
        yield plane


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> Api:
    """A client with all rights."""
    return plane.api


@pytest.fixture(scope="session")
def timings(request: pytest.FixtureRequest) -> Timings:
    """Where scenarios note how long things took; printed at the end of the run."""
    return request.config.stash.setdefault(TIMINGS, Timings())


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with real collectors, and kube-scheduler configured by the file that we ship.

    One module at a time, because modules that need other nodes have a cluster of their own.
    """
    with Cluster.start(plane, tmp_path_factory.mktemp("leadsman")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def nodes(api: Api) -> Iterator[None]:
    """Nodes for the collector's tests, gone before others could schedule pods on them; and the collector's rights."""
    with collector_nodes(api):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what the scenarios measured."""
    measured = config.stash.get(TIMINGS, None)
    if measured and measured.lines():
        terminalreporter.section("measured on the real scheduler")
        for line in measured.lines():
            terminalreporter.write_line(line)
