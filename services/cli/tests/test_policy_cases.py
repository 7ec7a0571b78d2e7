"""The SchedulingPolicyTest document: what it says, and that every mistake in it is named with its line."""

from pathlib import Path

import pytest

from leadsman.config.errors import DocumentError
from leadsman.domain.reasons import Reason
from leadsman.domain.report import StorageKey, StorageStatus, VolumeStatus
from leadsman.domain.requirements import Near, Profile, Requirement
from leadsman.domain.states import Evidence, State
from leadsman_cli.policy_cases import Cases, RejectionEntry, load_cases, parse_cases
from leadsman_cli.policy_nodes import reports_of

HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicyTest\n"
NODES = "nodes:\n  a: {}\n  b: {}\n"


def _cases(text: str) -> Cases:
    return parse_cases(HEAD + text, "cases.yaml")


def _problems(text: str) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        _cases(text)
    return str(caught.value).splitlines()


def test_a_node_becomes_what_its_collector_would_report() -> None:
    """Labels, facts, storages with their numbers, bad volumes and silence."""
    cases = _cases("""
nodes:
  n:
    labels: {node-type: gpu}
    facts: {cpu.idle: 0.5, cpu.count: 8, gpu.model: H100}
    storage:
      nfs.example/s1: {latencySeconds: 0.02, used: 0.5, inodesUsed: 0.1}
      ebs.example: {state: UNHEALTHY, reason: MountHung, attachLimit: 25, attached: 3}
      none.example: {state: NOT_APPLICABLE}
    badVolumes: {nfs.example/data: {reason: StaleFileHandle}}
    silentFor: 1m30s
  never: {reported: false}
cases: [{name: any}]
""")
    [(report, age_s)] = reports_of(cases.nodes)
    assert (report.node, age_s) == ("n", 90.0)
    assert report.labels == {"node-type": "gpu"}
    assert report.facts == {"cpu.idle": 0.5, "cpu.count": 8.0, "gpu.model": "H100"}
    assert report.bad_volumes == (VolumeStatus("nfs.example", "data", State.UNHEALTHY, Reason.STALE_FILE_HANDLE),)
    assert report.storages == (
        StorageStatus(
            StorageKey("nfs.example", "s1"),
            State.HEALTHY,
            evidence=Evidence.DATA_PATH,
            latency_s=0.02,
            used=0.5,
            inodes_used=0.1,
        ),
        StorageStatus(
            StorageKey("ebs.example"),
            State.UNHEALTHY,
            Reason.MOUNT_HUNG,
            Evidence.DATA_PATH,
            attach_limit=25,
            attached=3,
        ),
        StorageStatus(StorageKey("none.example"), State.NOT_APPLICABLE, Reason.DRIVER_NOT_REGISTERED),
    )


def test_a_pod_becomes_what_the_gateway_would_ask_about() -> None:
    """A volume lies on the pod's storage of that driver if there is one, else on the driver alone."""
    pod = (
        _cases("""
nodes: {a: {}}
cases:
  - name: all of it
    pod:
      namespace: prod
      labels: {app: db}
      annotations: {tier: one}
      priorityClass: vip
      storage: [nfs.example/s1, ebs.example, ceph.example/c1, ceph.example/c2]
      volumes: [nfs.example/data, ceph.example/other]
      nearZone: z1
      nearRegion: r1
""")
        .cases[0]
        .pod
    )
    assert pod.profile == Profile("prod", {"app": "db"}, "vip", {"tier": "one"})
    assert pod.near == Near(("z1",), ("r1",))
    assert pod.requirements == (
        Requirement("nfs.example", "s1"),
        Requirement("ebs.example"),
        Requirement("ceph.example", "c1"),
        Requirement("ceph.example", "c2"),
        Requirement("nfs.example", "s1", "data"),
        Requirement("ceph.example", "", "other"),
    )


@pytest.mark.parametrize(
    ("pod", "near"),
    [
        ("{}", Near()),
        ("{nearZone: z1}", Near(("z1",))),
        ("{nearZone: z1, annotations: {leadsman.dev/near-zone: 'z3, z2'}}", Near(("z2", "z3"))),
        ("{nearZone: z1, annotations: {leadsman.dev/near-region: r2}}", Near((), ("r2",))),
    ],
)
def test_annotations_say_where_data_is_as_they_do_at_the_gateway(pod: str, near: Near) -> None:
    """They go before what stands for the topology of volumes."""
    assert _cases(NODES + f"cases: [{{name: x, pod: {pod}}}]").cases[0].pod.near == near


