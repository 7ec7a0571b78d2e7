"""The one write that wakes pods which the extender has rejected.

kube-scheduler tries such a pod again only on an API event. An update of a CSIStorageCapacity is one, it concerns no
other object, and it needs no right on Nodes, PVs or classes. The object is a dummy: no class has its name, it offers no
space, and it selects no node.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from leadsman.domain.errors import LeadsmanError
from leadsman.kube.api import MERGE_PATCH, Api, ApiError, ApiStatusError, Call

NAME = "leadsman-wake"
ANNOTATION = "leadsman.dev/wake"
_ROOT = "/apis/storage.k8s.io/v1/namespaces"


class WakeError(LeadsmanError):
    """The wake-up was not written; rejected pods wait for the next event, up to 5 minutes."""


class WakeObject:
    """Writes wake-ups in `namespace`; one `write` takes at most `deadline_s`."""

    def __init__(self, api: Api, namespace: str, *, deadline_s: float = 5.0) -> None:
        self._api = api
        self._namespace = namespace
        self._deadline_s = deadline_s
        self._collection = f"{_ROOT}/{namespace}/csistoragecapacities"

    async def write(self, value: str) -> None:
        """Set the annotation to `value`, creating the object if it is missing.

        Writing the value that is there already changes nothing and wakes nobody: so several gateways may write the
        same one for the same recovery.

        Raises:
            WakeError: it was not written; the message says what to do.
        """
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._write(value)
        except TimeoutError:
            raise WakeError(
                f"the wake-up was not written within {self._deadline_s:g} s; is the API server well?"
            ) from (None)
        except ApiError as error:
            raise WakeError(self._advice(error)) from error

    async def _write(self, value: str) -> None:
        if await self._patch(value) or await self._create(value):
            return
        # Another gateway has created it between our two calls.
        if not await self._patch(value):
            raise WakeError(f"CSIStorageCapacity {self._namespace}/{NAME} comes and goes; who deletes it?")

    async def _patch(self, value: str) -> bool:
        """Whether the object was there to be patched."""
        body = {"metadata": {"annotations": {ANNOTATION: value}}}
        path = f"{self._collection}/{NAME}"
        return await self._unless(HTTPStatus.NOT_FOUND, Call("PATCH", path, body=body, content_type=MERGE_PATCH))

    async def _create(self, value: str) -> bool:
        """Whether the object was not there yet."""
        return await self._unless(
            HTTPStatus.CONFLICT, Call("POST", self._collection, body=wake_object(self._namespace, value))
        )

    async def _unless(self, status: int, call: Call) -> bool:
        try:
            await self._api.call(call, deadline_s=self._deadline_s)
        except ApiStatusError as error:
            if error.status == status:
                return False
            raise
        return True

    def _advice(self, error: ApiError) -> str:
        status = error.status if isinstance(error, ApiStatusError) else 0
        if status == HTTPStatus.FORBIDDEN:
            return (
                "no right to wake pods: the gateway's ServiceAccount needs 'create' on"
                f" csistoragecapacities.storage.k8s.io and 'patch' on the one named {NAME}, in namespace"
                f" {self._namespace}; apply deploy/rbac.yaml ({error})"
            )
        if status == HTTPStatus.NOT_FOUND:
            return f"namespace {self._namespace} does not exist; create it, or name another with --namespace ({error})"
        return f"the wake-up was not written: {error}"


def wake_object(namespace: str, value: str) -> dict[str, Any]:
    """The dummy as the API server takes it."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "leadsman", "app.kubernetes.io/component": "gateway"},
            "annotations": {ANNOTATION: value},
        },
        "storageClassName": NAME,
        "capacity": "0",
        "nodeTopology": {"matchLabels": {ANNOTATION: "selects-no-node"}},
    }
