"""The control plane itself works: a claim is bound, a pod with it is scheduled, RBAC is on."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from leadsman.testing.process import ProcessEndedError
from leadsman.testing.waiting import wait_for
from leadsman_e2e import objects
from leadsman_e2e.api import Api, ApiError, Object, condition
from leadsman_e2e.plane import ControlPlane
from leadsman_e2e.scheduler import Scheduler, render_scheduler_config

pytestmark = pytest.mark.e2e

NAMESPACE = "plane-smoke"
DRIVER = "csi.smoke.test"
NODE = "smoke-node"
PLAIN = "smoke-plain"
EXTENDED = "smoke-extended"


def scheduler_config(name: str) -> Object:
    """A configuration with one profile and no extender."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name}],
    }


@pytest.fixture(scope="module")
def node(api: Api) -> Iterator[str]:
    """One node with the driver, and the objects its volumes need."""
    api.create(objects.namespace(NAMESPACE))
    api.create(objects.csi_driver(DRIVER))
    api.create(objects.storage_class("smoke-wffc", DRIVER))
    objects.ready_node(api, NODE, drivers=[DRIVER])
    yield NODE
    api.delete("Node", NODE)
    api.delete("CSINode", NODE)
    api.delete("Namespace", NAMESPACE)


def bound_node(api: Api, name: str) -> str:
    """The node the pod is bound to, once it is."""
    pod = wait_for(
        f"pod {name} is bound",
        lambda: api.get("Pod", name, NAMESPACE),
        lambda pod: "nodeName" in pod["spec"],
    )
    return str(pod["spec"]["nodeName"])


def bind_a_pod_with_a_claim(api: Api, name: str, scheduler: str) -> str:
    """Create volume, claim and pod of one name; return the node the pod lands on."""
    api.create(objects.pv(name, DRIVER, claim=(NAMESPACE, name)))
    api.create(objects.pvc(NAMESPACE, name, volume=name))
    wait_for(
        f"claim {name} is bound",
        lambda: api.get("PersistentVolumeClaim", name, NAMESPACE),
        lambda claim: claim["status"].get("phase") == "Bound",
    )
    volumes = [objects.claim_volume(name)]
    api.create(objects.pod(NAMESPACE, name, volumes=volumes, scheduler=scheduler))
    return bound_node(api, name)


def test_a_pod_with_a_bound_claim_lands_on_the_node(plane: ControlPlane, api: Api, node: str, tmp_path: Path) -> None:
    """Controllers bind the claim and kube-scheduler binds the pod."""
    config = scheduler_config(PLAIN) | {
        "clientConnection": {"kubeconfig": str(plane.scheduler_kubeconfig)},
        "leaderElection": {"leaderElect": False},
    }
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with Scheduler.start(plane, path) as scheduler:
        assert bind_a_pod_with_a_claim(api, "plain", PLAIN) == node
        bound = api.get("Pod", "plain", NAMESPACE)
        assert (condition(bound, "PodScheduled") or {})["status"] == "True"
        wait_for(
            "the scheduler's event about the pod",
            lambda: [event["reason"] for event in api.events(NAMESPACE, "plain")],
            lambda reasons: "Scheduled" in reasons,
        )
        assert "scheduler_schedule_attempts_total" in scheduler.metrics()


def test_a_rendered_config_is_accepted_and_its_dead_extender_ignored(
    plane: ControlPlane, api: Api, node: str, tmp_path: Path
) -> None:
    """A configuration with an extender that nobody serves still schedules every shape of volume."""
    template = tmp_path / "template.yaml"
    extender = {
        "urlPrefix": "http://placeholder/",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    shipped = scheduler_config(EXTENDED) | {"extenders": [extender]}
    template.write_text(yaml.safe_dump(shipped), encoding="utf-8")
    rendered = render_scheduler_config(
        template,
        url_prefix="http://127.0.0.1:9",
        kubeconfig=plane.scheduler_kubeconfig,
        out=tmp_path / "scheduler.yaml",
        ignorable=True,
        http_timeout="500ms",
    )
    with Scheduler.start(plane, rendered):
        assert bind_a_pod_with_a_claim(api, "extended", EXTENDED) == node
        inline = objects.inline_csi_volume(DRIVER, {"share": "a"})
        scratch = objects.ephemeral_volume("smoke-wffc")
        api.create(objects.pod(NAMESPACE, "inline", volumes=[inline], scheduler=EXTENDED))
        assert bound_node(api, "inline") == node
        api.create(objects.pod(NAMESPACE, "waiting", volumes=[scratch], scheduler=EXTENDED))
        wait_for(
            "the claim of the ephemeral volume waits for its node's provisioner",
            lambda: api.find("PersistentVolumeClaim", "waiting-scratch", NAMESPACE) or {},
            lambda claim: (
                claim.get("metadata", {}).get("annotations", {}).get("volume.kubernetes.io/selected-node") == node
            ),
        )


def test_a_deployment_makes_pods(api: Api, node: str) -> None:
    """The controllers that scenarios rely on run."""
    api.apply(objects.deployment(NAMESPACE, "web", 2, scheduler="nobody"))
    wait_for(
        "two pods of the Deployment",
        lambda: [pod["metadata"]["name"] for pod in api.list("Pod", NAMESPACE, labels="app=web")],
        lambda names: len(names) == 2,
    )


def test_a_service_account_has_no_rights_of_its_own(plane: ControlPlane) -> None:
    """RBAC is on, so what a scenario does with our account is allowed by our manifests."""
    path = plane.service_account_kubeconfig("leadsman-system", "leadsman-gateway")
    token = yaml.safe_load(path.read_text(encoding="utf-8"))["users"][0]["user"]["token"]
    with pytest.raises(ApiError) as refused:
        Api(plane.server, token, plane.ca).list("Node")
    assert refused.value.status == 403
    assert "system:serviceaccount:leadsman-system:leadsman-gateway" in str(refused.value)
    with pytest.raises(KeyError, match=r"pass .* to ControlPlane"):
        plane.service_account_kubeconfig("leadsman-system", "stranger")


def test_a_scheduler_that_does_not_start_says_why(plane: ControlPlane, tmp_path: Path) -> None:
    """A mistake in a configuration shows in the test's failure."""
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump(scheduler_config("x") | {"typo": 1}), encoding="utf-8")
    with pytest.raises(ProcessEndedError, match="typo"):
        Scheduler.start(plane, path)


def test_the_certificate_is_valid_for_strict_clients(plane: ControlPlane) -> None:
    """No client has to switch verification off."""
    context = ssl.create_default_context(cafile=str(plane.ca))
    # What newer Pythons demand by default.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    address = urlsplit(plane.server)
    with (
        socket.create_connection((address.hostname, address.port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=address.hostname) as secured,
    ):
        assert secured.getpeercert()
