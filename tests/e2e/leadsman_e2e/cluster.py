"""A cluster with Leadsman in it: nodes whose storage can really break, and kube-scheduler as we ship it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from leadsman.testing.waiting import wait_for
from leadsman_e2e import objects
from leadsman_e2e.api import Api, Object, condition
from leadsman_e2e.pipeline import Pipeline
from leadsman_e2e.plane import ControlPlane
from leadsman_e2e.rights import COLLECTOR, DEPLOY, GATEWAY, NAMESPACE, apply_rights
from leadsman_e2e.scheduler import Scheduler, render_scheduler_config
from leadsman_e2e.setup import BACKENDS, DRIVER, Setup
from leadsman_e2e.tokens import pod_kubeconfig

SCHEDULER_CONFIG = DEPLOY / "scheduler" / "scheduler-config.yaml"

SCHEDULER_NAME = "leadsman-scheduler"
NODES = Setup().nodes
SPACE = "shop"
WFFC_CLASS = "nfs-a-wffc"
CPU_PER_NODE = "4"

UNKNOWN_CAP = 5
"""The best score of a node whose storage is not known (docs/scoring.md)."""


class Cluster:
    """Control plane, nodes, Leadsman and its scheduler, with the few actions that scenarios are made of."""

    def __init__(self, plane: ControlPlane, setup: Setup, pipeline: Pipeline, scheduler: Scheduler) -> None:
        self.api: Api = plane.api
        self.setup = setup
        self.pipeline = pipeline
        self.scheduler = scheduler

    @classmethod
    def start(cls, plane: ControlPlane, workdir: Path, setup: Setup | None = None) -> Cluster:
        """Create the objects, start the services and the scheduler; ready when every node is seen healthy."""
        setup = setup or Setup()
        create_objects(plane.api, setup)
        kubeconfig = plane.service_account_kubeconfig(NAMESPACE, GATEWAY)

        def access(node: str) -> Path:
            return pod_kubeconfig(plane, workdir / f"{node}.kubeconfig", NAMESPACE, COLLECTOR, node)

        pipeline = Pipeline.start(workdir, kubeconfig, setup, access)
        try:
            config = render_scheduler_config(
                SCHEDULER_CONFIG,
                url_prefix=pipeline.url,
                kubeconfig=plane.scheduler_kubeconfig,
                out=workdir / "scheduler.yaml",
            )
            cluster = cls(plane, setup, pipeline, Scheduler.start(plane, config))
            cluster.await_scores(claim_of("nfs-a"), lambda scores: min(scores.values()) > UNKNOWN_CAP)
        except BaseException:
            pipeline.stop()
            raise
        return cluster

    def stop(self) -> None:
        """End the scheduler and the services, and remove the nodes with what is bound to them."""
        self.scheduler.stop()
        self.pipeline.stop()
        for name in self.setup.nodes:
            self.api.delete("Pod", f"{COLLECTOR}-{name}", NAMESPACE)
            self.api.delete("Node", name)
            self.api.delete("CSINode", name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextlib.contextmanager
    def frozen(self, *nodes: str) -> Iterator[None]:
        """The CSI driver of `nodes` is frozen, and Leadsman has seen it; healed at the end."""
        for name in nodes:
            self.pipeline.nodes[name].freeze_driver()
        try:
            self.await_rejected(claim_of("nfs-a"), nodes)
            yield
        finally:
            for name in nodes:
                self.pipeline.nodes[name].thaw_driver()
            self.await_rejected(claim_of("nfs-a"), ())

    @contextlib.contextmanager
    def backend_down(self, node: str, backend: str) -> Iterator[None]:
        """One backend refuses connections from one node, and Leadsman has seen it; healed at the end."""
        self.pipeline.nodes[node].stop_backend(backend)
        try:
            self.await_rejected(claim_of(backend), (node,))
            yield
        finally:
            self.pipeline.nodes[node].start_backend(backend)
            self.await_rejected(claim_of(backend), ())

    def await_rejected(self, pod: Object, nodes: Sequence[str]) -> None:
        """Wait until the gateway rejects exactly `nodes` for `pod`."""
        wait_for(
            f"the gateway rejects {list(nodes) or 'nobody'}",
            lambda: self.pipeline.rejected(pod),
            lambda rejected: set(rejected) == set(nodes),
            within_s=30,
        )

    def await_scores(self, pod: Object, accept: Callable[[Mapping[str, int]], bool]) -> Mapping[str, int]:
        """The gateway's scores for `pod`, once `accept` likes them."""
        return wait_for(
            "the scores are as they should be",
            lambda: self.pipeline.scores(pod),
            lambda scores: len(scores) == len(self.setup.nodes) and accept(scores),
            within_s=30,
        )

    @contextlib.contextmanager
    def labelled(self, node: str, key: str, value: str) -> Iterator[None]:
        """The Node has a label; taken off again at the end."""
        self.api.patch("Node", node, {"metadata": {"labels": {key: value}}})
        try:
            yield
        finally:
            self.api.patch("Node", node, {"metadata": {"labels": {key: None}}})

    @contextlib.contextmanager
    def pod(self, name: str, **spec: object) -> Iterator[str]:
        """A pod for our scheduler; removed at the end."""
        self.api.create(objects.pod(SPACE, name, scheduler=SCHEDULER_NAME, **spec))  # type: ignore[arg-type]
        try:
            yield name
        finally:
            self.api.delete("Pod", name, SPACE)

    @contextlib.contextmanager
    def deployment(self, name: str, replicas: int, **spec: object) -> Iterator[list[str]]:
        """The nodes of the pods of a Deployment for our scheduler, once all are bound; all removed at the end."""
        body = objects.deployment(SPACE, name, replicas, scheduler=SCHEDULER_NAME, **spec)  # type: ignore[arg-type]
        self.api.create(body)
        try:
            yield self._await_nodes(f"app={name}", replicas)
        finally:
            self.api.delete("Deployment", name, SPACE)
            self._await_nodes(f"app={name}", 0)

    @contextlib.contextmanager
    def loose_pods(self, name: str, number: int, **spec: object) -> Iterator[list[str]]:
        """The same for pods that belong to nobody, as those of a Job do for kube-scheduler's spreading."""
        pods = [f"{name}-{one}" for one in range(number)]
        try:
            for pod in pods:
                labels = {"app": name}
                body = objects.pod(SPACE, pod, scheduler=SCHEDULER_NAME, labels=labels, **spec)  # type: ignore[arg-type]
                self.api.create(body)
            yield self._await_nodes(f"app={name}", number)
        finally:
            for pod in pods:
                self.api.delete("Pod", pod, SPACE)

    def _await_nodes(self, labels: str, number: int) -> list[str]:
        """Where the pods with these labels are bound, once they are so many and all of them are."""
        return wait_for(
            f"{number} pods {labels} are bound",
            lambda: [str(pod["spec"].get("nodeName", "")) for pod in self.api.list("Pod", SPACE, labels=labels)],
            lambda nodes: len(nodes) == number and all(nodes),
            within_s=60,
            every_s=0.1,
        )

    def await_bound(self, pod: str, within_s: float = 15.0) -> str:
        """The node that `pod` is bound to, once it is."""
        bound = wait_for(
            f"pod {pod} is bound",
            lambda: self.api.get("Pod", pod, SPACE),
            lambda got: "nodeName" in got["spec"],
            within_s=within_s,
            every_s=0.02,
        )
        return str(bound["spec"]["nodeName"])

    def await_unschedulable(self, pod: str, text: str) -> str:
        """The message of a pod that is Pending because of `text`, once it says so."""
        return wait_for(
            f"pod {pod} is Pending because of {text!r}",
            lambda: str((condition(self.api.get("Pod", pod, SPACE), "PodScheduled") or {}).get("message", "")),
            lambda message: text in message,
            within_s=15,
        )


