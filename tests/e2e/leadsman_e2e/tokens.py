"""Tokens of service accounts as a pod gets them: bound to the pod, and through it to its node."""

from __future__ import annotations

import json
from pathlib import Path

from leadsman_e2e import objects
from leadsman_e2e.api import Api
from leadsman_e2e.credentials import Identity, service_account_user, write_kubeconfig
from leadsman_e2e.plane import ControlPlane


def pod_token(api: Api, namespace: str, account: str, node: str | None) -> str:
    """A token for a pod on `node`, which is made if it is missing; with None a token bound to no pod."""
    spec: dict[str, object] = {"expirationSeconds": 3600}
    if node is not None:
        name = f"{account}-{node}"
        pod = api.find("Pod", name, namespace)
        if pod is None:
            body = objects.pod(namespace, name)
            body["spec"] |= {"nodeName": node, "serviceAccountName": account}
            pod = api.create(body)
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str(json.loads(api.request("POST", path, request))["status"]["token"])


def pod_kubeconfig(plane: ControlPlane, path: Path, namespace: str, account: str, node: str | None) -> Path:
    """Write a kubeconfig with such a token; see `pod_token`."""
    identity = Identity(service_account_user(namespace, account), token=pod_token(plane.api, namespace, account, node))
    return write_kubeconfig(path, server=plane.server, ca=plane.ca, identity=identity)