def test_short_forms_stand_for_the_long_ones() -> None:
    """A reason alone is a rejection about anything, and one name is a list of one."""
    expect = (
        _cases(
            NODES
            + """
cases:
  - name: short
    expect: {rejected: {a: RuleNotMet, b: {reason: MountHung, driver: x}}, shadow: {a: Stale}, best: a}
"""
        )
        .cases[0]
        .expect
    )
    assert expect.rejected == {
        "a": RejectionEntry(Reason.RULE_NOT_MET),
        "b": RejectionEntry(Reason.MOUNT_HUNG, driver="x"),
    }
    assert expect.shadow == {"a": RejectionEntry(Reason.STALE)}
    assert expect.best == ["a"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nodes: {a: {fact: {}}}\ncases: [{name: x}]", ":3: nodes.a.fact: unknown key; did you mean 'facts'?"),
        ("nodes: {a: {facts: {cpu.idel: 1}}}\ncases: [{name: x}]", "there is no such fact; did you mean 'cpu.idle'?"),
        ("nodes: {a: {facts: {cpu.idle: high}}}\ncases: [{name: x}]", "this fact is a number"),
        ("nodes: {a: {facts: {gpu.model: 100}}}\ncases: [{name: x}]", "this fact is text; put it in quotes"),
        ("nodes: {a: {facts: {gpu.count: 1.5}}}\ncases: [{name: x}]", "this fact is a whole number"),
        ("nodes: {a: {facts: {cpu.idle: true}}}\ncases: [{name: x}]", "expected a number or text, got true or false"),
        ("nodes: {a: {storage: {d: {state: UNHEALTHY}}}}\ncases: [{name: x}]", "say why it is UNHEALTHY: reason"),
        ("nodes: {a: {storage: {d: {reason: MountHung}}}}\ncases: [{name: x}]", "a HEALTHY storage has no reason"),
        ("nodes: {a: {storage: {d: {state: BAD}}}}\ncases: [{name: x}]", "'BAD' is not possible here"),
        ("nodes: {a: {storage: {d: {used: 70}}}}\ncases: [{name: x}]", "a share is from 0 to 1, not 70"),
        ("nodes: {a: {storage: {/b: {}}}}\ncases: [{name: x}]", "not `driver` or `driver/backend`"),
        ("nodes: {a: {badVolumes: {d: {reason: MountHung}}}}\ncases: [{name: x}]", "not `driver/volume`"),
        ("nodes: {a: {silentFor: 30}}\ncases: [{name: x}]", "nodes.a.silentFor: expected text"),
        ("nodes: {a: {silentFor: soon}}\ncases: [{name: x}]", "'soon' is not a duration"),
        ("nodes: {a: {reported: false, labels: {x: y}}}\ncases: [{name: x}]", "a node that has never reported"),
        ("nodes: {a: {}}\ncases: []", ":4: cases: there are none"),
        ("nodes: {a: {}}\ncases: [{name: x}, {name: x}]", "cases[1].name: an earlier case is called 'x', too"),
        ("nodes: {a: {}}\ncases: [{pod: {}}]", "cases[0]: missing key name"),
        ("nodes: {a: {}}\ncases: [{name: x, pod: {storage: ['']}}]", "cases[0].pod.storage[0]: not `driver`"),
        ("nodes: {a: {}}\ncases: [{name: x, pod: {volumes: [d]}}]", "cases[0].pod.volumes[0]: not `driver/volume`"),
        ("nodes: {node-1: {}}\ncases: [{name: x, expect: {best: node1}}]", "did you mean 'node-1'?"),
        (
            "nodes: {a: {}}\ncases: [{name: x, expect: {rejected: {b: Stale}}}]",
            "cases[0].expect.rejected: no node of this file is called 'b'; known: a",
        ),
        (
            "nodes: {a: {}}\ncases: [{name: x, expect: {rejected: {a: RuleNotMat}}}]",
            "cases[0].expect.rejected.a.reason: 'RuleNotMat' is not possible here; did you mean 'RuleNotMet'?",
        ),
        (
            "nodes: {a: {}}\ncases: [{name: x, expect: {rejected: {a: {reason: Stale, rul: b}}}}]",
            "did you mean 'rule'?",
        ),
        ("nodes: {a: {}}\ncases: [{name: x, expect: {scores: {a: 11}}}]", "scores are from 0 to 10, not 11"),
        (
            "nodes: {a: {}}\ncases: [{name: x, expect: {scores: {a: 7.5}}}]",
            "cases[0].expect.scores.a: expected a whole number",
        ),
        (
            "nodes: {a: {}}\ncases: [{name: x, expect: {rejected: {a: Stale}, allowed: [a]}}]",
            "both rejected and allowed: a",
        ),
        (
            "nodes: {a: {}, b: {}}\ncases: [{name: x, expect: {rejected: {a: Stale}, allowed: []}}]",
            "neither rejected nor allowed: b",
        ),
        ("nodes: [a]\ncases: [{name: x}]", "nodes: expected a mapping of keys to values"),
        ("nodes: {a: {}}\ncases: [{name: x, expect: [a]}]", "cases[0].expect: expected a mapping of keys to values"),
        ("nodes: {a: {}}\ncases: {name: x}", "cases: expected a list"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, problem: str) -> None:
    """One line that begins with the file's name."""
    problems = _problems(text)
    assert len(problems) == 1, problems
    assert problems[0].startswith("cases.yaml:")
    assert problem in problems[0]


def test_another_kind_of_document_is_refused() -> None:
    """A policy is not a file of cases."""
    with pytest.raises(DocumentError, match="kind: 'SchedulingPolicy' is not possible here"):
        parse_cases("apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicy\nnodes: {}\ncases: []\n", "c.yaml")


def test_every_problem_is_told_at_once_with_its_line() -> None:
    """In the order of the file."""
    problems = _problems("""nodes:
  a:
    facts:
      cpu.idel: 1
    silentFor: soon
cases:
  - name: x
    expect:
      best: c
""")
    assert [line.split(":")[1] for line in problems] == ["6", "7", "11"]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """The message names it."""
    path = tmp_path / "none.yaml"
    with pytest.raises(DocumentError, match=r"none\.yaml: cannot be read: No such file"):
        load_cases(path)
    path.write_bytes(b"\xff")
    with pytest.raises(DocumentError, match=r"none\.yaml:1: not UTF-8 text"):
        load_cases(path)
