"""The gateway's HTTP face: the extender's verbs, the administrative paths, one plain sentence for all else."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import orjson
from prometheus_client import Counter, Histogram

from leadsman.domain.clock import Clock
from leadsman.runtime.admin import AdminRoutes
from leadsman.runtime.http import Receive, Scope, Send, respond
from leadsman.telemetry.logs import get_logger
from leadsman.wire.extender import BodyError
from leadsman_gateway.body import ClientGoneError, RefusedError, discard, read_body
from leadsman_gateway.extender import Decision, Extender
from leadsman_gateway.metrics import GatewayMetrics

log = get_logger("gateway.http")

Handler = Callable[[bytes, float], Awaitable[tuple[bytes, Decision]]]

VERBS = ("filter", "prioritize", "preempt")
OUTCOMES = ("decided", "fast-path", "no-opinion", "failed-open", "failed-closed")


class Recorder(Protocol):
    """Takes note of an answered call; must be quick."""

    def record(self, decision: Decision) -> None:
        """Keep `decision` for the record."""
        ...


class GatewayApp:
    """ASGI app. `prefix` stands before the verbs only (`/v1` for `/v1/filter`); a trailing slash is ignored."""

    def __init__(
        self,
        extender: Extender,
        admin: AdminRoutes,
        recorder: Recorder,
        *,
        prefix: str,
        max_body: int,
        clock: Clock,
        metrics: GatewayMetrics,
    ) -> None:
        self._admin = admin
        self._recorder = recorder
        self._max_body = max_body
        self._clock = clock
        self._metrics = metrics
        prefix = "/" + prefix.strip("/") if prefix.strip("/") else ""
        handlers: dict[str, Handler] = {
            "filter": extender.filter,
            "prioritize": extender.prioritize,
            "preempt": extender.preempt,
        }
        self._routes = {f"{prefix}/{verb}": (verb, handler) for verb, handler in handlers.items()}
        self._seconds: dict[str, Histogram] = {verb: metrics.seconds.labels(verb) for verb in VERBS}
        self._bytes: dict[str, Counter] = {verb: metrics.body_bytes.labels(verb) for verb in VERBS}
        self._requests: dict[tuple[str, str], Counter] = {
            (verb, outcome): metrics.requests.labels(verb, outcome) for verb in VERBS for outcome in OUTCOMES
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        arrived = self._clock.monotonic()
        path: str = scope["path"]
        route = self._routes.get(path) or self._routes.get(path.rstrip("/"))
        if route is None and self._admin.handles(path):
            await self._admin(scope, receive, send)
            return
        verb = route[0] if route else "unknown"
        try:
            if route is None:
                raise self._unknown(path)
            reply, decision = await self._answer(verb, route[1], arrived, (scope, receive))
            await respond(send, 200, reply)
            self._finished(verb, arrived, decision)
        except (RefusedError, BodyError) as error:
            self._metrics.bad_requests.labels(verb, error.reason).inc()
            log.debug("bad request", verb=verb, reason=error.reason, error=str(error))
            await _refuse(error, receive, send)
        except ClientGoneError:
            self._metrics.bad_requests.labels(verb, "client_gone").inc()

    async def _answer(
        self, verb: str, handler: Handler, arrived: float, request: tuple[Scope, Receive]
    ) -> tuple[bytes, Decision]:
        scope, receive = request
        if scope["method"] != "POST":
            raise RefusedError(405, "method", f"{verb} is called with POST, not {scope['method']}")
        body = await read_body(scope, receive, self._max_body)
        self._bytes[verb].inc(len(body))
        return await handler(body, arrived)

    def _finished(self, verb: str, arrived: float, decision: Decision) -> None:
        """Everything that may wait until the answer is on its way."""
        decision.seconds = self._clock.monotonic() - arrived
        outcome = decision.ruling.outcome
        self._seconds[verb].observe(decision.seconds)
        self._requests[verb, outcome].inc()
        if verb != "prioritize" and outcome in {"decided", "failed-open", "failed-closed"}:
            self._metrics.degraded.set(outcome != "decided")
        if verb == "filter" and decision.failed and len(decision.failed) == decision.candidates:
            self._metrics.whole_sample.inc()
        self._recorder.record(decision)

    def _unknown(self, path: str) -> RefusedError:
        verbs = ", ".join(self._routes)
        return RefusedError(404, "unknown_verb", f"{path[:200]} is not a verb of this extender; POST to {verbs}")


async def _refuse(error: RefusedError | BodyError, receive: Receive, send: Send) -> None:
    """Answer with the error's sentence; a body that is still on its way is read off first, then the line is closed."""
    status, unread = (error.status, True) if isinstance(error, RefusedError) else (400, False)
    body = orjson.dumps({"error": str(error)})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if unread:
        headers.append((b"connection", b"close"))
    if status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": unread})
    if unread:
        await discard(receive)
        await send({"type": "http.response.body", "body": b""})
