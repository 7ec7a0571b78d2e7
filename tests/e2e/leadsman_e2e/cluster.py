"""A cluster with Leadsman in it: three nodes whose storage can really break, and kube-scheduler as we ship it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import yaml

from leadsman.testing.waiting import wait_for
from leadsman_e2e import objects
from leadsman_e2e.api import Api, Object, condition
from leadsman_e2e.pipeline import BACKENDS, DRIVER, NAMESPACE, Pipeline
from leadsman_e2e.plane import ControlPlane
from leadsman_e2e.scheduler import Scheduler, render_scheduler_config

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
SCHEDULER_CONFIG = DEPLOY / "scheduler" / "scheduler-config.yaml"
RBAC = DEPLOY / "rbac.yaml"

SCHEDULER_NAME = "leadsman-scheduler"
NODES = ("node-1", "node-2", "node-3")
SPACE = "shop"
WFFC_CLASS = "nfs-a-wffc"
CPU_PER_NODE = "4"


class Cluster:
    """Control plane, nodes, Leadsman and its scheduler, with the few actions that scenarios are made of."""

    def __init__(self, plane: ControlPlane, pipeline: Pipeline, scheduler: Scheduler) -> None:
        self.api: Api = plane.api
        self.pipeline = pipeline
        self.scheduler = scheduler

    @classmethod
    def start(cls, plane: ControlPlane, workdir: Path) -> Cluster:
        """Create the objects, start the services and the scheduler; ready when every node is seen healthy."""
        create_objects(plane.api)
        kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "leadsman-gateway")
        pipeline = Pipeline.start(workdir, kubeconfig, NODES)
        try:
            config = render_scheduler_config(
                SCHEDULER_CONFIG,
                url_prefix=pipeline.url,
                kubeconfig=plane.scheduler_kubeconfig,
                out=workdir / "scheduler.yaml",
            )
            cluster = cls(plane, pipeline, Scheduler.start(plane, config))
            cluster.await_rejected(claim_of("nfs-a"), ())
        except BaseException:
            pipeline.stop()
            raise
        return cluster

    def stop(self) -> None:
        """End the scheduler and the services, and remove the nodes."""
        self.scheduler.stop()
        self.pipeline.stop()
        for name in NODES:
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
        self.pipeline.stop_backend(node, backend)
        try:
            self.await_rejected(claim_of(backend), (node,))
            yield
        finally:
            self.pipeline.start_backend(node, backend)
            self.await_rejected(claim_of(backend), ())

    def await_rejected(self, pod: Object, nodes: Sequence[str]) -> None:
        """Wait until the gateway rejects exactly `nodes` for `pod`."""
        wait_for(
            f"the gateway rejects {list(nodes) or 'nobody'}",
            lambda: self.pipeline.rejected(pod),
            lambda rejected: set(rejected) == set(nodes),
            within_s=30,
        )

    @contextlib.contextmanager
    def pod(self, name: str, **spec: object) -> Iterator[str]:
        """A pod for our scheduler; removed at the end."""
        self.api.create(objects.pod(SPACE, name, scheduler=SCHEDULER_NAME, **spec))  # type: ignore[arg-type]
        try:
            yield name
        finally:
            self.api.delete("Pod", name, SPACE)

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


def claim_of(backend: str) -> Object:
    """A pod body, as kube-scheduler would send it, that uses the claim on `backend`."""
    return {
        "metadata": {"name": "probe", "namespace": SPACE, "uid": "probe"},
        "spec": {"volumes": [objects.claim_volume(backend)]},
    }


def create_objects(api: Api) -> None:
    """Nodes, a bound claim for each backend (named like it), a class for unbound ones, and Leadsman's rights."""
    for space in (SPACE, NAMESPACE):
        api.apply(objects.namespace(space))
    for document in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")):
        if document:
            api.apply(document)
    api.create(objects.csi_driver(DRIVER))
    for name in NODES:
        objects.ready_node(api, name, cpu=CPU_PER_NODE, drivers=[DRIVER])
    for backend in BACKENDS:
        attributes = {"server": backend, "share": "/export"}
        api.create(objects.pv(f"pv-{backend}", DRIVER, attributes=attributes, claim=(SPACE, backend)))
        api.create(objects.pvc(SPACE, backend, volume=f"pv-{backend}"))
        await_claim(api, backend)
    api.create(objects.storage_class(WFFC_CLASS, DRIVER, parameters={"server": "nfs-a", "share": "/export"}))


def await_claim(api: Api, name: str) -> Mapping[str, object]:
    """The claim, once the controller has bound it."""
    return wait_for(
        f"claim {name} is bound",
        lambda: api.get("PersistentVolumeClaim", name, SPACE),
        lambda claim: claim["status"].get("phase") == "Bound",
    )
