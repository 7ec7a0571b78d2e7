"""An HTTP server (uvicorn) that lives inside a service's task group and leaves signals to it."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from functools import partial
from typing import Any, cast

import uvicorn

from leadsman.domain.errors import LeadsmanError
from leadsman.runtime.http_protocol import BadHttp, WholeAnswersProtocol, ignore

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

KEEP_ALIVE_S = 120
"""Longer than the 90 s after which Go's client drops an idle connection; closing first fails a scheduling attempt."""


class ListenError(LeadsmanError):
    """The address cannot be listened on."""


class HttpServer(uvicorn.Server):
    """Serves one ASGI app; `port` is known once `listen` has returned.

    Host `::` means every address, of IPv4 too where the system can. `on_bad` hears of connections that were ended
    because they brought no request that the app could be asked about.
    """

    def __init__(
        self, app: AsgiApp, host: str, port: int, *, drain_s: int = 5, on_bad: Callable[[BadHttp], None] = ignore
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                loop="uvloop",
                http=cast("type[asyncio.Protocol]", partial(WholeAnswersProtocol, on_bad=on_bad)),
                ws="none",
                lifespan="off",
                interface="asgi3",
                access_log=False,
                log_config=None,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=drain_s,
            )
        )
        self._host = host
        self._port = port

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Do nothing: the service's own runtime handles signals."""
        yield

    @property
    def port(self) -> int:
        """The port in use, also when 0 was asked for."""
        return self._port

    async def listen(self) -> None:
        """Bind the address and begin to answer.

        Raises:
            ListenError: the address is taken or not ours.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        both = self._host == "::" and socket.has_dualstack_ipv6()
        try:
            self._socket = socket.create_server(
                (self._host, self._port), family=family, backlog=1024, dualstack_ipv6=both
            )
        except OSError as error:
            where = f"[{self._host}]" if ":" in self._host else self._host
            raise ListenError(
                f"cannot listen on {where}:{self._port}: {error.strerror}; choose another address or port"
            ) from error
        self._port = self._socket.getsockname()[1]

    async def run_forever(self) -> None:
        """Answer until cancelled, then finish what is under way (at most `drain_s` seconds)."""
        try:
            await self.serve(sockets=[self._socket])
        except asyncio.CancelledError:
            if self.started:  # uvicorn itself would leave its connections open
                await self.shutdown(sockets=[self._socket])
            raise

    def stop(self) -> None:
        """Stop accepting; `run_forever` returns once open requests are answered."""
        self.should_exit = True


async def respond(send: Send, status: int, body: bytes, content_type: bytes = b"application/json") -> None:
    """Send one whole answer; Content-Length lets the client reuse its connection."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", content_type), (b"content-length", str(len(body)).encode())],
        }
    )
    await send({"type": "http.response.body", "body": body})
