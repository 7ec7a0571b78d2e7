"""The API server as the catalogue and the wake object see it: a few calls, and errors that say what to do.

Nothing here imports the Kubernetes client: it costs 1.3 s and 40 MB, which a gateway without a cluster need not pay.
`connect` brings it in.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from leadsman.domain.errors import LeadsmanError

Query = Sequence[tuple[str, str]]


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
    """One request. `body` is sent as JSON with `content_type`."""

    method: str
    path: str
    query: Query = ()
    body: Any = None
    content_type: str = "application/json"


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


async def connect(kubeconfig: Path | None) -> Api:
    """The API server that `kubeconfig` names, or, for None, the one of the cluster that we run in.

    No call is made yet. Close it at the end.

    Raises:
        ConfigError: the kubeconfig or the pod's credentials cannot be used.
    """
    # In a thread: the import takes a second, and /livez should answer meanwhile.
    module = await asyncio.to_thread(importlib.import_module, "leadsman_gateway.volumes.kube_api")
    api: Api = await module.KubeApi.open(kubeconfig)
    return api


def is_expired(error: ApiError) -> bool:
    """Whether the server has forgotten the resourceVersion or continue token that we asked for (410 Gone)."""
    return isinstance(error, ApiStatusError) and error.status == HTTPStatus.GONE
