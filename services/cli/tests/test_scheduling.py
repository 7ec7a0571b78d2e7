"""Playing kube-scheduler: what is sent, what is made of answers, and what is refused."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman_cli.errors import CommandError
from leadsman_cli.scheduling import Extender, read_pod, schedule

NAMES = ["node-1", "node-2", "node-3"]
POD = {"metadata": {"name": "web", "namespace": "default"}, "spec": {}}
REASON = "node(s) had a hung storage mount (nfs.csi.k8s.io)"


class Gateway(http.server.ThreadingHTTPServer):
    """Answers each verb with what a test wrote into `replies`, and keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, dict[str, object]]] = []

    def reply(self, verb: str, document: object, status: int = 200) -> None:
        self.replies[f"/{verb}"] = (status, json.dumps(document).encode())


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, json.loads(body)))
        status, reply = self.server.replies[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def extender(gateway: Gateway) -> Extender:
    return Extender(gateway.server_address[1])


def test_survivors_are_prioritized_and_the_best_score_is_chosen(gateway: Gateway, extender: Extender) -> None:
    """Filter gets every name, prioritize only the survivors, and the highest score wins."""
    gateway.reply("filter", {"NodeNames": ["node-1", "node-2"], "FailedAndUnresolvableNodes": {"node-3": REASON}})
    gateway.reply("prioritize", [{"Host": "node-1", "Score": 3}, {"Host": "node-2", "Score": 9}])
    attempt = schedule(POD, NAMES, extender)
    assert attempt.chosen == "node-2"
    assert [(node.name, node.fits, node.reason, node.score) for node in attempt.nodes] == [
        ("node-1", True, "", 3),
        ("node-2", True, "", 9),
        ("node-3", False, REASON, None),
    ]
    assert gateway.asked == [
        ("/filter", {"Pod": POD, "Nodes": None, "NodeNames": NAMES}),
        ("/prioritize", {"Pod": POD, "Nodes": None, "NodeNames": ["node-1", "node-2"]}),
    ]


def test_a_single_survivor_is_chosen_without_asking_for_scores(gateway: Gateway, extender: Extender) -> None:
    """kube-scheduler makes no prioritize call for one node."""
    gateway.reply("filter", {"NodeNames": ["node-2"]})
    assert schedule(POD, NAMES, extender).chosen == "node-2"
    assert [path for path, _ in gateway.asked] == ["/filter"]


def test_without_a_fitting_node_the_message_counts_reasons_as_kube_scheduler_does(
    gateway: Gateway, extender: Extender
) -> None:
    """Nobody is chosen and equal reasons are summed up."""
    failed = {"node-1": REASON, "node-3": REASON, "node-2": "node(s) had slow storage (a.example)"}
    gateway.reply("filter", {"NodeNames": [], "FailedAndUnresolvableNodes": failed})
    attempt = schedule(POD, NAMES, extender)
    assert attempt.chosen is None
    assert attempt.message == (f"0/3 nodes are available: 1 node(s) had slow storage (a.example), 2 {REASON}.")


def test_a_null_node_list_means_that_nobody_passes(gateway: Gateway, extender: Extender) -> None:
    """NodeNames null and no items is zero nodes without an error in kube-scheduler."""
    gateway.reply("filter", {"NodeNames": None, "Nodes": None})
    assert schedule(POD, NAMES, extender).chosen is None


def test_equal_scores_are_drawn_by_lot(gateway: Gateway, extender: Extender) -> None:
    """Over some attempts every one of three equal nodes is chosen."""
    gateway.reply("filter", {"NodeNames": NAMES})
    gateway.reply("prioritize", None)
    chosen = {schedule(POD, NAMES, extender).chosen for _ in range(60)}
    assert chosen == set(NAMES)


def test_a_failing_prioritize_only_loses_the_scores(gateway: Gateway, extender: Extender) -> None:
    """The attempt goes on, and the warning says what kube-scheduler would swallow."""
    gateway.reply("filter", {"NodeNames": ["node-1", "node-2"]})
    gateway.reply("prioritize", [{"Host": "node-1", "Score": 7.5}])
    attempt = schedule(POD, NAMES, extender)
    assert attempt.chosen in {"node-1", "node-2"}
    assert "without scores" in attempt.warning


@pytest.mark.parametrize(
    ("reply", "status", "words"),
    [
        ({"Error": "no verdict"}, 200, "no verdict"),
        ({"NodeNames": ["node-9"]}, 200, "node-9"),
        ({"error": "busy"}, 503, "HTTP 503"),
        ({"NodeNames": "node-1"}, 200, "not what kube-scheduler reads"),
    ],
)
def test_what_fails_an_attempt_is_an_error(
    gateway: Gateway, extender: Extender, reply: object, status: int, words: str
) -> None:
    """An Error member, an unknown node, a status other than 200 and a wrong type fail the whole attempt."""
    gateway.reply("filter", reply, status)
    with pytest.raises(CommandError, match=words):
        schedule(POD, NAMES, extender)


def test_a_pod_file_is_completed_as_the_api_server_would(tmp_path: Path) -> None:
    """Namespace, uid and resourceVersion are filled in; apiVersion and kind do not go over the wire."""
    path = tmp_path / "pod.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: []}\n")
    pod = read_pod(path)
    assert set(pod) == {"metadata", "spec", "status"}
    assert (pod["metadata"]["namespace"], pod["metadata"]["resourceVersion"]) == ("default", "1")
    assert pod["metadata"]["uid"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Deployment\n", "holds a Deployment, not a Pod"),
        ("- 1\n", "holds a list"),
        ("", "holds 0 documents"),
        ("kind: Pod\n---\nkind: Pod\n", "holds 2 documents"),
        ("kind: Pod\nspec: {}\n", "metadata with a name"),
        ("kind: Pod\nmetadata: {name: web\n", "is not YAML"),
        ("kind: [\n", "is not YAML"),
    ],
)
def test_a_file_that_is_not_one_pod_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    """The message names the file and what it holds instead."""
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    with pytest.raises(CommandError, match=words) as caught:
        read_pod(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(CommandError, match=r"pod\.yaml: No such file"):
        read_pod(tmp_path / "pod.yaml")
