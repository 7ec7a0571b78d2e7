"""The files under deploy/health-collector grant what the code uses, and nothing else."""

from pathlib import Path

import pytest
import yaml

from leadsman_health_collector.kube.condition import CONDITION
from leadsman_health_collector.kube.event_series import NAMESPACE
from leadsman_health_collector.kube.objects import watched_csi_drivers, watched_csi_node, watched_node

DEPLOY = Path(__file__).parents[3] / "deploy" / "health-collector"
ACCOUNT = {"kind": "ServiceAccount", "name": "leadsman-health-collector", "namespace": "leadsman-system"}


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


def test_collector_may_read_what_it_watches_and_nothing_else():
    """Get, list and watch of three kinds; no write in the whole cluster."""
    watched = [one.path.split("/") for one in (watched_node("n"), watched_csi_node("n"), watched_csi_drivers())]
    wanted = {
        ("" if parts[1] == "api" else parts[2], parts[-1], verb)
        for parts in watched
        for verb in ("get", "list", "watch")
    }
    (role,) = objects("rbac.yaml", "ClusterRole").values()
    assert granted(role) == wanted


def test_collector_may_write_events_about_nodes_only_where_they_belong():
    """One namespace; neither read nor delete."""
    (role,) = objects("rbac.yaml", "Role").values()
    assert role["metadata"]["namespace"] == NAMESPACE
    assert granted(role) == {("", "events", "create"), ("", "events", "patch")}


def test_right_for_the_condition_is_apart_and_comes_with_its_policy():
    """The policy speaks of the same account and the same condition as the code."""
    (role,) = objects("rbac-node-condition.yaml", "ClusterRole").values()
    assert granted(role) == {("", "nodes/status", "patch")}
    (policy,) = objects("rbac-node-condition.yaml", "ValidatingAdmissionPolicy").values()
    assert policy["spec"]["failurePolicy"] == "Fail"
    (condition,) = policy["spec"]["matchConditions"]
    assert f'"system:serviceaccount:{ACCOUNT["namespace"]}:{ACCOUNT["name"]}"' in condition["expression"]
    assert all(f'c.type != "{CONDITION}"' in one["expression"] for one in policy["spec"]["variables"])
    (binding,) = objects("rbac-node-condition.yaml", "ValidatingAdmissionPolicyBinding").values()
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


@pytest.mark.parametrize(
    ("path", "kind"),
    [("rbac.yaml", "ClusterRole"), ("rbac.yaml", "Role"), ("rbac-node-condition.yaml", "ClusterRole")],
)
def test_every_role_is_bound_to_the_collector(path, kind):
    """The bindings name the role of their file and namespace, and the account of rbac.yaml."""
    (account,) = objects("rbac.yaml", "ServiceAccount").values()
    assert account["metadata"].items() >= {"name": ACCOUNT["name"], "namespace": ACCOUNT["namespace"]}.items()
    (role,) = objects(path, kind).values()
    (binding,) = objects(path, f"{kind}Binding").values()
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": kind,
        "name": role["metadata"]["name"],
    }
    assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
    assert binding["subjects"] == [ACCOUNT]
