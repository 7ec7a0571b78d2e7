"""The files under deploy/ say what the code needs: a right that is missing shows only in a cluster."""

from pathlib import Path

import yaml

from leadsman.domain.durations import parse_duration
from leadsman_gateway.volumes.objects import RESOURCES
from leadsman_gateway.volumes.wake import NAME

DEPLOY = Path(__file__).parents[4] / "deploy"


def objects(path, kind):
    found = yaml.safe_load_all((DEPLOY / path).read_text(encoding="utf-8"))
    return {item["metadata"]["name"]: item for item in found if item["kind"] == kind}


def granted(role):
    return {
        (group, resource, verb, *rule.get("resourceNames", ()))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_gateway_may_read_what_it_watches_and_nothing_else():
    """Each kind of the catalogue: get, list and watch; no other kind, no other verb."""
    wanted = {
        ("" if one.root == "/api/v1" else one.root.split("/")[2], one.plural, verb)
        for one in RESOURCES.values()
        for verb in ("get", "list", "watch")
    }

    roles = objects("rbac.yaml", "ClusterRole")
    assert list(roles) == ["leadsman-gateway"]
    assert granted(roles["leadsman-gateway"]) == wanted


def test_gateway_may_write_its_wake_object_only():
    """One namespace, one name; creation cannot be limited to a name."""
    roles = objects("rbac.yaml", "Role")
    assert list(roles) == ["leadsman-gateway-wake"]
    assert roles["leadsman-gateway-wake"]["metadata"]["namespace"] == "leadsman-system"
    group, resource = "storage.k8s.io", "csistoragecapacities"
    assert granted(roles["leadsman-gateway-wake"]) == {(group, resource, "create"), (group, resource, "patch", NAME)}


def test_every_role_is_bound_to_the_gateway():
    """The bindings name existing roles and the ServiceAccount of the same file."""
    (account,) = objects("rbac.yaml", "ServiceAccount").values()
    assert account["metadata"] == account["metadata"] | {"name": "leadsman-gateway", "namespace": "leadsman-system"}
    for kind in ("ClusterRole", "Role"):
        for binding in objects("rbac.yaml", f"{kind}Binding").values():
            assert binding["roleRef"]["name"] in objects("rbac.yaml", kind)
            assert binding["subjects"] == [
                {"kind": "ServiceAccount", "name": "leadsman-gateway", "namespace": "leadsman-system"}
            ]


def test_scheduler_waits_longer_than_the_gateway():
    """The gateway answers at 800 ms whatever happens behind it; the scheduler must still be listening."""
    config = yaml.safe_load((DEPLOY / "scheduler/scheduler-config.yaml").read_text(encoding="utf-8"))
    (extender,) = config["extenders"]

    assert parse_duration(extender["httpTimeout"]) >= 2 * 0.8
    assert config["percentageOfNodesToScore"] == 100
    assert extender["nodeCacheCapable"] is True
    assert [extender[f"{verb}Verb"] for verb in ("filter", "prioritize", "preempt")] == [
        "filter",
        "prioritize",
        "preempt",
    ]


def test_strict_differs_in_one_word():
    """What is tested with one file holds for the other."""
    config, strict = (
        yaml.safe_load((DEPLOY / "scheduler" / name).read_text(encoding="utf-8"))
        for name in ("scheduler-config.yaml", "scheduler-config-strict.yaml")
    )

    assert config["extenders"][0]["ignorable"] is True
    assert strict["extenders"][0]["ignorable"] is False
    strict["extenders"][0]["ignorable"] = True
    assert strict == config
