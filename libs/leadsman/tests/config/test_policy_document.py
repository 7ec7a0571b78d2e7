"""The policy document: what a good one becomes, and what is said about the rest of it."""

import textwrap

import pytest

from leadsman.config import DocumentError
from leadsman.config.cel_test import CelTest
from leadsman.config.policy_document import fingerprint, load_policy, parse_policy
from leadsman.domain.label_test import LabelTest
from leadsman.domain.pod_selectors import Operator, PodSelector, Term
from leadsman.domain.policy import DEFAULT_WEIGHTS, Component, Mode, OnError, Rule, SchedulingPolicy
from leadsman.domain.requirements import Profile
from leadsman.domain.storage_policy import BreakerPolicy, DriverPolicy, StoragePolicy, Treatment

HEAD = "apiVersion: leadsman.dev/v1alpha1\nkind: SchedulingPolicy\n"

DESIGN = """\
apiVersion: leadsman.dev/v1alpha1
kind: SchedulingPolicy
mode: enforce                       # or shadow
storage:
  default: {unknown: allow, stale: allow, staleAfter: 30s, holdUnhealthy: 5m}
  drivers:
    ebs.csi.aws.com: {unknown: reject}
  backends:                         # which volume attribute names the backend
    nfs.csi.k8s.io: server
    rbd.csi.ceph.com: clusterID
  breaker: {share: 0.8, minNodes: 5}
rules:
  - name: gpu-pods-on-gpu-nodes     # the plain case: one label key, one value
    pods: {matchLabels: {accelerator: gpu}}
    require: {labels: {node-type: gpu}}
  - name: new-enough-gpu-driver     # anything else: CEL over node facts, compiled once, evaluated when a report arrives
    pods: {matchLabels: {accelerator: gpu}}
    require: {cel: 'node.gpu.driverMajor >= 550'}
  - name: near-the-data
    prefer: {labels: {topology.kubernetes.io/region: eu-west-1}, weight: 2}
score:
  weights: {storageLatency: 3, ioPressure: 2, capacity: 1, cpu: 1, memory: 1, gpu: 0}
"""


def parse(text: str) -> SchedulingPolicy:
    return parse_policy(HEAD + textwrap.dedent(text), "policy.yaml")


def problems(text: str) -> list[str]:
    """What is said of `text`, whose first line is line 3, without the file's name."""
    with pytest.raises(DocumentError) as caught:
        parse(text)
    return [line.removeprefix("policy.yaml:") for line in str(caught.value).splitlines()]


def term(key: str, operator: str, *values: str) -> Term:
    return Term(key, Operator(operator), values)


def test_the_document_of_the_design_becomes_a_policy():
    """Every key of the agreed example is understood."""
    gpu_pods = PodSelector((term("accelerator", "In", "gpu"),))
    assert parse_policy(DESIGN, "policy.yaml") == SchedulingPolicy(
        mode=Mode.ENFORCE,
        storage=StoragePolicy(
            default=DriverPolicy(Treatment.ALLOW, Treatment.ALLOW, 30.0, 300.0),
            drivers={"ebs.csi.aws.com": DriverPolicy(Treatment.REJECT, Treatment.ALLOW, 30.0, 300.0)},
            breaker=BreakerPolicy(0.8, 5),
        ),
        backend_attributes={"nfs.csi.k8s.io": "server", "rbd.csi.ceph.com": "clusterID"},
        rules=(
            Rule("gpu-pods-on-gpu-nodes", gpu_pods, require=LabelTest((term("node-type", "In", "gpu"),))),
            Rule("new-enough-gpu-driver", gpu_pods, require=CelTest("node.gpu.driverMajor >= 550", "require")),
            Rule(
                "near-the-data",
                prefer=LabelTest((term("topology.kubernetes.io/region", "In", "eu-west-1"),)),
                weight=2.0,
            ),
        ),
        weights=DEFAULT_WEIGHTS,
        fingerprint=fingerprint(DESIGN),
    )


