"""What operators and the kubelet ask of every service: /livez, /readyz, /metrics and /version."""

from collections.abc import Callable
from dataclasses import dataclass

import orjson
from prometheus_client import CollectorRegistry, generate_latest

from leadsman.runtime.http import Receive, Scope, Send, respond
from leadsman.telemetry.version import version

_TEXT = b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of readiness or a degradation worth showing.

    `probe` returns (fine, words for people). A check with `required=False` is shown but never makes the service
    unready: a degraded service still decides better than none.
    """

    name: str
    probe: Callable[[], tuple[bool, str]]
    required: bool = True


class AdminRoutes:
    """ASGI app for the administrative paths; also mounted by the gateway beside its own."""

    def __init__(self, component: str, registry: CollectorRegistry, checks: list[Check]) -> None:
        self._component = component
        self._registry = registry
        self._checks = checks

    def handles(self, path: str) -> bool:
        """Whether `path` is administrative."""
        return path in {"/livez", "/readyz", "/healthz", "/metrics", "/version"} or path.startswith("/readyz/")

    def ready(self) -> bool:
        """Whether every required check is fine."""
        return all(check.probe()[0] for check in self._checks if check.required)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Answer one request; an unknown path gets a 404 that lists the known ones."""
        path: str = scope["path"]
        if path in {"/livez", "/healthz"}:
            await respond(send, 200, b"ok", _TEXT)
        elif path == "/readyz":
            await self._readyz(self._checks, send, verbose=b"verbose" in scope["query_string"])
        elif path.startswith("/readyz/"):
            named = [check for check in self._checks if check.name == path.removeprefix("/readyz/")]
            await (self._readyz(named, send, verbose=True) if named else self._not_found(send))
        elif path == "/metrics":
            await respond(send, 200, generate_latest(self._registry), b"text/plain; version=0.0.4; charset=utf-8")
        elif path == "/version":
            await respond(send, 200, orjson.dumps({"component": self._component, "version": version()}))
        else:
            await self._not_found(send)

    async def _readyz(self, checks: list[Check], send: Send, *, verbose: bool) -> None:
        results = [(check, *check.probe()) for check in checks]
        ready = all(fine for check, fine, _ in results if check.required)
        lines = [
            f"[{'+' if fine else '-'}]{check.name} {words}{'' if check.required or fine else ' (degraded)'}"
            for check, fine, words in results
        ]
        verdict = f"{self._component} is {'ready' if ready else 'not ready'}"
        text = "\n".join([*lines, verdict, ""]) if verbose or not ready else "ok"
        await respond(send, 200 if ready else 503, text.encode(), _TEXT)

    async def _not_found(self, send: Send) -> None:
        await respond(send, 404, b"not found; try /livez /readyz?verbose /metrics /version", _TEXT)
