"""Breaking and healing nodes of a running `leadsman up`, seen through its own commands."""

import json
from typing import Any

import pytest

from leadsman.testing.waiting import wait_for

from .conftest import Up

pytestmark = pytest.mark.system

DRIVER = "nfs.csi.k8s.io"
BACKEND = "nfs.csi.k8s.io/10.0.0.9"


@pytest.fixture(autouse=True)
def _healed(up: Up) -> Any:
    yield
    up.heal_all()


def _verdicts(up: Up, code: int | None = 0) -> dict[str, str]:
    return {node["name"]: "" if node["fits"] else node["reason"] for node in up.schedule(code=code)["nodes"]}


def test_three_nodes_come_up_healthy(up: Up) -> None:
    """The first line has the gateway's URL, and every node reports its driver and its backend."""
    assert f"http://127.0.0.1:{up.port}" in up.first_line
    assert {node.name: up.states(node.name) for node in up.status().nodes} == {
        name: {DRIVER: "HEALTHY", BACKEND: "HEALTHY"} for name in ("node-1", "node-2", "node-3")
    }


def test_pods_are_spread_over_healthy_nodes(up: Up) -> None:
    """All nodes fit with equal scores, and the lot falls on more than one of them."""
    seen = set()

    def spread() -> bool:
        attempt = up.schedule()
        assert all(node["fits"] for node in attempt["nodes"])
        if len({node["score"] for node in attempt["nodes"]}) > 1:  # a node's load is not known from the first moment on
            return False
        seen.add(attempt["chosen"])
        return len(seen) > 1

    wait_for("two different nodes are chosen", spread)


def test_a_frozen_driver_keeps_pods_away_until_it_is_healed(up: Up) -> None:
    """Red, avoided with the reason, untouched for pods without storage, and back after healing."""
    assert "SIGSTOP" in up.leadsman("break", "node-3")
    wait_for("node-3 is red", lambda: up.states("node-3")[DRIVER] == "UNHEALTHY DriverNotResponding", within_s=8)
    assert _verdicts(up) == {
        "node-1": "",
        "node-2": "",
        "node-3": f"node(s) had an unresponsive CSI driver ({DRIVER})",
    }
    assert up.schedule()["chosen"] in {"node-1", "node-2"}
    free = up.schedule("examples/pod-no-storage.yaml")
    assert all(node["fits"] for node in free["nodes"])

    up.leadsman("heal", "node-3")
    wait_for("node-3 is green", lambda: up.healthy("node-3"), within_s=6)
    wait_for("node-3 takes pods again", lambda: _verdicts(up)["node-3"] == "", within_s=2)


def test_a_killed_driver_is_restarted_by_healing(up: Up) -> None:
    """SIGKILL of the driver is no crash of the pipeline, and healing starts a new process."""
    up.leadsman("break", "node-2", "--how", "kill")
    wait_for("node-2 is red", lambda: up.states("node-2")[DRIVER].startswith("UNHEALTHY"), within_s=8)
    assert "again" in up.leadsman("heal", "node-2")
    wait_for("node-2 is green", lambda: up.healthy("node-2"), within_s=6)


def test_a_refusing_backend_makes_that_backend_red(up: Up) -> None:
    """The evidence is on the data path, and the reason says so."""
    up.leadsman("break", "node-1", "--how", "refuse")
    wait_for("node-1's backend is red", lambda: up.states("node-1")[BACKEND] == "UNHEALTHY EndpointRefused", within_s=8)
    assert _verdicts(up)["node-1"] == f"node(s) had a storage backend that refuses connections ({DRIVER})"


def test_a_hung_mount_makes_its_backend_red(up: Up) -> None:
    """Real reads of a real mount that never return; needs a machine that can mount."""
    words = up.leadsman("break", "node-3", "--how", "hang-mount", code=None)
    if not words:
        pytest.skip(up.leadsman("break", "node-3", "--how", "hang-mount", code=2).strip())
    wait_for("node-3's mount is red", lambda: up.states("node-3")[BACKEND] == "UNHEALTHY MountHung", within_s=12)
    up.leadsman("heal", "node-3")
    wait_for("node-3 is green", lambda: up.healthy("node-3"), within_s=8)


def test_with_every_node_broken_nothing_is_chosen(up: Up) -> None:
    """Exit code 1, and the message is the one that kube-scheduler would show."""
    for node in ("node-1", "node-2", "node-3"):
        up.leadsman("break", node, "--how", "refuse")
    wait_for("nobody fits", lambda: up.schedule(code=None)["chosen"] is None, within_s=10)
    attempt = up.schedule(code=1)
    assert attempt["message"] == (
        f"0/3 nodes are available: 3 node(s) had a storage backend that refuses connections ({DRIVER})."
    )


def test_an_unknown_node_is_answered_with_the_known_ones(up: Up) -> None:
    """One line that lists them."""
    for command in ("break", "heal"):
        words = up.leadsman(command, "node-9", code=2)
        assert words == "error: no node is called node-9; the nodes are node-1, node-2, node-3\n"


def test_the_same_fault_twice_is_refused(up: Up) -> None:
    """The message says how to mend it."""
    up.leadsman("break", "node-1", "--how", "refuse")
    assert "leadsman heal node-1" in up.leadsman("break", "node-1", "--how", "refuse", code=2)


def test_status_as_json_is_the_whole_picture(up: Up) -> None:
    """Programs get URLs, nodes, storages and what was broken on purpose."""
    up.leadsman("break", "node-2", "--how", "refuse")
    shown = json.loads(up.leadsman("status", "-o", "json"))
    assert shown["gateway"] == f"http://127.0.0.1:{up.port}"
    assert shown["ready"]
    assert [node["broken_by"] for node in shown["nodes"]] == [[], ["refuse"], []]
    assert {storage["driver"] for storage in shown["nodes"][0]["storages"]} == {DRIVER}


def test_a_second_up_on_the_same_port_is_refused(up: Up) -> None:
    """It says so in one line and starts nothing."""
    before = set(up.processes())
    words = up.leadsman("up", "--port", str(up.port), code=2)
    assert words.startswith(f"error: a pipeline runs on port {up.port} already")
    assert set(up.processes()) == before


def test_the_table_of_status_has_a_row_per_node(up: Up) -> None:
    """Columns for people, without colours or trailing blanks in a pipe."""
    header, *rows = up.leadsman("status").splitlines()
    assert header.split() == ["NODE", DRIVER, BACKEND, "REPORT", "BROKEN", "BY"]
    assert [row.split()[:2] for row in rows] == [[f"node-{number}", "HEALTHY"] for number in (1, 2, 3)]
    assert "\x1b" not in "".join(rows)


def test_changes_and_decisions_are_printed_as_lines(up: Up) -> None:
    """A change of state and a decision each make one line on stdout of `up`."""
    up.new_lines()
    up.leadsman("break", "node-3", "--how", "refuse")
    lines: list[str] = []

    def seen(*words: str) -> bool:
        lines.extend(up.new_lines())
        return any(all(word in line for word in words) for line in lines)

    wait_for("the change is printed", lambda: seen("node-3", "UNHEALTHY EndpointRefused", "(was HEALTHY)"))
    lines.clear()
    up.schedule()
    wait_for("the decision is printed", lambda: seen("filter default/web", "2 of 3 nodes pass", "node-3"))
    wait_for("the scores are printed", lambda: seen("prioritize default/web"))