def claim_of(backend: str, labels: Mapping[str, str] | None = None) -> Object:
    """A pod body, as kube-scheduler would send it, that uses the claim on `backend`."""
    return {
        "metadata": {"name": "probe", "namespace": SPACE, "uid": "probe", "labels": dict(labels or {})},
        "spec": {"volumes": [objects.claim_volume(backend)]},
    }


def create_objects(api: Api, setup: Setup) -> None:
    """Nodes, a bound claim for each backend (named like it), a class for unbound ones, and Leadsman's rights.

    All but the nodes may be there from an earlier cluster.
    """
    api.apply(objects.namespace(SPACE))
    apply_rights(api)
    ensure(api, objects.csi_driver(DRIVER))
    for name in setup.nodes:
        objects.ready_node(api, name, cpu=CPU_PER_NODE, drivers=[DRIVER])
    for backend in BACKENDS:
        attributes = {"server": backend, "share": "/export"}
        ensure(api, objects.pv(f"pv-{backend}", DRIVER, attributes=attributes, claim=(SPACE, backend)))
        ensure(api, objects.pvc(SPACE, backend, volume=f"pv-{backend}"))
        await_claim(api, backend)
    ensure(api, objects.storage_class(WFFC_CLASS, DRIVER, parameters={"server": "nfs-a", "share": "/export"}))


def ensure(api: Api, wanted: Object) -> None:
    """Create an object unless there is one of its name."""
    if api.find(wanted["kind"], wanted["metadata"]["name"], wanted["metadata"].get("namespace")) is None:
        api.create(wanted)


def await_claim(api: Api, name: str) -> Mapping[str, object]:
    """The claim, once the controller has bound it."""
    return wait_for(
        f"claim {name} is bound",
        lambda: api.get("PersistentVolumeClaim", name, SPACE),
        lambda claim: claim["status"].get("phase") == "Bound",
    )
