"""The API server as services see it: raw calls, and errors that say what to do.

Bodies are bytes: the generated models of the client library cost 2 s and 120 MB to import, and each service decodes the
few fields that it reads.
"""

import asyncio
import importlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from leadsman.domain.errors import LeadsmanError

Query = Sequence[tuple[str, str]]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

JSON = "application/json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""`Call.accept` for an object, or a watch, without spec and status."""

METADATA_ONLY_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""`Call.accept` for a list of objects without spec and status."""


class ApiError(LeadsmanError):
    """A call to the API server that did not succeed. `retry_after_s` is how long the server asked us to wait."""

    retry_after_s: float = 0.0


class ApiUnreachableError(ApiError):
    """No answer: refused, cut, too late, or not to be trusted."""


class ApiStatusError(ApiError):
    """An answer other than 2xx."""

    def __init__(self, message: str, status: int, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `body` is sent as JSON with `content_type`; `accept` is the form asked for, always some JSON."""

    method: str
    path: str
    query: Query = ()
    body: Any = None
    content_type: str = JSON
    accept: str = JSON


class Api(Protocol):
    """An authenticated connection to one API server; renews its credentials by itself."""

    async def call(self, call: Call, *, deadline_s: float) -> bytes:
        """The body of a 2xx answer.

        Raises:
            ApiStatusError: any other answer.
            ApiUnreachableError: no answer within `deadline_s`.
        """
        ...

    def lines(self, call: Call, *, idle_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of a streamed 2xx answer; ends when the server ends it.

        Raises:
            ApiStatusError: any other answer.
            ApiUnreachableError: the stream broke, or nothing came for `idle_s`.
        """
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


async def connect(kubeconfig: Path | None, *, user_agent: str) -> Api:
    """The API server that `kubeconfig` names, or, for None, the one of the cluster that we run in.

    No call is made yet. Close it at the end. `user_agent` names us in the API server's audit log.

    Raises:
        ConfigError: the kubeconfig or the pod's credentials cannot be used.
    """
    # In a thread: the import may take a second, and /livez should answer meanwhile.
    module = await asyncio.to_thread(importlib.import_module, "leadsman.kube.kube_api")
    api: Api = await module.KubeApi.open(kubeconfig, user_agent)
    return api


def in_cluster() -> bool:
    """Whether this process runs in a pod that has been given credentials for its cluster."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and TOKEN_FILE.is_file()


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's credentials."""

TOKEN_FILE = SERVICE_ACCOUNT / "token"


def is_expired(error: ApiError) -> bool:
    """Whether the server has forgotten the resourceVersion or continue token that we asked for (410 Gone)."""
    return isinstance(error, ApiStatusError) and error.status == HTTPStatus.GONE