def test_a_document_that_says_nothing_is_the_built_in_policy():
    """Whoever starts a file from nothing changes nothing."""
    policy = parse("")
    assert policy == SchedulingPolicy(fingerprint=fingerprint(HEAD))


def test_every_key_is_taken_over():
    """Nothing of a full document is lost on the way."""
    policy = parse("""\
        mode: shadow
        storage:
          default: {unknown: penalize, stale: reject, staleAfter: 1m, holdUnhealthy: 0s}
          breaker: {share: 1, minNodes: 1}
          busFrozen: {maxAge: 1h}
        rules:
        - name: all-of-it
          pods:
            matchLabels: {app: db}
            matchExpressions: [{key: tier, operator: NotIn, values: [test, dev]}]
            matchAnnotations: {example.com/owner: 'Ada <ada@example.com>'}
            annotationExpressions: [{key: example.com/cold, operator: DoesNotExist}]
            namespaces: [prod, stage]
            priorityClasses: [vip, system-cluster-critical]
          require:
            matchExpressions:
            - {key: example.com/cores, operator: Gt, values: ['8']}
            - {key: spot, operator: DoesNotExist}
          onError: reject
          enforce: false
          resolvable: true
        - name: liked
          prefer: {cel: node.cpu.idle, weight: 0.5}
        score: {weights: {cpu: 4, nearness: 0}}
        """)
    assert policy.mode is Mode.SHADOW
    assert policy.storage == StoragePolicy(
        default=DriverPolicy(Treatment.PENALIZE, Treatment.REJECT, 60.0, 0.0),
        bus_frozen_max_age_s=3600.0,
        breaker=BreakerPolicy(1.0, 1),
    )
    assert policy.rules == (
        Rule(
            "all-of-it",
            PodSelector(
                (term("app", "In", "db"), term("tier", "NotIn", "test", "dev")),
                (term("example.com/owner", "In", "Ada <ada@example.com>"), term("example.com/cold", "DoesNotExist")),
                frozenset({"prod", "stage"}),
                frozenset({"vip", "system-cluster-critical"}),
            ),
            require=LabelTest((term("example.com/cores", "Gt", "8"), term("spot", "DoesNotExist"))),
            on_error=OnError.REJECT,
            enforce=False,
            resolvable=True,
        ),
        Rule("liked", prefer=CelTest("node.cpu.idle", "prefer"), weight=0.5),
    )
    assert policy.weights == {**DEFAULT_WEIGHTS, Component.CPU: 4.0, Component.NEARNESS: 0.0}


def test_a_driver_inherits_what_it_leaves_out_from_default():
    """And `default` inherits from what is built in."""
    storage = parse("""\
        storage:
          default: {unknown: reject, staleAfter: 45s}
          drivers:
            a.csi.io: {staleAfter: 2m}
            kubernetes.io/nfs: {unknown: allow}
        """).storage
    assert storage.default == DriverPolicy(Treatment.REJECT, Treatment.ALLOW, 45.0, 300.0)
    assert storage.of("a.csi.io") == DriverPolicy(Treatment.REJECT, Treatment.ALLOW, 120.0, 300.0)
    assert storage.of("kubernetes.io/nfs") == DriverPolicy(Treatment.ALLOW, Treatment.ALLOW, 45.0, 300.0)
    assert storage.of("another.csi.io") == storage.default


def test_a_rule_touches_the_pods_that_its_selector_names():
    """From YAML to the question whether a pod is meant."""
    (rule,) = parse("""\
        rules:
        - name: r
          pods: {matchLabels: {app: db}, namespaces: [prod]}
          require: {labels: {disk: ssd}}
        """).rules
    assert rule.pods.matches(Profile("prod", {"app": "db", "x": "y"}))
    assert not rule.pods.matches(Profile("test", {"app": "db"}))
    assert not rule.pods.matches(Profile("prod", {"app": "web"}))


