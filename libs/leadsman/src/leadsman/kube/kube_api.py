"""`Api` on aiohttp, which NATS' client brings in anyway. Imported by `api.connect` only."""

import asyncio
import importlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from leadsman.domain.errors import ConfigError
from leadsman.kube.access import Access, service_account
from leadsman.kube.api import ApiStatusError, ApiUnreachableError, Call
from leadsman.telemetry.logs import get_logger

log = get_logger("kube.api")

CONNECT_S = 5.0
"""Time to set up a connection, TLS included."""

_LINE_BYTES = 1 << 21
"""The longest watch event: etcd takes objects of 1.5 MiB."""

_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}
"""A peer that is gone without a word is noticed within 25 s, long before the watch's own idle limit."""

Load = Callable[[], Awaitable[Access]]


class _Status(msgspec.Struct):
    message: str = ""


@dataclass(slots=True)
class _Session:
    """Connections with one set of credentials; a retired one is closed when its last call ends."""

    access: Access
    client: aiohttp.ClientSession
    users: int = 0
    retired: bool = False

    @asynccontextmanager
    async def used(self) -> AsyncIterator["_Session"]:
        self.users += 1
        try:
            yield self
        finally:
            self.users -= 1
            if self.retired and not self.users:
                await self.client.close()

    async def retire(self) -> None:
        self.retired = True
        if not self.users:
            await self.client.close()


class KubeApi:
    """See `Api`. Make it with `open`.

    Credentials are read again after a 401 or a TLS failure: that covers rotated tokens, certificates and authorities,
    whatever the kubeconfig gets them from. In-cluster tokens are also read again every minute.
    """

    def __init__(self, load: Load, access: Access, user_agent: str) -> None:
        self._load = load
        self._user_agent = user_agent
        self._session = self._new_session(access)
        self._renewing = asyncio.Lock()

    @classmethod
    async def open(cls, kubeconfig: Path | None, user_agent: str) -> "KubeApi":
        """See `api.connect`."""

        async def load() -> Access:
            return await _load(kubeconfig)

        return cls(load, await load(), user_agent)

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
        await self._session.client.close()

    @asynccontextmanager
    async def _answer(self, call: Call, limits: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        """A 2xx answer, its body unread; asked for a second time when the credentials had to be renewed."""
        current = self._session
        async with current.used() as session:
            answer = await _ask_unless_refused(session, call, limits)
            if answer is not None:
                async with answer:
                    yield answer
                return
        await self._renew(current)
        async with self._session.used() as session, await _ask(session, call, limits) as answer:
            yield answer

    async def _renew(self, refused: _Session) -> None:
        """Load the credentials again, unless another call has done so since `refused` was made."""
        async with self._renewing:
            if self._session is not refused:
                return
            try:
                self._session = self._new_session(await self._load())
            except ConfigError as error:
                raise ApiUnreachableError(f"the API server refused our credentials, and new ones: {error}") from error
        log.info("read the credentials for the API server again")
        # Not closed yet: a watch may still be running on it.
        await refused.retire()

    def _new_session(self, access: Access) -> _Session:
        client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=access.tls, socket_factory=_socket),
            headers={"User-Agent": self._user_agent},
            read_bufsize=_LINE_BYTES,
        )
        return _Session(access, client)


async def _load(kubeconfig: Path | None) -> Access:
    try:
        if kubeconfig is None:
            return service_account()
        module = await asyncio.to_thread(importlib.import_module, "leadsman.kube.kubeconfig")
        access: Access = await module.read_kubeconfig(kubeconfig)
    except ConfigError as error:
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster credentials"
        hint = "check the file" if kubeconfig else "run in a pod with a ServiceAccount, or give --kubeconfig"
        raise ConfigError(f"{where} cannot be used: {error}; {hint}") from error
    return access


async def _ask_unless_refused(
    session: _Session, call: Call, limits: aiohttp.ClientTimeout
) -> aiohttp.ClientResponse | None:
    """A 2xx answer, or None when new credentials may help."""
    try:
        return await _ask(session, call, limits)
    except ApiStatusError as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            return None
        raise
    except ApiUnreachableError as error:
        if isinstance(error.__cause__, aiohttp.ClientSSLError | ssl.SSLError):
            return None
        raise


async def _ask(session: _Session, call: Call, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
    access = session.access
    with _translated(call):
        answer = await session.client.request(
            call.method,
            f"{access.server}{call.path}",
            params=list(call.query),
            data=None if call.body is None else msgspec.json.encode(call.body),
            headers=_headers(access, call),
            timeout=limits,
            proxy=access.proxy,
            server_hostname=access.server_name,
            allow_redirects=False,  # our token goes to this server only
        )
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return answer
        async with answer:
            raise _status_error(call, answer, await answer.read())


def _headers(access: Access, call: Call) -> dict[str, str]:
    headers = {"Accept": call.accept}
    if call.body is not None:
        headers["Content-Type"] = call.content_type
    if authorization := access.authorization():
        headers["Authorization"] = authorization
    return headers


async def _lines(call: Call, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    # The client's errors are translated here, and not around the reader's own work, whose errors are its own.
    lines = aiter(answer.content)
    while True:
        with _translated(call):
            line = await anext(lines, None)
        if line is None:
            return
        yield line


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
