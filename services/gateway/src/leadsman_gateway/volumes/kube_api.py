"""`Api` on the asynchronous Kubernetes client, which brings authentication, proxies and TLS.

Imported by `api.connect` only. The client's generated API classes and models are left alone: importing them costs
2 s and 120 MB, and the raw bodies are decoded elsewhere.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
from kubernetes.aio import config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from leadsman.domain.errors import ConfigError
from leadsman.telemetry.logs import get_logger
from leadsman_gateway.volumes.api import ApiStatusError, ApiUnreachableError, Call

log = get_logger("gateway.api")

CONNECT_S = 5.0
"""Time to set up a connection, TLS included."""

LOAD_S = 30.0
"""Time to read credentials; a kubeconfig may call a program for them."""

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}
"""A peer that is gone without a word is noticed within 25 s, long before the watch's own idle limit."""


class _Status(msgspec.Struct):
    message: str = ""


class _RestClient(RESTClientObject):
    """Connections that notice a dead peer."""

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=self.maxsize, ssl=self.ssl_context, socket_factory=_socket)


@dataclass(slots=True)
class _Session:
    """A client with one set of credentials; a retired one is closed when its last call ends."""

    client: ApiClient
    users: int = 0
    retired: bool = False

    @asynccontextmanager
    async def used(self) -> AsyncIterator[ApiClient]:
        self.users += 1
        try:
            yield self.client
        finally:
            self.users -= 1
            if self.retired and not self.users:
                await self.close()

    async def retire(self) -> None:
        self.retired = True
        if not self.users:
            await self.close()

    async def close(self) -> None:
        await self.client.rest_client.close()


class KubeApi:
    """See `Api`. Make it with `open`.

    Credentials are read again after a 401 or a TLS failure: that covers rotated tokens, certificates and authorities,
    whatever the kubeconfig gets them from. In-cluster tokens are also read again every minute.
    """

    def __init__(self, kubeconfig: Path | None, client: ApiClient) -> None:
        self._kubeconfig = kubeconfig
        self._session = _Session(client)
        self._renewing = asyncio.Lock()

    @classmethod
    async def open(cls, kubeconfig: Path | None) -> "KubeApi":
        """See `api.connect`."""
        return cls(kubeconfig, await _load(kubeconfig))

    async def call(self, call: Call, *, deadline_s: float) -> bytes:
        """See `Api.call`."""
        limits = aiohttp.ClientTimeout(total=deadline_s, sock_connect=min(CONNECT_S, deadline_s))
        async with self._answer(call, limits) as answer:
            with _translated(call):
                return await answer.read()

    @asynccontextmanager
    async def lines(self, call: Call, *, idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Api.lines`."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=idle_s)
        async with self._answer(call, limits) as answer:
            yield _lines(call, answer)

    async def close(self) -> None:
        """See `Api.close`."""
        await self._session.close()

    @asynccontextmanager
    async def _answer(self, call: Call, limits: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        """A 2xx answer, its body unread; asked for a second time when the credentials had to be renewed."""
        session = self._session
        async with session.used() as client:
            answer = await _ask_unless_refused(client, call, limits)
            if answer is not None:
                async with answer:
                    yield answer
                return
        await self._renew(session)
        async with self._session.used() as client, await _ask(client, call, limits) as answer:
            yield answer

    async def _renew(self, refused: _Session) -> None:
        """Load the credentials again, unless another call has done so since `refused` was made."""
        async with self._renewing:
            if self._session is not refused:
                return
            try:
                self._session = _Session(await _load(self._kubeconfig))
            except ConfigError as error:
                raise ApiUnreachableError(f"the API server refused our credentials, and new ones: {error}") from error
        log.info("read the credentials for the API server again")
        # Not closed yet: a watch may still be running on it.
        await refused.retire()


async def _ask_unless_refused(
    client: ApiClient, call: Call, limits: aiohttp.ClientTimeout
) -> aiohttp.ClientResponse | None:
    """A 2xx answer, or None when new credentials may help."""
    try:
        return await _ask(client, call, limits)
    except ApiStatusError as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            return None
        raise
    except ApiUnreachableError as error:
        if isinstance(error.__cause__, aiohttp.ClientSSLError | ssl.SSLError):
            return None
        raise


async def _ask(client: ApiClient, call: Call, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
    parameters = await client.param_serialize(
        method=call.method,
        resource_path=call.path,
        query_params=list(call.query),
        header_params={"Accept": "application/json", "Content-Type": call.content_type},
        body=call.body,
        auth_settings=["BearerToken"],
    )
    with _translated(call):
        answer: aiohttp.ClientResponse = (await client.call_api(*parameters, _request_timeout=limits)).response
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return answer
        async with answer:
            raise _status_error(call, answer, await answer.read())


async def _lines(call: Call, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    # The client's errors are translated here, and not around the reader's own work, whose errors are its own.
    lines = aiter(answer.content)
    while True:
        with _translated(call):
            line = await anext(lines, None)
        if line is None:
            return
        yield line


async def _load(kubeconfig: Path | None) -> ApiClient:
    settings = Configuration()
    where = f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster credentials"
    try:
        if kubeconfig:
            _check_form(kubeconfig)
            async with asyncio.timeout(LOAD_S):
                await config.load_kube_config(  # type: ignore[no-untyped-call]
                    str(kubeconfig), client_configuration=settings, persist_config=False
                )
        else:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        # Python 3.13 refuses authorities without every RFC 5280 extension; kubectl takes them, and so do we.
        settings.disable_strict_ssl_verification = True
        client = ApiClient(configuration=settings)
        client.rest_client = _RestClient(settings)
    except (config.ConfigException, OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
        hint = "check the file" if kubeconfig else "run in a pod with a ServiceAccount, or give --kubeconfig"
        said = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"{where} cannot be used: {said}; {hint}") from error
    client.user_agent = "leadsman-gateway"
    return client


def _check_form(kubeconfig: Path) -> None:
    """Raise ValueError for a file of another kind, on which the client's loader fails in words about itself."""
    content = yaml.safe_load(kubeconfig.read_bytes())
    if not isinstance(content, dict) or not isinstance(content.get("clusters"), list):
        raise ValueError("it is not a kubeconfig (kind: Config, with a list of clusters)")  # noqa: TRY004 - the file, not the caller


@contextmanager
def _translated(call: Call) -> Iterator[None]:
    what = f"{call.method} {call.path}"
    try:
        yield
    except TimeoutError as error:
        raise ApiUnreachableError(f"{what}: no answer from the API server in time") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ApiUnreachableError(f"{what}: {str(error) or type(error).__name__}") from error


def _status_error(call: Call, answer: aiohttp.ClientResponse, body: bytes) -> ApiStatusError:
    try:
        message = msgspec.json.decode(body, type=_Status).message
    except msgspec.DecodeError:
        message = body[:200].decode(errors="replace")
    wait = answer.headers.get("Retry-After", "")
    return ApiStatusError(
        f"{call.method} {call.path}: {answer.status} {message or answer.reason}",
        answer.status,
        float(wait) if wait.isdigit() else 0.0,
    )


def _socket(address: Any) -> socket.socket:  # noqa: ANN401 - aiohttp gives getaddrinfo's tuple
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)  # noqa: FBT003 - no keyword is offered
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # names differ between systems
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