def test_the_fingerprint_is_of_the_bytes(tmp_path):
    """Every replica that read the same file says the same twelve digits, and another comment is another version."""
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD)
    policy, text = load_policy(file)
    assert text == HEAD
    assert policy.fingerprint == "11d347c63c5c"  # as b2sum -l 48 says
    assert parse("# x\n").fingerprint != policy.fingerprint


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """With the path that was tried."""
    with pytest.raises(DocumentError, match=r"nothing\.yaml: cannot be read: No such file or directory"):
        load_policy(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mode: shaddow", "3: mode: 'shaddow' is not possible here; did you mean 'shadow'? (known: enforce, shadow)"),
        (
            "storage: {defaults: {}}",
            (
                "3: storage.defaults: unknown key; did you mean 'default'? "
                "(known: backends, breaker, busFrozen, default, drivers)"
            ),
        ),
        (
            "storage: {default: {unknown: deny}}",
            "3: storage.default.unknown: 'deny' is not possible here; known: allow, penalize, reject",
        ),
        (
            "storage: {default: {staleAfter: 30}}",
            "3: storage.default.staleAfter: expected text, got a whole number (30); put it in quotes",
        ),
        (
            "storage: {default: {staleAfter: '30'}}",
            "3: storage.default.staleAfter: '30' is not a duration; write it like 500ms, 30s, 1m30s or 1h",
        ),
        (
            "storage: {drivers: {a.csi.io: {staleAfter: 0s}}}",
            (
                '3: storage.drivers."a.csi.io".staleAfter: staleAfter must be longer than 0; '
                "three heartbeats of the collector (30s) is usual"
            ),
        ),
        ("storage: {busFrozen: {maxAge: 9999h}}", "3: storage.busFrozen.maxAge: '9999h' is longer than a year"),
        (
            "storage: {drivers: {'nfs csi': {}}}",
            "3: storage.drivers.nfs csi: 'nfs csi' is not the name of a CSI driver, such as nfs.csi.k8s.io",
        ),
        (
            "storage: {backends: {nfs.csi.k8s.io: ''}}",
            '3: storage.backends."nfs.csi.k8s.io": names no volume attribute; write one, such as server',
        ),
        (
            "storage: {breaker: {share: 80}}",
            (
                "3: storage.breaker.share: 80.0 does not fit; write more than 0 and at most 1, which never opens the "
                "breaker"
            ),
        ),
        ("storage: {breaker: {minNodes: 0}}", "3: storage.breaker.minNodes: 0 does not fit; write 1 or more"),
        (
            "score: {weights: {latency: 1}}",
            (
                "3: score.weights.latency: unknown key; did you mean 'storageLatency'? "
                "(known: capacity, cpu, gpu, ioPressure, memory, nearness, storageLatency)"
            ),
        ),
        (
            "score:\n  weights:\n    cpu: -1",
            "5: score.weights.cpu: -1.0 is not a weight; write a number from 0 to 1000, 0 for what must not count",
        ),
        (
            "score: {weights: {cpu: .nan}}",
            "3: score.weights.cpu: nan is not a weight; write a number from 0 to 1000, 0 for what must not count",
        ),
        ("rules:", "3: rules: expected a list, got nothing"),
    ],
)
def test_what_cannot_work_is_named_with_its_line(text, expected):
    """File, line and key of the mistake, and what to write."""
    assert problems(text) == [expected]


def test_all_problems_are_told_at_once_in_file_order():
    """Nobody has to reload once per mistake."""
    found = problems("""\
        storage:
          default: {staleAfter: soon}
          breaker: {share: 0, minNodes: -1}
        rules:
        - name: Bad_Name
          require: {cel: 'node.nothing'}
        score: {weights: {cpu: 2000}}
        """)
    assert [line.partition(":")[0] for line in found] == ["4", "5", "5", "7", "8", "9"]


def test_another_kind_of_document_is_refused():
    """The collector's file in the place of the policy."""
    with pytest.raises(DocumentError, match="'HealthCollectorConfiguration' is not possible here"):
        parse_policy(HEAD.replace("SchedulingPolicy", "HealthCollectorConfiguration"), "policy.yaml")
